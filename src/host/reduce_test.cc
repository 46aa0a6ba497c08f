// The reduction of elements against one made one element at a time, bit by bit.
#include "host/reduce.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "base/data_type.h"
#include "elements.h"

namespace tc::host {
namespace {

constexpr tcRedOp_t kOps[] = {tcSum, tcProd, tcMax, tcMin, tcAvg};
constexpr tcDataType_t kTypes[] = {tcInt8,   tcUint8,   tcInt32,   tcUint32,  tcInt64,
                                   tcUint64, tcFloat16, tcFloat32, tcFloat64, tcBfloat16};
constexpr size_t kGuard = 64;

using Bytes = std::vector<std::byte>;

// One buffer for each source; the elements start `shift` elements behind an aligned address.
struct Sources {
  Sources(tcDataType_t type, int n_sources, size_t count, size_t shift, uint64_t seed)
      : element(ElementBytes(type)), begin(kGuard + shift * element) {
    for (int source = 0; source < n_sources; ++source) {
      Bytes buffer(begin + count * element + kGuard, std::byte{0xA5});
      for (size_t i = 0; i < count; ++i) {
        test::StoreElement(&buffer[begin + i * element], type, test::ElementBits(type, seed, source, i));
      }
      buffers.push_back(std::move(buffer));
    }
    for (const Bytes& buffer : buffers) pointers.push_back(buffer.data() + begin);
  }

