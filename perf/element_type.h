// The element types of the fused GEMMs: names, conversions, and the numbers that a tolerance is made of.
#ifndef TC_PERF_ELEMENT_TYPE_H_
#define TC_PERF_ELEMENT_TYPE_H_

#include <tc.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace tc::perf {

struct ElementType {
  tcDataType_t code;
  const char* name;      // as in nccl-tests: float, half, bfloat16
  const char* npy;       // NumPy's descr; bfloat16 has none and travels as uint16
  size_t bytes;          // of an element
  double unit_roundoff;  // rounding to nearest errs by at most this, relatively ...
  double smallest_half;  // ... or by half of the smallest subnormal, absolutely
  double overflow;       // values of this magnitude or more round to infinity
  uint32_t all_bits;     // an element of 0xff bytes: a NaN, used as poison
};

std::span<const ElementType> ElementTypes();
const ElementType& ElementTypeOf(tcDataType_t code);
// nullptr: no such type.
const ElementType* FindElementType(std::string_view name);
const ElementType* FindNpyType(std::string_view descr);

// Converts between packed elements of `type` and floats. Encoding rounds to nearest, ties to even; Encode(Decode(x))
// gives x back bit by bit, NaNs included.
void Decode(const ElementType& type, const void* elements, std::span<float> values);
void Encode(const ElementType& type, std::span<const float> values, void* elements);

// The raw bits of element `index`.
uint32_t ElementBits(const ElementType& type, const void* elements, size_t index);

}  // namespace tc::perf

#endif  // TC_PERF_ELEMENT_TYPE_H_
