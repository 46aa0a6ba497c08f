#include "host/reduce.h"

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "base/float16.h"
#include "order/reduction.h"

namespace tc::host {
namespace {

struct HalfBits {
  static float ToFloat(uint16_t bits) { return HalfToFloat(bits); }
  static uint16_t FromFloat(float value) { return FloatToHalf(value); }
};
struct Bf16Bits {
  static float ToFloat(uint16_t bits) { return Bf16ToFloat(bits); }
  static uint16_t FromFloat(float value) { return FloatToBf16(value); }
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
      for (size_t i = 0; i < length; ++i) sums[i] = Average(sums[i], divisor);
    }
    std::byte* const result = dst + first * kElement;
    for (size_t i = 0; i < length; ++i) StoreAt<Format>(result, i, sums[i]);
  }
}

template <class Element>
void ReduceAs(tcRedOp_t op, const std::byte* const* sources, int n_sources, std::byte* dst, size_t count) {
  WithStep<Element>(op, [&]<class Format, class Step>() {
    ReduceWith<Format, Step>(sources, n_sources, dst, count, op == tcAvg ? n_sources : 1);
  });
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
      return ReduceAs<Half<HalfBits>>(op, sources, n_sources, dst, count);
    case tcBfloat16:
      return ReduceAs<Bf16<Bf16Bits>>(op, sources, n_sources, dst, count);
    case tcFloat32:
      return ReduceAs<Fp32>(op, sources, n_sources, dst, count);
    default:
      return ReduceAs<Fp64>(op, sources, n_sources, dst, count);
  }
}

}  // namespace tc::host
