#include "host/gemm.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <thread>

#include "base/float16.h"

namespace tc::host {
namespace {

constexpr tcDataType_t kTypes[] = {tcFloat32, tcFloat16, tcBfloat16};
constexpr tcBLayout_t kLayouts[] = {tcBLayoutNK, tcBLayoutKN};

// Stored as a caller may store it: aligned to the element only, `gap` elements between the rows, every byte 0xff (a NaN
// in each type) until it is set. So an element never written, or read from a gap, shows as a NaN.
class Matrix {
 public:
  Matrix(tcDataType_t type, size_t rows, size_t cols, size_t gap = 0)
      : type_(type), rows_(rows), cols_(cols), ld_(cols + gap), bytes_((rows * ld_ + 1) * Size(), 0xff) {}

  static Matrix Random(tcDataType_t type, size_t rows, size_t cols, size_t gap, unsigned seed) {
    Matrix matrix(type, rows, cols, gap);
    std::mt19937 random(seed);
    for (size_t i = 0; i < rows; ++i) {
      for (size_t j = 0; j < cols; ++j) matrix.Set(i, j, static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f);
    }
    return matrix;
  }

  Matrix Transposed(size_t gap) const {
    Matrix result(type_, cols_, rows_, gap);
    for (size_t i = 0; i < rows_; ++i) {
      for (size_t j = 0; j < cols_; ++j) memcpy(result.At(j, i), At(i, j), Size());
    }
    return result;
  }

  size_t Size() const { return type_ == tcFloat32 ? 4 : 2; }
  size_t ld() const { return ld_; }
  uint8_t* At(size_t i, size_t j) { return bytes_.data() + (i * ld_ + j + 1) * Size(); }
  const uint8_t* At(size_t i, size_t j) const { return bytes_.data() + (i * ld_ + j + 1) * Size(); }

  void SetBits(size_t i, size_t j, uint32_t bits) { memcpy(At(i, j), &bits, Size()); }
  uint32_t Bits(size_t i, size_t j) const {
    uint32_t bits = 0;
    memcpy(&bits, At(i, j), Size());
    return bits;
  }
  void Set(size_t i, size_t j, float value) {
    if (type_ == tcFloat32) SetBits(i, j, std::bit_cast<uint32_t>(value));
    if (type_ == tcFloat16) SetBits(i, j, FloatToHalf(value));
    if (type_ == tcBfloat16) SetBits(i, j, FloatToBf16(value));
  }
  float Get(size_t i, size_t j) const {
    const uint32_t bits = Bits(i, j);
    if (type_ == tcFloat32) return std::bit_cast<float>(bits);
    return type_ == tcFloat16 ? HalfToFloat(static_cast<uint16_t>(bits)) : Bf16ToFloat(static_cast<uint16_t>(bits));
  }

  bool GapsUntouched() const {
    bool untouched = std::all_of(bytes_.begin(), bytes_.begin() + Size(), [](uint8_t byte) { return byte == 0xff; });
    for (size_t i = 0; i < rows_; ++i) {
      untouched &= std::all_of(At(i, cols_), At(i, ld_), [](uint8_t byte) { return byte == 0xff; });
    }
    return untouched;
  }
  bool operator==(const Matrix&) const = default;

