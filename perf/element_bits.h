// Single elements as bits, on CPUs and on GPUs. Rounding is to nearest, ties to even.
#ifndef TC_PERF_ELEMENT_BITS_H_
#define TC_PERF_ELEMENT_BITS_H_

#include <tc.h>

#include <cstdint>

#include "host_device.h"

namespace tc::perf {

TC_PERF_HOST_DEVICE inline float FloatFromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return BitCast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return BitCast<float>(sign | BitCast<uint32_t>(magnitude));
  }
  return BitCast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

TC_PERF_HOST_DEVICE inline uint16_t HalfFromFloat(float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000u;
  const uint32_t magnitude = bits & 0x7fffffffu;
  uint32_t half;
  if (magnitude > 0x7f800000u) {  // NaN: keep the payload, never let it become infinity
    const uint32_t payload = (magnitude >> 13) & 0x3ffu;
    half = 0x7c00u | (payload != 0 ? payload : 1u);
  } else if (magnitude >= 0x477ff000u) {  // from 65520 on
    half = 0x7c00u;
  } else if (magnitude < 0x38800000u) {
    // Subnormal: 0.5f has the unit 2^-24, a half's smallest step, so this addition rounds to it.
    const float sum = BitCast<float>(magnitude) + 0.5f;
    half = BitCast<uint32_t>(sum) - BitCast<uint32_t>(0.5f);
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

TC_PERF_HOST_DEVICE inline float FloatFromBfloat16(uint16_t bits) { return BitCast<float>(uint32_t{bits} << 16); }

TC_PERF_HOST_DEVICE inline uint16_t Bfloat16FromFloat(float value) {
  const uint32_t bits = BitCast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const uint32_t top = bits >> 16;
    return static_cast<uint16_t>((top & 0x7fu) != 0 ? top : top | 1u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

// An element of type `code` from a float and back; an element of two bytes is in the low bits.
TC_PERF_HOST_DEVICE inline uint32_t BitsFromFloat(tcDataType_t code, float value) {
  if (code == tcFloat16) return HalfFromFloat(value);
  if (code == tcBfloat16) return Bfloat16FromFloat(value);
  return BitCast<uint32_t>(value);
}

TC_PERF_HOST_DEVICE inline float FloatFromBits(tcDataType_t code, uint32_t bits) {
  if (code == tcFloat16) return FloatFromHalf(static_cast<uint16_t>(bits));
  if (code == tcBfloat16) return FloatFromBfloat16(static_cast<uint16_t>(bits));
  return BitCast<float>(bits);
}

TC_PERF_HOST_DEVICE inline float Rounded(tcDataType_t code, float value) {
  return FloatFromBits(code, BitsFromFloat(code, value));
}

}  // namespace tc::perf

#endif  // TC_PERF_ELEMENT_BITS_H_
