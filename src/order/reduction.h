// Element formats and steps of a reduction over ranks: what host/reduce.h says, for one value. One source for the host
// backend and for kernels, so that both give the same bits.
#pragma once

#include <cstdint>
#include <type_traits>

#include "protocol/memory.h"
#include "tc.h"

namespace tc {

// How elements lie in memory, what they are accumulated in, and what min and max compare them by.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static TC_HOST_DEVICE Sum Load(Stored value) { return value; }
  static TC_HOST_DEVICE Stored Store(Sum value) { return value; }
};

// Only NaNs have more bits than infinity, besides the sign.
template <class Bits>
constexpr Bits kAllButSign = static_cast<Bits>(~Bits{0}) >> 1;

// A float by its bits, as an integer that has its order: -0 before +0, and NaNs where neither min nor max takes them.
template <class Bits, Bits kInfinity, bool kLeast>
struct Ordered {
  using Stored = Bits;
  using Sum = std::make_signed_t<Bits>;
  static constexpr auto kMost = static_cast<Sum>(kAllButSign<Bits>);
  // Its own inverse: of a negative number the larger magnitude comes first.
  static TC_HOST_DEVICE Sum Flip(Sum value) {
    return static_cast<Sum>(value ^ (static_cast<Sum>(value >> (8 * sizeof(Sum) - 1)) & kMost));
  }
  static TC_HOST_DEVICE bool IsNan(Bits bits) { return (bits & kAllButSign<Bits>) > kInfinity; }
  static TC_HOST_DEVICE Sum Load(Stored bits) {
    return IsNan(bits) ? (kLeast ? kMost : static_cast<Sum>(~kMost)) : Flip(static_cast<Sum>(bits));
  }
  static TC_HOST_DEVICE Stored Store(Sum value) {
    const auto bits = static_cast<Bits>(Flip(value));
    return IsNan(bits) ? kAllButSign<Bits> : bits;
  }
};

template <class T, class Bits, Bits kInfinity>
struct Float : Plain<T> {
  static TC_HOST_DEVICE T Store(T value) { return value != value ? __builtin_bit_cast(T, kAllButSign<Bits>) : value; }
  using Least = Ordered<Bits, kInfinity, true>;
  using Greatest = Ordered<Bits, kInfinity, false>;
};
using Fp32 = Float<float, uint32_t, 0x7f800000>;
using Fp64 = Float<double, uint64_t, 0x7ff0000000000000>;

// A 16-bit float, accumulated in fp32; Convert has ToFloat(bits) and FromFloat(value).
template <class Convert, uint16_t kInfinity>
struct Float16 {
  using Stored = uint16_t;
  using Sum = float;
  static TC_HOST_DEVICE Sum Load(Stored value) { return Convert::ToFloat(value); }
  static TC_HOST_DEVICE Stored Store(Sum value) { return Convert::FromFloat(Fp32::Store(value)); }
  using Least = Ordered<uint16_t, kInfinity, true>;
  using Greatest = Ordered<uint16_t, kInfinity, false>;
};
template <class Convert>
using Half = Float16<Convert, 0x7c00>;
template <class Convert>
using Bf16 = Float16<Convert, 0x7f80>;

template <class T>
struct Integer : Plain<T> {
  using Least = Plain<T>;
  using Greatest = Plain<T>;
};

// Steps of a reduction. Integers wrap around in the unsigned type of their size.
struct Add {
  template <class T>
  static TC_HOST_DEVICE T Step(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) + static_cast<U>(b)));
    } else {
      return a + b;
    }
  }
};
struct Multiply {
  template <class T>
  static TC_HOST_DEVICE T Step(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      using U = std::make_unsigned_t<T>;
      return static_cast<T>(static_cast<U>(static_cast<U>(a) * static_cast<U>(b)));
    } else {
      return a * b;
    }
  }
};
struct TakeLeast {
  template <class T>
  static TC_HOST_DEVICE T Step(T a, T b) {
    return b < a ? b : a;
  }
};
struct TakeGreatest {
  template <class T>
  static TC_HOST_DEVICE T Step(T a, T b) {
    return a < b ? b : a;
  }
};

// What is accumulated, of `n_sources`, as tcAvg wants it.
template <class Sum>
TC_HOST_DEVICE Sum Average(Sum sum, int n_sources) {
  return static_cast<Sum>(sum / static_cast<Sum>(n_sources));
}

// Calls run.template operator()<Format, Step>() with the two that reduce elements of type `Element`.
template <class Element, class Run>
TC_HOST_DEVICE void WithStep(tcRedOp_t op, const Run& run) {
  switch (op) {
    case tcProd:
      return run.template operator()<Element, Multiply>();
    case tcMin:
      return run.template operator()<typename Element::Least, TakeLeast>();
    case tcMax:
      return run.template operator()<typename Element::Greatest, TakeGreatest>();
    default:
      return run.template operator()<Element, Add>();
  }
}

}  // namespace tc
