// The kernel in namespace HWY_NAMESPACE is compiled once per instruction set: Highway's foreach_target.h includes this
// file again for each. Highway is used headers only; the choice at run time is ours, so nothing of libhwy is linked.
//
// A tile is computed in blocks of at most kBlockRows x kBlockCols, each with its sum over k split into blocks of
// kBlockK:
//   pack a -> [kBlockRows][kBlockK], pack b -> panels of [kBlockK][kPanelCols], both fp32 and padded with zeros
//   acc[kBlockRows][kBlockCols] += packed a * packed b, a register tile of kTileRows x kPanelCols at a time
// then acc * alpha is rounded into c. Edges go through the same register tile as the interior (their padding is
// computed and dropped), which is why an element's sum is the same wherever it lies.
#include "host/gemm.h"

#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/float16.h"

#if defined(__x86_64__) || defined(__i386__)
#include <cpuid.h>
#endif

// AVX-512, AVX2 and one baseline. Targets with sizeless vectors (SVE, RVV) cannot hold the register tile in an array.
#undef HWY_DISABLED_TARGETS
#define HWY_DISABLED_TARGETS (~(HWY_AVX3 | HWY_AVX2 | HWY_NEON | HWY_EMU128 | HWY_SCALAR))
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "host/gemm.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

#ifndef TC_HOST_GEMM_ONCE
#define TC_HOST_GEMM_ONCE
namespace tc::host {
namespace {

constexpr size_t kBlockK = 256;
constexpr size_t kBlockCols = 256;
constexpr size_t kScratchAlignment = 64;

constexpr size_t RoundUp(size_t value, size_t multiple) { return (value + multiple - 1) / multiple * multiple; }
constexpr size_t Min(size_t a, size_t b) { return a < b ? a : b; }

template <tcDataType_t kType>
struct ElementOf {
  using Type = uint16_t;
};
template <>
struct ElementOf<tcFloat32> {
  using Type = float;
};
template <tcDataType_t kType>
using Element = typename ElementOf<kType>::Type;

}  // namespace
}  // namespace tc::host
#endif  // TC_HOST_GEMM_ONCE

