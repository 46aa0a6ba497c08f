// Elements of every type as bit patterns, and what a reduction over ranks makes of them: naively, one at a time, in the
// order of the ranks. The same code on host and device.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>

#include "tc.h"

#ifdef __CUDACC__
#define TC_HOST_DEVICE __host__ __device__
#else
#define TC_HOST_DEVICE
#endif

namespace tc::test {

TC_HOST_DEVICE inline size_t ElementSize(tcDataType_t type) {
  constexpr size_t kSizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
  return kSizes[type];
}

TC_HOST_DEVICE inline uint64_t Mix(uint64_t x) {
  x = (x ^ x >> 30) * 0xBF58476D1CE4E5B9u;
  x = (x ^ x >> 27) * 0x94D049BB133111EBu;
  return x ^ x >> 31;
}

// The 16-bit formats: bits of the fraction, and the exponent of 1.
struct Float16Format {
  int fraction;
  int bias;
};
TC_HOST_DEVICE inline Float16Format FormatOf(tcDataType_t type) {
  return type == tcFloat16 ? Float16Format{10, 15} : Float16Format{7, 127};
}

TC_HOST_DEVICE inline double Decode16(uint64_t bits, Float16Format format) {
  const auto exponent = static_cast<int>(bits >> format.fraction & (2 * format.bias + 1));
  const auto fraction = static_cast<double>(bits & ((1u << format.fraction) - 1));
  const double sign = bits & 0x8000 ? -1 : 1;
  if (exponent == 2 * format.bias + 1) return fraction != 0 ? NAN : sign * INFINITY;
  const int last = (exponent == 0 ? 1 : exponent) - format.bias - format.fraction;
  return sign * std::ldexp(fraction + (exponent == 0 ? 0 : 1 << format.fraction), last);
}

// To nearest, ties to even.
TC_HOST_DEVICE inline uint64_t Encode16(double value, Float16Format format) {
  if (std::isnan(value)) return 0x7fff;
  const uint64_t sign = std::signbit(value) ? 0x8000 : 0;
  const double magnitude = std::abs(value);
  const uint64_t infinity = uint64_t{2u * static_cast<unsigned>(format.bias) + 1} << format.fraction;
  if (std::isinf(value)) return sign | infinity;
  const int exponent = magnitude == 0 ? 1 - format.bias : std::max(std::ilogb(magnitude), 1 - format.bias);
  // In units of the last place. What is rounded up to the next power of two has the next exponent by itself.
  const auto units = static_cast<uint64_t>(std::nearbyint(std::ldexp(magnitude, format.fraction - exponent)));
  const uint64_t bits = units + (static_cast<uint64_t>(exponent + format.bias - 1) << format.fraction);
  return sign | std::min(bits, infinity);
}

TC_HOST_DEVICE inline bool IsFloat(tcDataType_t type) { return type >= tcFloat16; }

// Element `index` of a rank's data: any bit pattern now and then, NaNs and infinities among them, else one of moderate
// magnitude, so that sums keep several of them.
TC_HOST_DEVICE inline uint64_t ElementBits(tcDataType_t type, uint64_t seed, int rank, uint64_t index) {
  const uint64_t random = Mix(seed * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(rank) * 0xD1B54A32D192ED03u + index);
  const uint64_t any = Mix(random);
  const auto value = static_cast<float>((static_cast<double>(any % 200'001) - 100'000) / 4096);
  if (random % 16 != 0) {
    if (type == tcFloat32) return std::bit_cast<uint32_t>(value);
    if (type == tcFloat64) return std::bit_cast<uint64_t>(value / 3.0);
    if (type == tcFloat16 || type == tcBfloat16) return Encode16(value, FormatOf(type));
  } else if (random % 64 == 0 && IsFloat(type)) {  // zeros of either sign
    return any % 2 << (8 * ElementSize(type) - 1);
  }
  return any >> (64 - 8 * ElementSize(type));
}

inline void StoreElement(void* at, tcDataType_t type, uint64_t bits) { std::memcpy(at, &bits, ElementSize(type)); }

// `values(rank)` is the element of each of `n_ranks` ranks.
template <class T, class Values>
TC_HOST_DEVICE T FoldFloats(tcRedOp_t op, int n_ranks, const Values& values) {
  T result = values(0);
  for (int rank = 1; rank < n_ranks; ++rank) {
    const T next = values(rank);
    if (op == tcSum || op == tcAvg) {
      result += next;
    } else if (op == tcProd) {
      result *= next;
    } else if (std::isnan(result)) {
      result = next;
    } else if (result == 0 && next == 0) {
      if (std::signbit(next) == (op == tcMin)) result = next;
    } else if (op == tcMin ? next < result : next > result) {
      result = next;
    }
  }
  return op == tcAvg ? result / static_cast<T>(n_ranks) : result;
}

template <class T, class BitsOf>
TC_HOST_DEVICE uint64_t FoldIntegers(tcRedOp_t op, int n_ranks, const BitsOf& bits) {
  auto result = static_cast<T>(bits(0));
  for (int rank = 1; rank < n_ranks; ++rank) {
    const auto next = static_cast<T>(bits(rank));
    if (op == tcSum || op == tcAvg) {
      result = static_cast<T>(static_cast<uint64_t>(result) + static_cast<uint64_t>(next));
    } else if (op == tcProd) {
      result = static_cast<T>(static_cast<uint64_t>(result) * static_cast<uint64_t>(next));
    } else if (op == tcMin ? next < result : next > result) {
      result = next;
    }
  }
  if (op == tcAvg) result = static_cast<T>(result / static_cast<T>(n_ranks));
  return static_cast<uint64_t>(result);
}

// The reduction of one element of each rank, in the order of the ranks: `bits(rank)`. What lies above the type's own
// bits means nothing.
template <class BitsOf>
TC_HOST_DEVICE uint64_t ReducedBits(tcDataType_t type, tcRedOp_t op, int n_ranks, const BitsOf& bits) {
  switch (type) {
    case tcInt8:
      return FoldIntegers<int8_t>(op, n_ranks, bits);
    case tcUint8:
      return FoldIntegers<uint8_t>(op, n_ranks, bits);
    case tcInt32:
      return FoldIntegers<int32_t>(op, n_ranks, bits);
    case tcUint32:
      return FoldIntegers<uint32_t>(op, n_ranks, bits);
    case tcInt64:
      return FoldIntegers<int64_t>(op, n_ranks, bits);
    case tcUint64:
      return FoldIntegers<uint64_t>(op, n_ranks, bits);
    case tcFloat64: {
      const auto result = FoldFloats<double>(op, n_ranks, [&](int rank) { return std::bit_cast<double>(bits(rank)); });
      return std::isnan(result) ? 0x7fff'ffff'ffff'ffff : std::bit_cast<uint64_t>(result);
    }
    case tcFloat32: {
      const auto result = FoldFloats<float>(
          op, n_ranks, [&](int rank) { return std::bit_cast<float>(static_cast<uint32_t>(bits(rank))); });
      return std::isnan(result) ? 0x7fff'ffff : std::bit_cast<uint32_t>(result);
    }
    default: {
      const Float16Format format = FormatOf(type);
      const auto result =
          FoldFloats<float>(op, n_ranks, [&](int rank) { return static_cast<float>(Decode16(bits(rank), format)); });
      return Encode16(result, format);
    }
  }
}

}  // namespace tc::test
