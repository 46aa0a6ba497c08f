#include "element_type.h"

#include <cstdlib>
#include <cstring>

#include "element_bits.h"

namespace tc::perf {
namespace {

constexpr ElementType kTypes[] = {
    {tcFloat32, "float", "<f4", 4, 0x1p-24, 0x1p-150, 0x1.ffffffp127, 0xffffffffu},
    {tcFloat16, "half", "<f2", 2, 0x1p-11, 0x1p-25, 65520.0, 0xffffu},
    {tcBfloat16, "bfloat16", "<u2", 2, 0x1p-8, 0x1p-134, 0x1.ffp127, 0xffffu},
};

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
