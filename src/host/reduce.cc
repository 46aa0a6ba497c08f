#include "host/reduce.h"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <type_traits>

#include "base/float16.h"

namespace tc::host {
namespace {

// How elements lie in memory, and what they are accumulated in.
template <class T>
struct Plain {
  using Stored = T;
  using Sum = T;
  static Sum Load(Stored value) { return value; }
  static Stored Store(Sum value) { return value; }
};
struct Half {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored value) { return HalfToFloat(value); }
  static Stored Store(Sum value) { return FloatToHalf(value); }
};
struct Bf16 {
  using Stored = uint16_t;
  using Sum = float;
  static Sum Load(Stored value) { return Bf16ToFloat(value); }
  static Stored Store(Sum value) { return FloatToBf16(value); }
};

template <class T>
using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;

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
// Of equal floats only zeros differ in their bits, by the sign.
struct Least {
  template <class T>
  static T Step(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return b < a ? b : a;
    } else {
      const T equal = std::bit_cast<T>(std::bit_cast<Bits<T>>(a) | std::bit_cast<Bits<T>>(b));
      const T less = b < a || a != a ? b : a;
      return a == b ? equal : less;
    }
  }
};
struct Greatest {
  template <class T>
  static T Step(T a, T b) {
    if constexpr (std::is_integral_v<T>) {
      return a < b ? b : a;
    } else {
      const T equal = std::bit_cast<T>(std::bit_cast<Bits<T>>(a) & std::bit_cast<Bits<T>>(b));
      const T greater = a < b || a != a ? b : a;
      return a == b ? equal : greater;
    }
  }
};

// A block of sums lies in the first-level cache while one source after the other is added to it. All sources of a block
// are read before dst is written, which may be one of them.
constexpr size_t kBlock = 1024;

template <class Format, class Step>
void ReduceWith(const std::byte* const* sources, int n_sources, std::byte* dst, size_t count, int divisor) {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  alignas(64) Sum sums[kBlock];
  for (size_t first = 0; first < count; first += kBlock) {
    const size_t length = std::min(kBlock, count - first);
    const auto* source = reinterpret_cast<const Stored*>(sources[0]) + first;
    for (size_t i = 0; i < length; ++i) sums[i] = Format::Load(source[i]);
    for (int s = 1; s < n_sources; ++s) {
      source = reinterpret_cast<const Stored*>(sources[s]) + first;
      for (size_t i = 0; i < length; ++i) sums[i] = Step::Step(sums[i], Format::Load(source[i]));
    }
    if (divisor > 1) {
      for (size_t i = 0; i < length; ++i) sums[i] = static_cast<Sum>(sums[i] / static_cast<Sum>(divisor));
    }
    auto* result = reinterpret_cast<Stored*>(dst) + first;
    if constexpr (std::is_floating_point_v<Sum>) {
      const Sum nan = std::bit_cast<Sum>(static_cast<Bits<Sum>>(~Bits<Sum>{0} >> 1));
      for (size_t i = 0; i < length; ++i) result[i] = Format::Store(sums[i] != sums[i] ? nan : sums[i]);
    } else {
      std::copy_n(sums, length, result);
    }
  }
}

template <class Format>
void ReduceAs(tcRedOp_t op, const std::byte* const* sources, int n_sources, std::byte* dst, size_t count) {
  switch (op) {
    case tcProd:
      return ReduceWith<Format, Multiply>(sources, n_sources, dst, count, 1);
    case tcMin:
      return ReduceWith<Format, Least>(sources, n_sources, dst, count, 1);
    case tcMax:
      return ReduceWith<Format, Greatest>(sources, n_sources, dst, count, 1);
    default:
      return ReduceWith<Format, Add>(sources, n_sources, dst, count, op == tcAvg ? n_sources : 1);
  }
}

}  // namespace

void Reduce(tcDataType_t type, tcRedOp_t op, const std::byte* const* sources, int n_sources, std::byte* dst,
            size_t count) {
  switch (type) {
    case tcInt8:
      return ReduceAs<Plain<int8_t>>(op, sources, n_sources, dst, count);
    case tcUint8:
      return ReduceAs<Plain<uint8_t>>(op, sources, n_sources, dst, count);
    case tcInt32:
      return ReduceAs<Plain<int32_t>>(op, sources, n_sources, dst, count);
    case tcUint32:
      return ReduceAs<Plain<uint32_t>>(op, sources, n_sources, dst, count);
    case tcInt64:
      return ReduceAs<Plain<int64_t>>(op, sources, n_sources, dst, count);
    case tcUint64:
      return ReduceAs<Plain<uint64_t>>(op, sources, n_sources, dst, count);
    case tcFloat16:
      return ReduceAs<Half>(op, sources, n_sources, dst, count);
    case tcBfloat16:
      return ReduceAs<Bf16>(op, sources, n_sources, dst, count);
    case tcFloat32:
      return ReduceAs<Plain<float>>(op, sources, n_sources, dst, count);
    default:
      return ReduceAs<Plain<double>>(op, sources, n_sources, dst, count);
  }
}

}  // namespace tc::host
