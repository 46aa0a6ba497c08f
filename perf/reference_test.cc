#include "reference.h"

#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <set>

namespace tc::perf {
namespace {

constexpr float kInfinity = std::numeric_limits<float>::infinity();
constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

// c as an operator would compute it: fp32 sums in order, rounded once.
std::vector<std::byte> Multiply(const Inputs& inputs, size_t m, size_t n, size_t k, int rank, size_t set) {
  std::vector<std::byte> c(m * n * inputs.Type().bytes);
  std::vector<float> a(k);
  std::vector<float> b(k);
  for (size_t i = 0; i < m; ++i) {
    inputs.ReadA(set, i, 0, a);
    for (size_t j = 0; j < n; ++j) {
      inputs.ReadB(set, rank, j, 0, b);
      float sum = 0;
      for (size_t l = 0; l < k; ++l) sum += a[l] * b[l];
      Encode(inputs.Type(), {&sum, 1}, &c[(i * n + j) * inputs.Type().bytes]);
    }
  }
  return c;
}

TEST(ReferenceTest, DotSumsProductsAndMagnitudes) {
  std::vector<float> a;
  std::vector<float> b;
  for (int i = 0; i < 19; ++i) {
    a.push_back(static_cast<float>(i));
    b.push_back(i % 2 == 0 ? 1.0f : -1.0f);
  }
  EXPECT_EQ(Dot(a, b).value, 9);
  EXPECT_EQ(Dot(a, b).magnitude, 171);
}

TEST(ReferenceTest, AcceptsRightResultsOfEveryTypeAndSet) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 3);
    for (size_t set = 0; set < inputs.Sets(); ++set) {
      GemmReference reference(inputs, 9, 7, 333, 1, 2, 3);
      EXPECT_FALSE(reference.IsSampled());
      EXPECT_EQ(reference.CountWrong(Multiply(inputs, 9, 7, 333, 1, set).data(), set, 0), 0u) << type.name;
    }
  }
}

TEST(ReferenceTest, SeesEverySingleElement) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 3);
    GemmReference reference(inputs, 5, 6, 40, 0, 2, 3);
    std::vector<std::byte> c = Multiply(inputs, 5, 6, 40, 0, 1);
    for (size_t i = 0; i < 30; ++i) {
      std::byte& low = c[i * type.bytes];
      low ^= std::byte{1};  // the smallest error there is
      EXPECT_EQ(reference.CountWrong(c.data(), 1, 0), 1u) << type.name;
      low ^= std::byte{1};
    }
  }
}

TEST(ReferenceTest, SeesResultsOfAnotherSetRankOrIteration) {
  const GeneratedInputs inputs(ElementTypeOf(tcFloat32), 3);
  GemmReference reference(inputs, 8, 8, 64, 0, 2, 3);
  EXPECT_GT(reference.CountWrong(Multiply(inputs, 8, 8, 64, 0, 0).data(), 1, 0), 60u);
  EXPECT_GT(reference.CountWrong(Multiply(inputs, 8, 8, 64, 0, 1).data(), 0, 0), 60u);
  EXPECT_GT(reference.CountWrong(Multiply(inputs, 8, 8, 64, 1, 0).data(), 0, 0), 60u);
}

TEST(ReferenceTest, SeesLostPrecisionOfInputs) {
  const GeneratedInputs full(ElementTypeOf(tcFloat32), 3);
  const GeneratedInputs rounded(ElementTypeOf(tcBfloat16), 3);
  GemmReference reference(full, 8, 8, 64, 0, 2, 3);
  const std::vector<std::byte> c = Multiply(rounded, 8, 8, 64, 0, 0);
  std::vector<float> values(64);
  Decode(rounded.Type(), c.data(), values);
  EXPECT_GT(reference.CountWrong(values.data(), 0, 0), 30u);
}

TEST(ReferenceTest, SeesPoison) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 3);
    GemmReference reference(inputs, 5, 6, 40, 0, 2, 3);
    const std::vector<std::byte> poison(5 * 6 * type.bytes, std::byte{0xff});
    EXPECT_EQ(reference.CountWrong(poison.data(), 0, 0), 30u);
    EXPECT_EQ(reference.CountWrong(poison.data(), 1, 0), 30u);
  }
}

TEST(ReferenceTest, SampleSeesPoisonEverywhereAndEdgesAlways) {
  const GeneratedInputs inputs(ElementTypeOf(tcFloat32), 3);
  const size_t m = 1000;
  const size_t n = 900;
  const size_t k = 150;
  const int n_ranks = 3;  // ranks own rows 0..333, 334..667, 668..999
  GemmReference reference(inputs, m, n, k, 0, n_ranks, 3);
  ASSERT_TRUE(reference.IsSampled());
  const std::vector<std::byte> right = Multiply(inputs, m, n, k, 0, 1);
  EXPECT_EQ(reference.CountWrong(right.data(), 1, 0), 0u);
  std::vector<float> c(m * n);
  std::memcpy(c.data(), right.data(), right.size());
  for (const size_t row : {0, 333, 334, 667, 668, 999}) {
    for (const size_t col : {0, 899}) {
      const float kept = c[row * n + col];
      c[row * n + col] += 1;
      EXPECT_EQ(reference.CountWrong(c.data(), 1, row), 1u) << row << " " << col;
      c[row * n + col] = kept;
    }
  }
  std::memset(&c[500 * n + 123], 0xff, sizeof(float));
  for (const uint64_t iteration : {0, 1, 2}) EXPECT_EQ(reference.CountWrong(c.data(), 1, iteration), 1u);
}

