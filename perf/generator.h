// The numbers of GeneratedInputs, on CPUs and on GPUs: an element follows from its seed and place alone.
#ifndef TC_PERF_GENERATOR_H_
#define TC_PERF_GENERATOR_H_

#include <cstddef>
#include <cstdint>

#include "element_bits.h"

namespace tc::perf {

// splitmix64's finalizer: every bit of the result depends on every bit of x.
TC_PERF_HOST_DEVICE inline uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

inline constexpr uint64_t kGeneratorStep = 0x9e3779b97f4a7c15;

// One made-up matrix.
struct GeneratedMatrix {
  uint64_t stream;
  bool eighths;       // set 1, whose sums are exact
  tcDataType_t type;  // that its elements are rounded to
};

// Which matrix of a set: A, or the b of a rank.
inline constexpr uint64_t kMatrixA = 0;
inline uint64_t MatrixB(int rank) { return 1 + static_cast<uint64_t>(rank); }

inline GeneratedMatrix MatrixOf(uint64_t seed, size_t set, uint64_t matrix, tcDataType_t type) {
  const uint64_t stream = Mix(Mix(Mix(seed + kGeneratorStep) + set * kGeneratorStep) + matrix * kGeneratorStep);
  return {stream, set == 1, type};
}

TC_PERF_HOST_DEVICE inline uint64_t RowKey(const GeneratedMatrix& matrix, size_t row) {
  return Mix(matrix.stream + row * kGeneratorStep);
}

TC_PERF_HOST_DEVICE inline uint64_t RandomAt(uint64_t row_key, size_t col) {
  return Mix(row_key + col * kGeneratorStep);
}

// An odd multiple of 2^-24 in (-1, 1): exact in fp32, and never zero.
TC_PERF_HOST_DEVICE inline float FullPrecision(uint64_t random) {
  const auto numerator = static_cast<int32_t>(random >> 40 << 1 | 1);
  return static_cast<float>(numerator - (1 << 24)) * 0x1p-24f;
}

// One of ±1/8, ±2/8, ... ±8/8.
TC_PERF_HOST_DEVICE inline float Eighth(uint64_t random) {
  const auto numerator = static_cast<int32_t>(random >> 61) + 1;
  return static_cast<float>((random >> 60 & 1) != 0 ? -numerator : numerator) * 0.125f;
}

// The element in column `col` of the row that `row_key` is for.
TC_PERF_HOST_DEVICE inline float GeneratedElement(const GeneratedMatrix& matrix, uint64_t row_key, size_t col) {
  const uint64_t random = RandomAt(row_key, col);
  return matrix.eighths ? Eighth(random) : Rounded(matrix.type, FullPrecision(random));
}

}  // namespace tc::perf

#endif  // TC_PERF_GENERATOR_H_
