#include "element_type.h"

#include <bit>
#include <cstdlib>
#include <cstring>

namespace tc::perf {
namespace {

constexpr ElementType kTypes[] = {
    {tcFloat32, "float", "<f4", 4, 0x1p-24, 0x1p-150, 0x1.ffffffp127, 0xffffffffu},
    {tcFloat16, "half", "<f2", 2, 0x1p-11, 0x1p-25, 65520.0, 0xffffu},
    {tcBfloat16, "bfloat16", "<u2", 2, 0x1p-8, 0x1p-134, 0x1.ffp127, 0xffffu},
};

float FloatFromHalf(uint16_t half) {
  const uint32_t sign = uint32_t{half & 0x8000u} << 16;
  const uint32_t exponent = (half >> 10) & 0x1fu;
  const uint32_t mantissa = half & 0x3ffu;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000u | mantissa << 13);
  if (exponent == 0) {
    const float magnitude = static_cast<float>(mantissa) * 0x1p-24f;
    return std::bit_cast<float>(sign | std::bit_cast<uint32_t>(magnitude));
  }
  return std::bit_cast<float>(sign | (exponent + 112) << 23 | mantissa << 13);
}

uint16_t HalfFromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
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
    const float sum = std::bit_cast<float>(magnitude) + 0.5f;
    half = std::bit_cast<uint32_t>(sum) - std::bit_cast<uint32_t>(0.5f);
  } else {
    half = (magnitude + 0xfffu + ((magnitude >> 13) & 1u) - 0x38000000u) >> 13;
  }
  return static_cast<uint16_t>(sign | half);
}

float FloatFromBfloat16(uint16_t bits) { return std::bit_cast<float>(uint32_t{bits} << 16); }

uint16_t Bfloat16FromFloat(float value) {
  const uint32_t bits = std::bit_cast<uint32_t>(value);
  if ((bits & 0x7fffffffu) > 0x7f800000u) {
    const uint32_t top = bits >> 16;
    return static_cast<uint16_t>((top & 0x7fu) != 0 ? top : top | 1u);
  }
  return static_cast<uint16_t>((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
}

template <float (*Convert)(uint16_t)>
void DecodeWith(const void* elements, std::span<float> values) {
  const auto* bytes = static_cast<const unsigned char*>(elements);
  for (size_t i = 0; i < values.size(); ++i) {
    uint16_t bits;
    std::memcpy(&bits, bytes + 2 * i, 2);
    values[i] = Convert(bits);
  }
}

template <uint16_t (*Convert)(float)>
void EncodeWith(std::span<const float> values, void* elements) {
  auto* bytes = static_cast<unsigned char*>(elements);
  for (size_t i = 0; i < values.size(); ++i) {
    const uint16_t bits = Convert(values[i]);
    std::memcpy(bytes + 2 * i, &bits, 2);
  }
}

}  // namespace

std::span<const ElementType> ElementTypes() { return kTypes; }

const ElementType& ElementTypeOf(tcDataType_t code) {
  for (const ElementType& type : kTypes) {
    if (type.code == code) return type;
  }
  std::abort();  // codes only come out of the table
}

const ElementType* FindElementType(std::string_view name) {
  for (const ElementType& type : kTypes) {
    if (name == type.name) return &type;
  }
  return nullptr;
}

const ElementType* FindNpyType(std::string_view descr) {
  for (const ElementType& type : kTypes) {
    if (descr == type.npy) return &type;
  }
  return nullptr;
}

void Decode(const ElementType& type, const void* elements, std::span<float> values) {
  if (values.empty()) return;
  switch (type.code) {
    case tcFloat16:
      return DecodeWith<FloatFromHalf>(elements, values);
    case tcBfloat16:
      return DecodeWith<FloatFromBfloat16>(elements, values);
    default:
      std::memcpy(values.data(), elements, values.size_bytes());
  }
}

void Encode(const ElementType& type, std::span<const float> values, void* elements) {
  if (values.empty()) return;
  switch (type.code) {
    case tcFloat16:
      return EncodeWith<HalfFromFloat>(values, elements);
    case tcBfloat16:
      return EncodeWith<Bfloat16FromFloat>(values, elements);
    default:
      std::memcpy(elements, values.data(), values.size_bytes());
  }
}

uint32_t ElementBits(const ElementType& type, const void* elements, size_t index) {
  uint32_t bits = 0;
  std::memcpy(&bits, static_cast<const unsigned char*>(elements) + index * type.bytes, type.bytes);
  return bits;
}

}  // namespace tc::perf
