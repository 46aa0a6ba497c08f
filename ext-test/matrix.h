// Matrices in the library's element types, filled from a seed, and products checked against fp64.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#include "tc.h"

namespace tc::test {

inline size_t Bytes(tcDataType_t type) { return type == tcFloat32 ? 4 : 2; }

// The value of a bit pattern.
inline double Decode(const void* element, tcDataType_t type) {
  if (type == tcFloat32) {
    float value;
    std::memcpy(&value, element, 4);
    return value;
  }
  uint16_t bits;
  std::memcpy(&bits, element, 2);
  if (type == tcBfloat16) {
    const uint32_t wide = uint32_t{bits} << 16;
    float value;
    std::memcpy(&value, &wide, 4);
    return value;
  }
  const int exponent = bits >> 10 & 31;
  const double fraction = bits & 1023;
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 31) return fraction != 0 ? NAN : sign * INFINITY;
  return sign * (exponent == 0 ? std::ldexp(fraction, -24) : std::ldexp(1024 + fraction, exponent - 25));
}

// Random bit patterns of magnitude in [1/256, 1), by (seed, index): any rank can make any element.
inline void Fill(void* element, tcDataType_t type, uint64_t seed, uint64_t index) {
  uint64_t x = seed * 0x9E3779B97F4A7C15u + index + 1;
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  x ^= x >> 31;
  const uint32_t sign = x & 1;
  const uint32_t back = 1 + (x >> 1 & 7);  // exponent: 2^-back
  const auto fraction = static_cast<uint32_t>(x >> 8);
  if (type == tcFloat32) {
    const uint32_t bits = sign << 31 | (127 - back) << 23 | (fraction & 0x7fffff);
    std::memcpy(element, &bits, 4);
  } else {
    const auto bits = static_cast<uint16_t>(type == tcBfloat16 ? sign << 15 | (127 - back) << 7 | (fraction & 0x7f)
                                                               : sign << 15 | (15 - back) << 10 | (fraction & 0x3ff));
    std::memcpy(element, &bits, 2);
  }
}

// rows x cols elements, `stride` from one row to the next; the gaps hold a pattern that must survive.
class Matrix {
 public:
  static constexpr unsigned char kPoison = 0xA5;

  Matrix(tcDataType_t type, size_t rows, size_t cols, size_t stride = 0)
      : type_(type), rows_(rows), cols_(cols), stride_(stride != 0 ? stride : cols) {
    bytes_.assign(rows_ * stride_ * Bytes(type_), kPoison);
  }

  // Element (i, j) becomes element (first_row + i, j) of the seed's endless matrix.
  Matrix& Random(uint64_t seed, size_t first_row = 0) {
    for (size_t i = 0; i < rows_; ++i) {
      for (size_t j = 0; j < cols_; ++j) Fill(at(i, j), type_, seed, (first_row + i) * cols_ + j);
    }
    return *this;
  }

  void* data() { return bytes_.data(); }
  const void* data() const { return bytes_.data(); }
  size_t size_bytes() const { return bytes_.size(); }
  size_t rows() const { return rows_; }
  size_t cols() const { return cols_; }
  size_t stride() const { return stride_; }
  tcDataType_t type() const { return type_; }
  unsigned char* at(size_t i, size_t j) { return &bytes_[(i * stride_ + j) * Bytes(type_)]; }
  const unsigned char* at(size_t i, size_t j) const { return &bytes_[(i * stride_ + j) * Bytes(type_)]; }
  double value(size_t i, size_t j) const { return Decode(at(i, j), type_); }

  bool GapsIntact() const {
    for (size_t i = 0; i < rows_; ++i) {
      for (size_t byte = cols_ * Bytes(type_); byte < stride_ * Bytes(type_); ++byte) {
        if (bytes_[i * stride_ * Bytes(type_) + byte] != kPoison) return false;
      }
    }
    return true;
  }

 private:
  tcDataType_t type_;
  size_t rows_;
  size_t cols_;
  size_t stride_;
  std::vector<unsigned char> bytes_;
};

// Elements of c that are not alpha * a * b within rounding: k products accumulated in fp32, then one rounding to c's
// type.
inline size_t CountWrong(const Matrix& a, const Matrix& b, bool b_is_nk, const Matrix& c, double alpha = 1) {
  const double out_epsilon = c.type() == tcFloat32 ? 0x1p-24 : c.type() == tcBfloat16 ? 0x1p-8 : 0x1p-11;
  size_t wrong = 0;
  for (size_t i = 0; i < c.rows(); ++i) {
    for (size_t j = 0; j < c.cols(); ++j) {
      double sum = 0;
      double magnitude = 0;
      for (size_t k = 0; k < a.cols(); ++k) {
        const double product = a.value(i, k) * (b_is_nk ? b.value(j, k) : b.value(k, j));
        sum += product;
        magnitude += std::abs(product);
      }
      const double bound = std::abs(alpha) * (out_epsilon * std::abs(sum) * 1.01 + a.cols() * 0x1p-24 * magnitude);
      const double got = c.value(i, j);
      wrong += !(std::abs(got - alpha * sum) <= bound + 0x1p-24);  // NaN counts; fp16 subnormals lie 2^-24 apart
    }
  }
  return wrong;
}

}  // namespace tc::test
