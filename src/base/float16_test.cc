#include "base/float16.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <random>

namespace tc {
namespace {

struct Format {
  const char* name;
  uint16_t (*from_float)(float);
  float (*to_float)(uint16_t);
  int fraction_bits;
  int min_exponent;    // of a normal number
  double overflow_at;  // the power of two above the largest number
};

const Format kFormats[] = {
    {"fp16", FloatToHalf, HalfToFloat, 10, -14, 0x1p16},
    {"bf16", FloatToBf16, Bf16ToFloat, 7, -126, 0x1p128},
};

// The value of `value` in the format, found with double arithmetic instead of bits.
double Rounded(const Format& format, float value) {
  if (value == 0 || !std::isfinite(value)) return value;
  const int exponent = std::max(std::ilogb(value), format.min_exponent);
  const double unit = std::ldexp(1.0, exponent - format.fraction_bits);
  const double rounded = std::nearbyint(value / unit) * unit;
  return std::abs(rounded) >= format.overflow_at ? std::copysign(INFINITY, rounded) : rounded;
}

void ExpectRounded(const Format& format, float value) {
  const float got = format.to_float(format.from_float(value));
  if (std::isnan(value)) {
    ASSERT_TRUE(std::isnan(got)) << format.name << " of NaN " << std::bit_cast<uint32_t>(value);
  } else {
    ASSERT_EQ(got, Rounded(format, value)) << format.name << " of " << value;
  }
  ASSERT_EQ(std::signbit(got), std::signbit(value)) << format.name << " of " << value;
}

TEST(Float16, EveryPatternHasItsValue) {
  for (const Format& format : kFormats) {
    const int bias = 1 - format.min_exponent;
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const uint32_t fraction = bits & ((1u << format.fraction_bits) - 1);
      const int exponent = static_cast<int>((bits & 0x7fff) >> format.fraction_bits);
      double magnitude = std::ldexp(fraction, format.min_exponent - format.fraction_bits);
      if (exponent > 0) magnitude = std::ldexp(1 + std::ldexp(fraction, -format.fraction_bits), exponent - bias);
      if (exponent == 2 * bias + 1) magnitude = fraction == 0 ? INFINITY : NAN;
      const float got = format.to_float(static_cast<uint16_t>(bits));
      ASSERT_EQ(std::signbit(got), bits >= 0x8000) << format.name << " " << bits;
      ASSERT_EQ(std::isnan(got), std::isnan(magnitude)) << format.name << " " << bits;
      if (std::isnan(got)) continue;
      ASSERT_EQ(std::abs(got), magnitude) << format.name << " " << bits;
    }
  }
}

TEST(Float16, EveryPatternSurvivesTheWayToFloatAndBack) {
  for (const Format& format : kFormats) {
    for (uint32_t bits = 0; bits < 0x10000; ++bits) {
      const float value = format.to_float(static_cast<uint16_t>(bits));
      const uint32_t quiet = std::isnan(value) ? 1u << (format.fraction_bits - 1) : 0;
      ASSERT_EQ(format.from_float(value), bits | quiet) << format.name;
    }
  }
}

TEST(Float16, TiesGoToEvenAndTheirNeighboursToTheNearest) {
  for (const Format& format : kFormats) {
    const uint16_t infinity = format.from_float(INFINITY);
    for (uint16_t bits = 0; bits + 1 < infinity; ++bits) {
      const double low = format.to_float(bits), high = format.to_float(static_cast<uint16_t>(bits + 1));
      const float tie = static_cast<float>((low + high) / 2);
      ASSERT_EQ(format.from_float(tie), bits + (bits & 1)) << format.name;
      ASSERT_EQ(format.from_float(std::nextafter(tie, 0.0f)), bits) << format.name;
      ASSERT_EQ(format.from_float(std::nextafter(tie, INFINITY)), bits + 1) << format.name;
      ASSERT_EQ(format.from_float(-tie), 0x8000 + bits + (bits & 1)) << format.name;
    }
  }
}

TEST(Float16, RoundsRandomFloatsToTheNearest) {
  std::mt19937 random(1);
  for (const Format& format : kFormats) {
    for (int i = 0; i < 200000; ++i) {
      ASSERT_NO_FATAL_FAILURE(ExpectRounded(format, std::bit_cast<float>(static_cast<uint32_t>(random()))));
      // Most random patterns are far outside of fp16: these are within it and just around it.
      const float mantissa = static_cast<float>(static_cast<int32_t>(random())) * 0x1p-31f;
      ASSERT_NO_FATAL_FAILURE(ExpectRounded(format, std::ldexp(mantissa, static_cast<int>(random() % 48) - 30)));
    }
  }
}

TEST(Float16, OverflowBecomesInfinityAndNanStaysNan) {
  EXPECT_EQ(FloatToHalf(65519.996f), 0x7bff);
  EXPECT_EQ(FloatToHalf(65520.0f), 0x7c00);
  EXPECT_EQ(FloatToHalf(-1e30f), 0xfc00);
  EXPECT_EQ(FloatToBf16(std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(FloatToBf16(std::bit_cast<float>(0x7f7f7fffu)), 0x7f7f);
  for (const uint32_t nan : {0x7f800001u, 0x7fffffffu, 0xff800001u, 0xffffffffu, 0x7fc00000u}) {
    for (const Format& format : kFormats) ASSERT_NO_FATAL_FAILURE(ExpectRounded(format, std::bit_cast<float>(nan)));
  }
}

static_assert(FloatToHalf(1.0f) == 0x3c00 && HalfToFloat(0x0001) == 0x1p-24f && FloatToBf16(1.0f) == 0x3f80,
              "usable in constant expressions");

}  // namespace
}  // namespace tc