HWY_BEFORE_NAMESPACE();
namespace tc::host {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

using F32 = hn::ScalableTag<float>;
using U32 = hn::RebindToUnsigned<F32>;
using U16 = hn::Rebind<uint16_t, F32>;
using F16 = hn::Rebind<hwy::float16_t, F32>;
using Vec = hn::Vec<F32>;
constexpr size_t kLanes = HWY_LANES(float);

// The register tile: enough independent sums to hide the latency of an FMA, within the 32 (AVX-512, NEON) or 16
// registers, and rows that divide the usual tiles.
#if HWY_TARGET == HWY_AVX3 || HWY_TARGET == HWY_NEON
constexpr size_t kTileRows = 8, kTileVecs = 2;
#elif HWY_TARGET == HWY_AVX2
constexpr size_t kTileRows = 4, kTileVecs = 2;
#else
constexpr size_t kTileRows = 4, kTileVecs = 16 / kLanes / 4;
#endif
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128
constexpr bool kHalfInstructions = false;  // Highway emulates them here, without our rounding
#else
constexpr bool kHalfInstructions = true;
#endif
constexpr size_t kBlockRows = RoundUp(128, kTileRows);
constexpr size_t kPanelCols = kTileVecs * kLanes;
static_assert(kBlockCols % kPanelCols == 0 && kPanelCols % 4 == 0 && kBlockK % kLanes == 0);

template <tcDataType_t kType>
HWY_INLINE Vec LoadAsFloat(const Element<kType>* from) {
  if constexpr (kType == tcFloat32) {
    return hn::LoadU(F32(), from);
  } else if constexpr (kType == tcBfloat16) {
    return hn::BitCast(F32(), hn::ShiftLeft<16>(hn::PromoteTo(U32(), hn::LoadU(U16(), from))));
  } else if constexpr (kHalfInstructions) {
    return hn::PromoteTo(F32(), hn::BitCast(F16(), hn::LoadU(U16(), from)));
  } else {
    HWY_ALIGN float lanes[kLanes];
    for (size_t i = 0; i < kLanes; ++i) lanes[i] = HalfToFloat(from[i]);
    return hn::Load(F32(), lanes);
  }
}

template <tcDataType_t kType>
HWY_INLINE void StoreRounded(Vec value, Element<kType>* to) {
  if constexpr (kType == tcFloat32) {
    hn::StoreU(value, F32(), to);
  } else if constexpr (kType == tcBfloat16) {
    // As FloatToBf16. Highway 1.0's own conversion truncates.
    const U32 d;
    const auto bits = hn::BitCast(d, value);
    const auto odd = hn::And(hn::ShiftRight<16>(bits), hn::Set(d, 1));
    const auto rounded = hn::Add(bits, hn::Add(odd, hn::Set(d, 0x7fff)));
    const auto quiet = hn::Or(bits, hn::Set(d, 0x400000));
    const auto chosen = hn::IfThenElse(hn::RebindMask(d, hn::IsNaN(value)), quiet, rounded);
    const auto upper = hn::BitCast(hn::RebindToSigned<U32>(), hn::ShiftRight<16>(chosen));
    hn::StoreU(hn::DemoteTo(U16(), upper), U16(), to);
  } else if constexpr (kHalfInstructions) {
    hn::StoreU(hn::BitCast(U16(), hn::DemoteTo(F16(), value)), U16(), to);
  } else {
    HWY_ALIGN float lanes[kLanes];
    hn::Store(value, F32(), lanes);
    for (size_t i = 0; i < kLanes; ++i) to[i] = FloatToHalf(lanes[i]);
  }
}

// to[0, n) = from[0, n) as fp32, then zeros up to `padded` and to the end of the vector.
template <tcDataType_t kType>
void PackRow(const Element<kType>* from, size_t n, size_t padded, float* to) {
  size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) hn::Store(LoadAsFloat<kType>(from + i), F32(), to + i);
  if (i < n) {
    Element<kType> tail[kLanes] = {};
    memcpy(tail, from + i, (n - i) * sizeof(tail[0]));
    hn::Store(LoadAsFloat<kType>(tail), F32(), to + i);
    i += kLanes;
  }
  for (; i < padded; i += kLanes) hn::Store(hn::Zero(F32()), F32(), to + i);
}

template <tcDataType_t kType>
void PackA(const Element<kType>* a, size_t lda, size_t rows, size_t k, float* packed) {
  const size_t padded_rows = RoundUp(rows, kTileRows);
  for (size_t i = 0; i < padded_rows; ++i) {
    if (i < rows) {
      PackRow<kType>(a + i * lda, k, k, packed + i * kBlockK);
    } else {
      PackRow<kType>(nullptr, 0, k, packed + i * kBlockK);
    }
  }
}

// b[k, j] at b + k * ldb + j.
template <tcDataType_t kType>
void PackBKN(const Element<kType>* b, size_t ldb, size_t cols, size_t k, float* packed) {
  for (size_t j = 0; j < cols; j += kPanelCols) {
    float* panel = packed + j * kBlockK;
    for (size_t p = 0; p < k; ++p) {
      PackRow<kType>(b + p * ldb + j, Min(kPanelCols, cols - j), kPanelCols, panel + p * kPanelCols);
    }
  }
}

// b[k, j] at b + j * ldb + k: transposed while packing, four columns at a time.
template <tcDataType_t kType>
void PackBNK(const Element<kType>* b, size_t ldb, size_t cols, size_t k, float* packed) {
  const size_t padded_cols = RoundUp(cols, kPanelCols);
  for (size_t j = 0; j < padded_cols; j += 4) {
    alignas(kScratchAlignment) float columns[4][kBlockK];
    for (size_t i = 0; i < 4; ++i) {
      if (j + i < cols) {
        PackRow<kType>(b + (j + i) * ldb, k, k, columns[i]);
      } else {
        PackRow<kType>(nullptr, 0, k, columns[i]);
      }
    }
    float* to = packed + j / kPanelCols * kPanelCols * kBlockK + j % kPanelCols;
    const F32 d;
    for (size_t p = 0; p < k; p += kLanes) {
      HWY_ALIGN float quads[kLanes][4];
      hn::StoreInterleaved4(hn::Load(d, columns[0] + p), hn::Load(d, columns[1] + p), hn::Load(d, columns[2] + p),
                            hn::Load(d, columns[3] + p), d, quads[0]);
      for (size_t i = 0; i < kLanes; ++i) memcpy(to + (p + i) * kPanelCols, quads[i], sizeof(quads[i]));
    }
  }
}

