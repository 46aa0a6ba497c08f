#include "element_type.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <limits>

namespace tc::perf {
namespace {

TEST(ElementTypeTest, SixteenBitPatternsSurviveFloat) {
  for (const tcDataType_t code : {tcFloat16, tcBfloat16}) {
    const ElementType& type = ElementTypeOf(code);
    for (uint32_t bits = 0; bits <= 0xffff; ++bits) {
      const auto element = static_cast<uint16_t>(bits);
      float value;
      uint16_t back;
      Decode(type, &element, {&value, 1});
      Encode(type, {&value, 1}, &back);
      ASSERT_EQ(back, element) << type.name;
    }
  }
}

uint16_t Encoded(tcDataType_t code, float value) {
  uint16_t element;
  Encode(ElementTypeOf(code), {&value, 1}, &element);
  return element;
}

TEST(ElementTypeTest, RoundsToNearestTiesToEven) {
  EXPECT_EQ(Encoded(tcFloat16, 1.0f), 0x3c00);
  EXPECT_EQ(Encoded(tcFloat16, 1.0f + 0x1p-11f), 0x3c00);
  EXPECT_EQ(Encoded(tcFloat16, 1.0f + 0x1p-10f + 0x1p-11f), 0x3c02);
  EXPECT_EQ(Encoded(tcFloat16, std::nextafter(1.0f + 0x1p-11f, 2.0f)), 0x3c01);
  EXPECT_EQ(Encoded(tcFloat16, 65519.0f), 0x7bff);
  EXPECT_EQ(Encoded(tcFloat16, 65520.0f), 0x7c00);
  EXPECT_EQ(Encoded(tcFloat16, -0x1p-24f), 0x8001);
  EXPECT_EQ(Encoded(tcFloat16, 0x1p-25f), 0x0000);
  EXPECT_EQ(Encoded(tcFloat16, 0x1.8p-24f), 0x0002);
  EXPECT_EQ(Encoded(tcBfloat16, 1.0f + 0x1p-8f), 0x3f80);
  EXPECT_EQ(Encoded(tcBfloat16, 1.0f + 0x1p-7f + 0x1p-8f), 0x3f82);
  EXPECT_EQ(Encoded(tcBfloat16, std::numeric_limits<float>::max()), 0x7f80);
  EXPECT_EQ(Encoded(tcBfloat16, std::bit_cast<float>(0x7f800001u)), 0x7f81);
}

}  // namespace
}  // namespace tc::perf