TEST(ReferenceTest, SampleHasItsSizeWhateverTheShape) {
  const GeneratedInputs inputs(ElementTypeOf(tcFloat32), 3);
  for (const auto& [m, n, k] : {std::array<size_t, 3>{1024, 1024, 129}, {1, 100000, 1400}, {100000, 2, 700}}) {
    // Far from every sum: each element is wrong, so that the count is the sample's size.
    const std::vector<float> c(m * n, 1e6f);
    GemmReference reference(inputs, m, n, k, 0, 2, 3);
    ASSERT_TRUE(reference.IsSampled());
    EXPECT_GE(reference.CountWrong(c.data(), 0, 0), GemmReference::kSampledElements) << m << " " << n;
  }
}

TEST(ReferenceTest, SampleMoves) {
  const GeneratedInputs inputs(ElementTypeOf(tcFloat32), 3);
  const size_t m = 1000;
  const size_t n = 900;
  const size_t k = 150;
  GemmReference reference(inputs, m, n, k, 0, 1, 3);
  std::vector<float> c(m * n);
  const std::vector<std::byte> right = Multiply(inputs, m, n, k, 0, 0);
  std::memcpy(c.data(), right.data(), right.size());
  for (size_t row = 100; row < 500; ++row) {
    for (size_t col = 100; col < 500; ++col) c[row * n + col] += 100;
  }
  std::set<uint64_t> counts;
  for (uint64_t iteration = 0; iteration < 5; ++iteration) counts.insert(reference.CountWrong(c.data(), 0, iteration));
  EXPECT_GT(counts.size(), 1u);
  EXPECT_GT(*counts.begin(), 0u);
}

TEST(ReferenceTest, ChecksGatheredBitByBit) {
  for (const ElementType& type : ElementTypes()) {
    const GeneratedInputs inputs(type, 3);
    const GemmReference reference(inputs, 5, 6, 40, 0, 2, 3);
    std::vector<std::byte> gathered(5 * 40 * type.bytes);
    std::vector<float> row(40);
    for (size_t i = 0; i < 5; ++i) {
      inputs.ReadA(0, i, 0, row);
      Encode(type, row, &gathered[i * 40 * type.bytes]);
    }
    EXPECT_EQ(reference.CountWrongGathered(gathered.data(), 0), 0u);
    EXPECT_GT(reference.CountWrongGathered(gathered.data(), 1), 100u);
    gathered[7 * type.bytes] ^= std::byte{1};
    EXPECT_EQ(reference.CountWrongGathered(gathered.data(), 0), 1u);
  }
}

TEST(ReferenceTest, NothingToCheckIsRight) {
  const GeneratedInputs inputs(ElementTypeOf(tcFloat32), 3);
  EXPECT_EQ(GemmReference(inputs, 0, 6, 40, 0, 2, 3).CountWrong(nullptr, 0, 0), 0u);
  EXPECT_EQ(GemmReference(inputs, 5, 0, 40, 0, 2, 3).CountWrong(nullptr, 0, 0), 0u);
}

TEST(ReferenceTest, ToleranceCoversRoundingAndNoMore) {
  const ElementType& half = ElementTypeOf(tcFloat16);
  EXPECT_TRUE(IsWithinTolerance(half, 1, {1.0 + 0x1p-11, 1.0}, 1.0f));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {1.0 + 0x1p-10, 1.0}, 1.0f));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {1.0, 1.0}, kNaN));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {1.0, 1.0}, kInfinity));
  const ElementType& single = ElementTypeOf(tcFloat32);
  EXPECT_TRUE(IsWithinTolerance(single, 1024, {0.0, 1024.0}, 0.1f)) << "cancellation: errors go by the magnitudes";
  EXPECT_FALSE(IsWithinTolerance(single, 1024, {0.0, 1024.0}, 0.2f));
}

TEST(ReferenceTest, ToleranceFollowsInfinityAndNaN) {
  const ElementType& half = ElementTypeOf(tcFloat16);
  EXPECT_TRUE(IsWithinTolerance(half, 1, {70000.0, 70000.0}, kInfinity));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {70000.0, 70000.0}, -kInfinity));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {60000.0, 60000.0}, kInfinity));
  EXPECT_TRUE(IsWithinTolerance(half, 1, {kNaN, kNaN}, kNaN));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {kNaN, kNaN}, 1.0f));
  EXPECT_TRUE(IsWithinTolerance(half, 1, {kInfinity, kInfinity}, kInfinity));
  EXPECT_FALSE(IsWithinTolerance(half, 1, {kInfinity, kInfinity}, 65504.0f));
  EXPECT_TRUE(IsWithinTolerance(ElementTypeOf(tcFloat32), 2, {0.0, 0x1p129}, kNaN)) << "inf - inf on the way";
}

}  // namespace
}  // namespace tc::perf
