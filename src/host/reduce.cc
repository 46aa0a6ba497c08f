#include "host/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "base/float16.h"

namespace tc::host {
namespace {

// How elements lie in memory, what they are accumulated in, and what min and max compare them by.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum Load(Stored value) { return value; }
  static Stored Store(Sum value) { return value; }
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
  static Sum Flip(Sum value) {
    return static_cast<Sum>(value ^ (static_cast<Sum>(value >> (8 * sizeof(Sum) - 1)) & kMost));
  }
  static bool IsNan(Bits bits) { return (bits & kAllButSign<Bits>) > kInfinity; }
  static Sum Load(Stored bits) {
    return IsNan(bits) ? (kLeast ? kMost : static_cast<Sum>(~kMost)) : Flip(static_cast<Sum>(bits));
  }
  static Stored Store(Sum value) {
    const auto bits = static_cast<Bits>(Flip(value));
    return IsNan(bits) ? kAllButSign<Bits> : bits;
  }
};

template <class T, class Bits, Bits kInfinity>
struct Float : Plain<T> {
  static T Store(T value) { return value != value ? std::bit_cast<T>(kAllButSign<Bits>) : value; }
  using Least = Ordered<Bits, kInfinity, true>;
  using Greatest = Ordered<Bits, kInfinity, false>;
};
using Fp32 = Float<float, uint32_t, 0x7f800000>;
using Fp64 = Float<double, uint64_t, 0x7ff0000000000000>;

struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored value) { return HalfToFloat(value); }
  static Stored Store(Sum value) { return FloatToHalf(Fp32::Store(value)); }
  using Least = Ordered<uint16_t, 0x7c00, true>;
  using Greatest = Ordered<uint16_t, 0x7c00, false>;
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored value) { return Bf16ToFloat(value); }
  static Stored Store(Sum value) { return FloatToBf16(Fp32::Store(value)); }
  using Least = Ordered<uint16_t, 0x7f80, true>;
  using Greatest = Ordered<uint16_t, 0x7f80, false>;
};

template <class T>
struct Integer : Plain<T> {
  using Least = Plain<T>;
  using Greatest = Plain<T>;
};

// Steps of a reduction. Integers wrap around in the unsigned type of their size.
struct Add {
  template <class T>
  static T Step(T a, T b) {
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
  static T Step(T a, T b) {
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
  static T Step(T a, T b) {
    return b < a ? b : a;
  }
};
struct TakeGreatest {
  template <class T>
  static T Step(T a, T b) {
    return a < b ? b : a;
  }
};

// Elements are bytes to the library, whatever their owner takes them for.
template <class Format>
typename Format::Sum LoadAt(const std::byte* elements, size_t index) {
  typename Format::Stored value;
  std::memcpy(&value, elements + index * sizeof(value), sizeof(value));
  return Format::Load(value);
}
template <class Format>
void StoreAt(std::byte* elements, size_t index, typename Format::Sum sum) {
  const typename Format::Stored value = Format::Store(sum);
  std::memcpy(elements + index * sizeof(value), &value, sizeof(value));
}

// A block of sums lies in the first-level cache while one source after the other is added to it. All sources of a block
// are read before dst is written, which may be one of them.
constexpr size_t kBlock = 1024;

template <class Format, class Step>
void ReduceWith(const std::byte* const* sources, int n_sources, std::byte* dst, size_t count, int divisor = 1) {
  using Sum = typename Format::Sum;
  constexpr size_t kElement = sizeof(typename Format::Stored);
  alignas(64) Sum sums[kBlock];
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t length = std::min(kBlock, count - first);
    const std::byte* source = sources[0] + first * kElement;
    for (size_t i = 0; i < length; ++i) sums[i] = LoadAt<Format>(source, i);
    for (int s = 1; s < n_sources; ++s) {
      source = sources[s] + first * kElement;
      for (size_t i = 0; i < length; ++i) sums[i] = Step::Step(sums[i], LoadAt<Format>(source, i));
    }
    if (divisor > 1) {
      for (size_t i = 0; i < length; ++i) sums[i] = static_cast<Sum>(sums[i] / static_cast<Sum>(divisor));
    }
    std::byte* const result = dst + first * kElement;
    for (size_t i = 0; i < length; ++i) StoreAt<Format>(result, i, sums[i]);
  }
}

template <class Format>
void ReduceAs(tcRedOp_t op, const std::byte* const* sources, int n_sources, std::byte* dst, size_t count) {
  switch (op) {
    case tcProd:
      return ReduceWith<Format, Multiply>(sources, n_sources, dst, count);
    case tcMin:
      return ReduceWith<typename Format::Least, TakeLeast>(sources, n_sources, dst, count);
    case tcMax:
      return ReduceWith<typename Format::Greatest, TakeGreatest>(sources, n_sources, dst, count);
    default:
      return ReduceWith<Format, Add>(sources, n_sources, dst, count, op == tcAvg ? n_sources : 1);
  }
}

}  // namespace

void Reduce(tcDataType_t type, tcRedOp_t op, const std::byte* const* sources, int n_sources, std::byte* dst,
            size_t count) {
  switch (type) {
    case tcInt8:
      return ReduceAs<Integer<int8_t>>(op, sources, n_sources, dst, count);
    case tcUint8:
      return ReduceAs<Integer<uint8_t>>(op, sources, n_sources, dst, count);
    case tcInt32:
      return ReduceAs<Integer<int32_t>>(op, sources, n_sources, dst, count);
    case tcUint32:
      return ReduceAs<Integer<uint32_t>>(op, sources, n_sources, dst, count);
    case tcInt64:
      return ReduceAs<Integer<int64_t>>(op, sources, n_sources, dst, count);
    case tcUint64:
      return ReduceAs<Integer<uint64_t>>(op, sources, n_sources, dst, count);
    case tcFloat16:
      return ReduceAs<Half>(op, sources, n_sources, dst, count);
    case tcBfloat16:
      return ReduceAs<Bf16>(op, sources, n_sources, dst, count);
    case tcFloat32:
      return ReduceAs<Fp32>(op, sources, n_sources, dst, count);
    default:
      return ReduceAs<Fp64>(op, sources, n_sources, dst, count);
  }
}

}  // namespace tc::host