 private:
  tcDataType_t type_;
  size_t rows_, cols_, ld_;
  std::vector<uint8_t> bytes_;
};

// What the tests vary, apart from the matrices.
struct Types {
  tcDataType_t in, out;
  tcBLayout_t layout;
};

struct Extent {
  size_t begin, end;
};

// The rows and columns of c = alpha * a * b that the extents name, as one tile. b is stored in the given layout.
void MultiplyTile(const char* target, const Types& types, const Matrix& a, const Matrix& b, size_t k, Extent rows,
                  Extent cols, float alpha, Matrix& c) {
  GemmTile tile = {};
  tile.in_type = types.in;
  tile.out_type = types.out;
  tile.b_layout = types.layout;
  tile.rows = rows.end - rows.begin;
  tile.cols = cols.end - cols.begin;
  tile.k = k;
  tile.a = a.At(rows.begin, 0);
  tile.lda = a.ld();
  tile.b = types.layout == tcBLayoutNK ? b.At(cols.begin, 0) : b.At(0, cols.begin);
  tile.ldb = b.ld();
  tile.c = c.At(rows.begin, cols.begin);
  tile.ldc = c.ld();
  tile.alpha = alpha;
  GemmScratch scratch;
  GemmOnTarget(target, tile, scratch);
}

void ForEachTarget(const std::function<void(const char*)>& check) {
  for (const char* target : GemmTargetNames()) {
    SCOPED_TRACE(target);
    check(target);
  }
}

struct Shape {
  size_t rows, cols, k;
};

constexpr Shape kShapes[] = {
    {1, 1, 1},    {1, 64, 17},   {3, 17, 65},  {17, 3, 3},     {64, 64, 64},  {65, 129, 1},
    {128, 1, 64}, {129, 65, 17}, {3, 300, 65}, {300, 17, 129}, {1, 33, 1030},
};

// alpha * a * b in fp64, and the same of absolute values: what the rounding errors of a sum are measured by.
struct Reference {
  std::vector<double> sums, magnitudes;

