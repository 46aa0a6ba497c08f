// How far a result may be from its exact value, on CPUs and on GPUs.
#ifndef TC_PERF_TOLERANCE_H_
#define TC_PERF_TOLERANCE_H_

#include <cmath>
#include <cstddef>

#include "element_bits.h"
#include "element_type.h"

namespace tc::perf {

// A sum of products in fp64, and the same sum of their magnitudes, which is what rounding errors are measured by.
struct Expected {
  double value;
  double magnitude;
};

// True when an operator that accumulates k products in fp32, in any order, and rounds once to `type` may return `got`.
//
// The bound. Let S = sum |a_i b_i|. A sum of k products, each operation with a relative error of at most u, differs
// from the true sum by at most g S with g = (k u) / (1 - k u), in any order and with or without FMA (Higham, Accuracy
// and Stability of Numerical Algorithms, section 3.1). In fp32 u is 2^-24 when operations round to nearest and 2^-23
// when they cut off, as tensor cores do: 2^-23 is taken, and k + 1 for k, which also covers the fp64 error of the
// reference. Products that underflow add 2^-126 each. Rounding to the output type adds u_out times the magnitude of the
// fp32 sum, or half of the smallest subnormal. (From k = 2^22 on g is kept at 1.)
TC_PERF_HOST_DEVICE inline bool IsWithinTolerance(const ElementType& type, size_t k, const Expected& expected,
                                                  float got) {
  if (std::isnan(expected.value)) return std::isnan(got);
  if (std::isinf(expected.value)) return static_cast<double>(got) == expected.value;
  // Partial sums may leave fp32's range though the sum does not: infinity, or NaN from inf - inf, is then right as
  // well.
  constexpr double kLargestFloat = 0x1.fffffep127;
  if (expected.magnitude > kLargestFloat && !std::isfinite(got)) return true;
  const double share = (static_cast<double>(k) + 1) * 0x1p-23;
  const double terms = share < 0.5 ? share : 0.5;
  const double underflow = (static_cast<double>(k) + 1) * 0x1p-126;
  const double accumulation = terms / (1 - terms) * expected.magnitude + underflow;
  const double reach = std::fabs(expected.value) + accumulation;
  if (std::isinf(got)) return reach >= type.overflow && std::signbit(got) == std::signbit(expected.value);
  const double tolerance = accumulation + type.unit_roundoff * reach + type.smallest_half;
  return std::fabs(static_cast<double>(got) - expected.value) <= tolerance;  // false for NaN
}

// True when `got` is the sum itself, rounded once to nearest. For inputs whose partial sums fp32 holds exactly.
TC_PERF_HOST_DEVICE inline bool IsExactly(const ElementType& type, const Expected& expected, float got) {
  return got == Rounded(type.code, static_cast<float>(expected.value));
}

}  // namespace tc::perf

#endif  // TC_PERF_TOLERANCE_H_