// acc[kTileRows][kPanelCols] = (first ? 0 : acc) + a * b. Each block of k is summed on its own before it is added: that
// keeps the rounding error of a long sum down.
void MultiplyRegisterTile(const float* a, const float* b, size_t k, bool first, float* acc) {
  const F32 d;
  Vec sum[kTileRows][kTileVecs];
  HWY_UNROLL(16)
  for (size_t i = 0; i < kTileRows; ++i) {
    HWY_UNROLL(16)
    for (size_t v = 0; v < kTileVecs; ++v) sum[i][v] = hn::Zero(d);
  }
  for (size_t p = 0; p < k; ++p) {
    Vec b_row[kTileVecs];
    HWY_UNROLL(16)
    for (size_t v = 0; v < kTileVecs; ++v) b_row[v] = hn::Load(d, b + p * kPanelCols + v * kLanes);
    HWY_UNROLL(16)
    for (size_t i = 0; i < kTileRows; ++i) {
      const Vec a_element = hn::Set(d, a[i * kBlockK + p]);
      HWY_UNROLL(16)
      for (size_t v = 0; v < kTileVecs; ++v) sum[i][v] = hn::MulAdd(a_element, b_row[v], sum[i][v]);
    }
  }
  HWY_UNROLL(16)
  for (size_t i = 0; i < kTileRows; ++i) {
    HWY_UNROLL(16)
    for (size_t v = 0; v < kTileVecs; ++v) {
      float* at = acc + i * kBlockCols + v * kLanes;
      hn::Store(first ? sum[i][v] : hn::Add(hn::Load(d, at), sum[i][v]), d, at);
    }
  }
}

template <tcDataType_t kType>
void StoreRow(const float* acc, size_t n, float alpha, Element<kType>* c) {
  const Vec factor = hn::Set(F32(), alpha);
  size_t j = 0;
  for (; j + kLanes <= n; j += kLanes) StoreRounded<kType>(hn::Mul(factor, hn::Load(F32(), acc + j)), c + j);
  if (j < n) {
    Element<kType> tail[kLanes];
    StoreRounded<kType>(hn::Mul(factor, hn::Load(F32(), acc + j)), tail);
    memcpy(c + j, tail, (n - j) * sizeof(tail[0]));
  }
}

template <tcDataType_t kType>
void StoreBlock(const GemmTile& tile, const float* acc, size_t i0, size_t rows, size_t j0, size_t cols) {
  Element<kType>* c = static_cast<Element<kType>*>(tile.c) + i0 * tile.ldc + j0;
  for (size_t i = 0; i < rows; ++i) StoreRow<kType>(acc + i * kBlockCols, cols, tile.alpha, c + i * tile.ldc);
}

template <tcDataType_t kType>
void Multiply(const GemmTile& tile, GemmScratch& scratch) {
  const auto* a = static_cast<const Element<kType>*>(tile.a);
  const auto* b = static_cast<const Element<kType>*>(tile.b);
  float* packed_a = scratch.Take(kBlockRows * kBlockK + kBlockK * kBlockCols + kBlockRows * kBlockCols);
  float* packed_b = packed_a + kBlockRows * kBlockK;
  float* acc = packed_b + kBlockK * kBlockCols;
  for (size_t j0 = 0; j0 < tile.cols; j0 += kBlockCols) {
    const size_t cols = Min(kBlockCols, tile.cols - j0);
    for (size_t i0 = 0; i0 < tile.rows; i0 += kBlockRows) {
      const size_t rows = Min(kBlockRows, tile.rows - i0);
      for (size_t p0 = 0; p0 < tile.k; p0 += kBlockK) {
        const size_t k = Min(kBlockK, tile.k - p0);
        PackA<kType>(a + i0 * tile.lda + p0, tile.lda, rows, k, packed_a);
        if (tile.b_layout == tcBLayoutNK) {
          PackBNK<kType>(b + j0 * tile.ldb + p0, tile.ldb, cols, k, packed_b);
        } else {
          PackBKN<kType>(b + p0 * tile.ldb + j0, tile.ldb, cols, k, packed_b);
        }
        for (size_t j = 0; j < cols; j += kPanelCols) {  // the panel of b stays in the first-level cache
          for (size_t i = 0; i < rows; i += kTileRows) {
            MultiplyRegisterTile(packed_a + i * kBlockK, packed_b + j * kBlockK, k, p0 == 0, acc + i * kBlockCols + j);
          }
        }
      }
      if (tile.out_type == tcFloat32) StoreBlock<tcFloat32>(tile, acc, i0, rows, j0, cols);
      if (tile.out_type == tcFloat16) StoreBlock<tcFloat16>(tile, acc, i0, rows, j0, cols);
      if (tile.out_type == tcBfloat16) StoreBlock<tcBfloat16>(tile, acc, i0, rows, j0, cols);
    }
  }
}

}  // namespace