  size_t element;
  size_t begin;
  std::vector<Bytes> buffers;
  std::vector<const std::byte*> pointers;
};

Bytes Expected(tcDataType_t type, tcRedOp_t op, int n_sources, size_t count, uint64_t seed) {
  Bytes expected(count * ElementBytes(type));
  for (size_t i = 0; i < count; ++i) {
    const auto bits = [&](int source) { return test::ElementBits(type, seed, source, i); };
    test::StoreElement(&expected[i * ElementBytes(type)], type, test::ReducedBits(type, op, n_sources, bits));
  }
  return expected;
}

TEST(Reduce, IsExactForEveryTypeOperationAndLengthAndWritesNothingElse) {
  uint64_t seed = 0;
  for (const tcDataType_t type : kTypes) {
    for (const tcRedOp_t op : kOps) {
      for (const size_t count : {0, 1, 2, 7, 16, 33, 1023, 1024, 1025, 3000}) {
        for (const int n_sources : {1, 2, 3, 16}) {
          const size_t shift = ++seed % 3;
          Sources sources(type, n_sources, count, shift, seed);
          Bytes expected(sources.buffers[0].size(), std::byte{0xA5});
          const Bytes result = Expected(type, op, n_sources, count, seed);
          std::copy(result.begin(), result.end(), expected.begin() + static_cast<ptrdiff_t>(sources.begin));
          Bytes out(expected.size(), std::byte{0xA5});
          Reduce(type, op, sources.pointers.data(), n_sources, out.data() + sources.begin, count);
          ASSERT_TRUE(out == expected) << TypeName(type) << " " << ReductionName(op) << " of " << n_sources << " x "
                                       << count;
          // In the place of one of the sources.
          Bytes& place = sources.buffers[seed % n_sources];
          Reduce(type, op, sources.pointers.data(), n_sources, place.data() + sources.begin, count);
          ASSERT_TRUE(place == expected) << TypeName(type) << " " << ReductionName(op) << " in place";
        }
      }
    }
  }
}

template <class T>
T Of(tcDataType_t type, tcRedOp_t op, std::vector<T> values) {
  std::vector<const std::byte*> sources;
  for (const T& value : values) sources.push_back(reinterpret_cast<const std::byte*>(&value));
  T result{};
  Reduce(type, op, sources.data(), static_cast<int>(sources.size()), reinterpret_cast<std::byte*>(&result), 1);
  return result;
}

TEST(Reduce, MinAndMaxPassOverNaNs) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  for (const tcRedOp_t op : {tcMin, tcMax}) {
    EXPECT_EQ(Of<float>(tcFloat32, op, {kNan, 2.0f, kNan}), 2.0f);
    EXPECT_EQ(Of<double>(tcFloat64, op, {2.0, std::nan("5"), 2.0}), 2.0);
    EXPECT_EQ(Of<uint16_t>(tcFloat16, op, {0x7e01, 0x3c00, 0xfe00}), 0x3c00);
    EXPECT_EQ(Of<uint16_t>(tcBfloat16, op, {0x3f80, 0x7fc1}), 0x3f80);
    EXPECT_EQ(std::bit_cast<uint32_t>(Of<float>(tcFloat32, op, {kNan, -kNan})), 0x7fffffffu);
    EXPECT_EQ(Of<uint16_t>(tcFloat16, op, {0xfe01, 0x7e00}), 0x7fff);
  }
  EXPECT_TRUE(std::signbit(Of<float>(tcFloat32, tcMin, {0.0f, -0.0f})));
  EXPECT_TRUE(std::signbit(Of<float>(tcFloat32, tcMin, {-0.0f, 0.0f})));
  EXPECT_FALSE(std::signbit(Of<double>(tcFloat64, tcMax, {0.0, -0.0})));
  EXPECT_FALSE(std::signbit(Of<double>(tcFloat64, tcMax, {-0.0, 0.0})));
}

TEST(Reduce, AnyOtherNaNStaysOneWhosesoeverItWas) {
  constexpr float kNan = std::numeric_limits<float>::quiet_NaN();
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  for (const tcRedOp_t op : {tcSum, tcProd, tcAvg}) {
    EXPECT_EQ(std::bit_cast<uint32_t>(Of<float>(tcFloat32, op, {1.0f, -kNan})), 0x7fffffffu);
    EXPECT_EQ(Of<uint16_t>(tcBfloat16, op, {0xffc1, 0x3f80}), 0x7fff);
  }
  EXPECT_EQ(std::bit_cast<uint32_t>(Of<float>(tcFloat32, tcSum, {kInfinity, -kInfinity})), 0x7fffffffu);
}

TEST(Reduce, SumsOf16BitsAreRoundedOnceInTheOrderOfTheSources) {
  // 2048 + 1 is no fp16: rounded each time it would stay 2048.
  EXPECT_EQ(Of<uint16_t>(tcFloat16, tcSum, {0x6800, 0x3c00, 0x3c00}), 0x6801);
  // 65504 + 65504 - 65504: the sum on the way is no fp16.
  EXPECT_EQ(Of<uint16_t>(tcFloat16, tcSum, {0x7bff, 0x7bff, 0xfbff}), 0x7bff);
  EXPECT_EQ(Of<uint16_t>(tcFloat16, tcAvg, {0x7bff, 0x7bff}), 0x7bff);
  EXPECT_EQ(Of<float>(tcFloat32, tcSum, {1e8f, 1.0f, -1e8f}), 0.0f);
  EXPECT_EQ(Of<float>(tcFloat32, tcSum, {1e8f, -1e8f, 1.0f}), 1.0f);
}

TEST(Reduce, IntegersWrapAroundAndTheirAverageTruncates) {
  EXPECT_EQ(Of<int8_t>(tcInt8, tcSum, {100, 100}), -56);
  EXPECT_EQ(Of<int8_t>(tcInt8, tcAvg, {100, 100}), -28);  // of the sum that has wrapped, as NCCL's
  EXPECT_EQ(Of<int32_t>(tcInt32, tcAvg, {-3, -4}), -3);
  EXPECT_EQ(Of<uint32_t>(tcUint32, tcAvg, {3, 4}), 3u);
  EXPECT_EQ(Of<uint64_t>(tcUint64, tcProd, {uint64_t{1} << 63, 3}), uint64_t{1} << 63);
  EXPECT_EQ(Of<int64_t>(tcInt64, tcMin, {INT64_MIN, INT64_MAX}), INT64_MIN);
  EXPECT_EQ(Of<uint64_t>(tcUint64, tcMax, {1, UINT64_MAX}), UINT64_MAX);
}

}  // namespace
}  // namespace tc::host