  Reference(const Matrix& a, const Matrix& b_kn, const Shape& shape, float alpha)
      : sums(shape.rows * shape.cols), magnitudes(shape.rows * shape.cols) {
    for (size_t i = 0; i < shape.rows; ++i) {
      for (size_t p = 0; p < shape.k; ++p) {
        const double factor = static_cast<double>(alpha) * a.Get(i, p);
        for (size_t j = 0; j < shape.cols; ++j) {
          const double product = factor * b_kn.Get(p, j);
          sums[i * shape.cols + j] += product;
          magnitudes[i * shape.cols + j] += std::abs(product);
        }
      }
    }
  }
};

void ExpectClose(const Matrix& c, tcDataType_t type, const Reference& reference, const Shape& shape) {
  const double out_error = type == tcFloat32 ? 0x1p-24 : type == tcFloat16 ? 0x1p-11 : 0x1p-8;
  for (size_t i = 0; i < shape.rows * shape.cols; ++i) {
    const double sum_error = reference.magnitudes[i] * static_cast<double>(shape.k + 2) * 0x1p-24;
    const double bound = sum_error + out_error * (std::abs(reference.sums[i]) + sum_error) + 0x1p-25;
    ASSERT_NEAR(c.Get(i / shape.cols, i % shape.cols), reference.sums[i], bound) << "element " << i;
  }
}

TEST(Gemm, AgreesWithAnFp64ReferenceAndWritesEveryElementButNoGap) {
  constexpr float kAlpha = -0.75f;
  for (const Shape& shape : kShapes) {
    for (const tcDataType_t in : kTypes) {
      const Matrix a = Matrix::Random(in, shape.rows, shape.k, 5, 1);
      const Matrix b_kn = Matrix::Random(in, shape.k, shape.cols, 3, 2);
      const Matrix b_nk = b_kn.Transposed(7);
      const Reference reference(a, b_kn, shape, kAlpha);
      for (const tcDataType_t out : kTypes) {
        for (const tcBLayout_t layout : kLayouts) {
          SCOPED_TRACE(::testing::Message() << shape.rows << "x" << shape.cols << "x" << shape.k << " types " << in
                                            << " " << out << " layout " << layout);
          ForEachTarget([&](const char* target) {
            Matrix c(out, shape.rows, shape.cols, 2);
            MultiplyTile(target, {in, out, layout}, a, layout == tcBLayoutNK ? b_nk : b_kn, shape.k, {0, shape.rows},
                         {0, shape.cols}, kAlpha, c);
            EXPECT_TRUE(c.GapsUntouched());
            ExpectClose(c, out, reference, shape);
          });
        }
      }
    }
  }
}

TEST(Gemm, BitsOfAnElementDoNotDependOnTheTilesCutOrTheStride) {
  constexpr size_t kRows = 130, kCols = 190, kK = 515;
  constexpr size_t kRowCuts[] = {0, 1, 8, 37, 100, kRows};
  constexpr size_t kColCuts[] = {0, 3, 40, 41, 104, kCols};
  for (const tcDataType_t in : {tcFloat32, tcFloat16}) {
    for (const tcBLayout_t layout : kLayouts) {
      const Types types = {in, tcFloat32, layout};
      const Matrix a = Matrix::Random(in, kRows, kK, 0, 3), a_strided = Matrix::Random(in, kRows, kK, 9, 3);
      const bool nk = layout == tcBLayoutNK;
      const Matrix b = Matrix::Random(in, nk ? kCols : kK, nk ? kK : kCols, 0, 4);
      const Matrix b_strided = Matrix::Random(in, nk ? kCols : kK, nk ? kK : kCols, 11, 4);
      ForEachTarget([&](const char* target) {
        Matrix whole(tcFloat32, kRows, kCols), cut(tcFloat32, kRows, kCols);
        MultiplyTile(target, types, a, b, kK, {0, kRows}, {0, kCols}, 1.0f, whole);
        for (size_t r = 0; r + 1 < std::size(kRowCuts); ++r) {
          for (size_t s = 0; s + 1 < std::size(kColCuts); ++s) {
            MultiplyTile(target, types, a_strided, b_strided, kK, {kRowCuts[r], kRowCuts[r + 1]},
                         {kColCuts[s], kColCuts[s + 1]}, 1.0f, cut);
          }
        }
        EXPECT_TRUE(whole == cut) << "type " << in << " layout " << layout;
      });
    }
  }
}

// A product with k = 1 and a factor of 1 passes an element through the vector conversions alone.
TEST(Gemm, InputConversionsAgreeWithTheScalarOnesOnEveryPattern) {
  constexpr size_t kPatterns = 0x10000;
  for (const tcDataType_t in : {tcFloat16, tcBfloat16}) {
    Matrix one(in, 1, 1), patterns(in, 1, kPatterns);
    one.Set(0, 0, 1.0f);
    for (uint32_t bits = 0; bits < kPatterns; ++bits) patterns.SetBits(0, bits, bits);
    ForEachTarget([&](const char* target) {
      Matrix as_a(tcFloat32, kPatterns, 1), as_b(tcFloat32, 1, kPatterns);
      MultiplyTile(target, {in, tcFloat32, tcBLayoutKN}, one, patterns, 1, {0, 1}, {0, kPatterns}, 1.0f, as_b);
      MultiplyTile(target, {in, tcFloat32, tcBLayoutKN}, patterns.Transposed(0), one, 1, {0, kPatterns}, {0, 1}, 1.0f,
                   as_a);
      for (size_t i = 0; i < kPatterns; ++i) {
        const float expected = patterns.Get(0, i);
        for (const float got : {as_a.Get(i, 0), as_b.Get(0, i)}) {
          ASSERT_TRUE(std::isnan(expected) ? std::isnan(got) : got == expected) << i << ": " << got;
        }
      }
    });
  }
}

TEST(Gemm, OutputConversionsAgreeWithTheScalarOnes) {
  std::mt19937 random(5);
  std::vector<uint32_t> inputs;
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    const uint32_t half = std::bit_cast<uint32_t>(HalfToFloat(static_cast<uint16_t>(bits)));
    inputs.insert(inputs.end(), {bits << 16, bits << 16 | 0x7fff, bits << 16 | 0x8000, bits << 16 | 0x8001});
    inputs.insert(inputs.end(), {half, half | 0xfff, half | 0x1000, half | 0x1001, static_cast<uint32_t>(random())});
  }
  Matrix one(tcFloat32, 1, 1), values(tcFloat32, 1, inputs.size());
  one.Set(0, 0, 1.0f);
  for (size_t i = 0; i < inputs.size(); ++i) values.SetBits(0, i, inputs[i]);
  for (const tcDataType_t out : {tcFloat16, tcBfloat16}) {
    ForEachTarget([&](const char* target) {
      Matrix c(out, 1, inputs.size()), expected(out, 1, 1);
      MultiplyTile(target, {tcFloat32, out, tcBLayoutKN}, one, values, 1, {0, 1}, {0, inputs.size()}, 1.0f, c);
      for (size_t i = 0; i < inputs.size(); ++i) {
        expected.Set(0, 0, values.Get(0, i) + 0.0f);  // the sum starts at +0, so that -0 comes out as +0
        if (std::isnan(values.Get(0, i))) {
          ASSERT_TRUE(std::isnan(c.Get(0, i))) << std::hex << inputs[i] << " gave " << c.Bits(0, i);
        } else {
          ASSERT_EQ(c.Bits(0, i), expected.Bits(0, 0)) << std::hex << inputs[i];
        }
      }
    });
  }
}

TEST(Gemm, InfinityAndNanStayInTheirRowAndColumn) {
  constexpr size_t kRows = 19, kCols = 35, kK = 20;
  Matrix a = Matrix::Random(tcFloat32, kRows, kK, 0, 6), b = Matrix::Random(tcFloat32, kCols, kK, 0, 7);
  a.Set(kRows - 1, kK - 1, INFINITY);
  b.Set(kCols - 1, kK - 1, NAN);
  ForEachTarget([&](const char* target) {
    Matrix c(tcFloat32, kRows, kCols);
    MultiplyTile(target, {tcFloat32, tcFloat32, tcBLayoutNK}, a, b, kK, {0, kRows}, {0, kCols}, 1.0f, c);
    for (size_t i = 0; i < kRows; ++i) {
      for (size_t j = 0; j < kCols; ++j) {
        ASSERT_EQ(std::isnan(c.Get(i, j)), j == kCols - 1) << i << ", " << j;
        ASSERT_EQ(std::isinf(c.Get(i, j)), i == kRows - 1 && j != kCols - 1) << i << ", " << j;
      }
    }
  });
}

TEST(Gemm, NoRowsOrNoColumnsTouchesNothing) {
  const Matrix a = Matrix::Random(tcFloat32, 4, 8, 0, 8), b = Matrix::Random(tcFloat32, 8, 4, 0, 9);
  ForEachTarget([&](const char* target) {
    Matrix c(tcFloat32, 4, 4);
    MultiplyTile(target, {tcFloat32, tcFloat32, tcBLayoutKN}, a, b, 8, {1, 1}, {0, 4}, 1.0f, c);
    MultiplyTile(target, {tcFloat32, tcFloat32, tcBLayoutKN}, a, b, 8, {0, 4}, {2, 2}, 1.0f, c);
    EXPECT_TRUE(c == Matrix(tcFloat32, 4, 4));
  });
}

TEST(Gemm, ThreadsWithTheirOwnScratchGetTheBitsOfTheBestTarget) {
  constexpr size_t kRows = 40, kCols = 50, kK = 300;
  const Matrix a = Matrix::Random(tcBfloat16, kRows, kK, 0, 10), b = Matrix::Random(tcBfloat16, kCols, kK, 0, 11);
  Matrix expected(tcFloat32, kRows, kCols);
  MultiplyTile(GemmTargetName(), {tcBfloat16, tcFloat32, tcBLayoutNK}, a, b, kK, {0, kRows}, {0, kCols}, 1.0f,
               expected);
  std::vector<Matrix> results(4, Matrix(tcFloat32, kRows, kCols));
  std::vector<std::thread> threads;
  for (Matrix& c : results) {
    threads.emplace_back([&] {
      GemmScratch scratch;
      for (int repeat = 0; repeat < 3; ++repeat) {
        Gemm({tcBfloat16, tcFloat32, tcBLayoutNK, kRows, kCols, kK, a.At(0, 0), a.ld(), b.At(0, 0), b.ld(), c.At(0, 0),
              c.ld(), 1.0f},
             scratch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const Matrix& c : results) EXPECT_TRUE(c == expected);
}

TEST(Gemm, RunsOnTheBestOfItsTargets) {
  ASSERT_FALSE(GemmTargetNames().empty());
  EXPECT_STREQ(GemmTargetName(), GemmTargetNames().front());
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512vl")) {
    EXPECT_STREQ(GemmTargetName(), "AVX3");
  }
#endif
}

TEST(GemmScratch, IsAlignedAndAllocatesNothingOnceWarm) {
  GemmScratch scratch;
  float* const first = scratch.Take(1000);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 64, 0u);
  first[999] = 1.0f;
  EXPECT_EQ(scratch.Take(1000), first);
  EXPECT_EQ(scratch.Take(10), first);
}

}  // namespace
}  // namespace tc::host
