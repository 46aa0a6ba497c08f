// Conversions between fp32 and the two 16-bit formats, for one value: fp16 (IEEE binary16) and bf16 (the upper half of
// an fp32). To 16 bits: round to nearest, ties to even; overflow becomes infinity; a NaN stays a NaN and keeps its sign
// and the payload bits that fit. To fp32: exact. The results are those of the processors' own instructions.
#pragma once

#include <bit>
#include <cstdint>

namespace tc {

constexpr uint16_t FloatToBf16(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  // Rounding would carry a NaN with a low payload into infinity, and one with a high payload into zero.
  if ((bits & 0x7fffffff) > 0x7f800000) return static_cast<uint16_t>((bits | 0x400000) >> 16);
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

constexpr float Bf16ToFloat(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

constexpr uint16_t FloatToHalf(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  const uint32_t sign = (bits >> 16) & 0x8000;
  const uint32_t magnitude = bits & 0x7fffffff;
  uint32_t half = 0;
  if (magnitude > 0x7f800000) {
    half = 0x7e00 | ((magnitude >> 13) & 0x3ff);
  } else if (magnitude >= 0x47800000) {  // 2^16; rounding carries what is nearer to it there by itself
    half = 0x7c00;
  } else if (magnitude >= 0x38800000) {  // 2^-14, the smallest normal fp16; the exponent bias goes from 127 to 15
    half = (magnitude - (112u << 23) + 0xfff + ((magnitude >> 13) & 1)) >> 13;
  } else if (magnitude >= 0x33000000) {  // 2^-25, half of the smallest subnormal fp16; below it all is zero
    const uint32_t significand = (magnitude & 0x7fffff) | 0x800000;
    const uint32_t shift = 126 - (magnitude >> 23);
    half = (significand + (1u << (shift - 1)) - 1 + ((significand >> shift) & 1)) >> shift;
  }
  return static_cast<uint16_t>(sign | half);
}

constexpr float HalfToFloat(uint16_t bits) {
  const uint32_t sign = (bits & 0x8000u) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t fraction = bits & 0x3ff;
  if (exponent == 0x1f) {
    const uint32_t quiet = fraction != 0 ? 0x400000 : 0;
    return std::bit_cast<float>(sign | 0x7f800000 | quiet | (fraction << 13));
  }
  exponent += 112;
  if (exponent == 112) {
    if (fraction == 0) return std::bit_cast<float>(sign);
    const uint32_t shift = static_cast<uint32_t>(std::countl_zero(fraction)) - 21;  // a subnormal is normal in fp32
    fraction = (fraction << shift) & 0x3ff;
    exponent = 113 - shift;
  }
  return std::bit_cast<float>(sign | (exponent << 23) | (fraction << 13));
}

}  // namespace tc