void MultiplyTile(const GemmTile& tile, GemmScratch& scratch) {
  if (tile.in_type == tcFloat32) Multiply<tcFloat32>(tile, scratch);
  if (tile.in_type == tcFloat16) Multiply<tcFloat16>(tile, scratch);
  if (tile.in_type == tcBfloat16) Multiply<tcBfloat16>(tile, scratch);
}

}  // namespace HWY_NAMESPACE
}  // namespace tc::host
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace tc::host {
namespace {

struct Target {
  const char* name;
  void (*multiply)(const GemmTile& tile, GemmScratch& scratch);
  bool (*runs_here)();
};

#if HWY_ARCH_X86
[[maybe_unused]] bool HasAvx2() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;  // not all compilers' __builtin_cpu_supports knows f16c
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) && (ecx & bit_F16C) && __builtin_cpu_supports("avx2") &&
         __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi") && __builtin_cpu_supports("bmi2") &&
         __builtin_cpu_supports("aes") && __builtin_cpu_supports("pclmul");
}

[[maybe_unused]] bool HasAvx3() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

// Best first. The static target is what the compiler may use anywhere: it always runs.
std::span<const Target> Targets() {
  static const Target targets[] = {
#if (HWY_TARGETS & HWY_AVX3) && HWY_STATIC_TARGET != HWY_AVX3
    {"AVX3", N_AVX3::MultiplyTile, HasAvx3},
#endif
#if (HWY_TARGETS & HWY_AVX2) && HWY_STATIC_TARGET != HWY_AVX2
    {"AVX2", N_AVX2::MultiplyTile, HasAvx2},
#endif
    {hwy::TargetName(HWY_STATIC_TARGET), HWY_STATIC_DISPATCH(MultiplyTile), [] { return true; }},
  };
  return targets;
}

const Target& BestTarget() {
  static const Target* const best = [] {
    const Target* target = Targets().data();
    while (!target->runs_here()) ++target;
    return target;
  }();
  return *best;
}

}  // namespace

float* GemmScratch::Take(size_t floats) {
  constexpr size_t kSlack = kScratchAlignment / sizeof(float);
  if (buffer_.size() < floats + kSlack) buffer_.resize(floats + kSlack);
  const uintptr_t start = reinterpret_cast<uintptr_t>(buffer_.data());
  return buffer_.data() + (RoundUp(start, kScratchAlignment) - start) / sizeof(float);
}

void Gemm(const GemmTile& tile, GemmScratch& scratch) { BestTarget().multiply(tile, scratch); }

const char* GemmTargetName() { return BestTarget().name; }

std::vector<const char*> GemmTargetNames() {
  std::vector<const char*> names;
  for (const Target& target : Targets()) {
    if (target.runs_here()) names.push_back(target.name);
  }
  return names;
}

void GemmOnTarget(const char* target, const GemmTile& tile, GemmScratch& scratch) {
  for (const Target& candidate : Targets()) {
    if (candidate.runs_here() && std::string_view(candidate.name) == target) return candidate.multiply(tile, scratch);
  }
}

}  // namespace tc::host
#endif  // HWY_ONCE
