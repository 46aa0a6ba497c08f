#include "inputs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>

namespace tc::perf {
namespace {

using Row = std::vector<float>;

Row RowA(const Inputs& inputs, size_t set, size_t row, size_t col = 0, size_t count = 300) {
  Row values(count);
  inputs.ReadA(set, row, col, values);
  return values;
}

Row RowB(const Inputs& inputs, size_t set, int rank, size_t row) {
  Row values(300);
  inputs.ReadB(set, rank, row, 0, values);
  return values;
}

TEST(GeneratedInputsTest, AreNeverZeroAndAtMostOne) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 1);
    for (size_t set = 0; set < inputs.Sets(); ++set) {
      for (const float value : RowA(inputs, set, 3, 0, 100000)) {
        ASSERT_NE(value, 0.0f);
        ASSERT_LE(std::fabs(value), 1.0f);
      }
    }
  }
}

TEST(GeneratedInputsTest, AreValuesOfTheirType) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 1);
    Row values = RowA(inputs, 0, 3, 5, 1000);
    std::vector<std::byte> elements(values.size() * type.bytes);
    Row back(values.size());
    Encode(type, values, elements.data());
    Decode(type, elements.data(), back);
    EXPECT_EQ(values, back) << type.name;
  }
}

TEST(GeneratedInputsTest, DifferBySetRowRankAndSeed) {
  const ElementType& type = ElementTypeOf(tcFloat32);
  const GeneratedInputs inputs(type, 1);
  for (size_t set = 0; set < inputs.Sets(); ++set) {
    EXPECT_NE(RowA(inputs, set, 0), RowA(inputs, set, 1));
    EXPECT_NE(RowA(inputs, set, 0), RowB(inputs, set, 0, 0));
    EXPECT_NE(RowB(inputs, set, 0, 0), RowB(inputs, set, 1, 0));
    EXPECT_NE(RowA(inputs, set, 0), RowA(GeneratedInputs(type, 2), set, 0));
  }
  EXPECT_NE(RowA(inputs, 0, 0), RowA(inputs, 1, 0));
}

TEST(GeneratedInputsTest, PartsOfARowAgreeWithTheRow) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 1);
    const Row whole = RowA(inputs, 0, 7, 0, 1000);
    EXPECT_EQ(Row(whole.begin() + 300, whole.begin() + 900), RowA(inputs, 0, 7, 300, 600));
  }
}

TEST(GeneratedInputsTest, ExactSetHoldsEighths) {
  const GeneratedInputs inputs(ElementTypeOf(tcBfloat16), 1);
  EXPECT_FALSE(inputs.Exact(0, 1));
  EXPECT_TRUE(inputs.Exact(1, 1 << 18));
  EXPECT_FALSE(inputs.Exact(1, (1 << 18) + 1)) << "2^18 products of multiples of 1/64 are what 24 bits hold";
  for (const float value : RowA(inputs, 1, 0)) EXPECT_EQ(value * 8, std::round(value * 8));
}

TEST(ArrayInputsTest, ReadBothLayoutsOfB) {
  const ElementType& type = ElementTypeOf(tcFloat32);
  const float values[6] = {1, 2, 3, 4, 5, 6};
  NpyMatrix nk = {&type, 2, 3, std::vector<std::byte>(sizeof(values))};
  std::memcpy(nk.bytes.data(), values, sizeof(values));
  NpyMatrix kn = nk;
  kn.rows = 3;
  kn.cols = 2;
  Row row(2);
  const ArrayInputs with_nk(nk, nk, tcBLayoutNK);
  with_nk.ReadB(0, 0, 1, 1, row);
  EXPECT_EQ(row, Row({5, 6}));
  with_nk.ReadA(0, 0, 1, row);
  EXPECT_EQ(row, Row({2, 3}));
  ArrayInputs(nk, kn, tcBLayoutKN).ReadB(0, 0, 1, 1, row);
  EXPECT_EQ(row, Row({4, 6}));
}

}  // namespace
}  // namespace tc::perf
