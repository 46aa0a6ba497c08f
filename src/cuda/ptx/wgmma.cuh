// Matrix products by a warpgroup, both operands in shared memory with 128-byte swizzle. PTX ISA, "Asynchronous
// Warpgroup Level Matrix Multiply-Accumulate". sm_90a.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include <cstdint>

namespace tc::ptx {

// Registers that other instructions wrote are the warpgroup's accumulators from here on.
__device__ inline void FenceWarpgroup() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ inline void CommitWarpgroup() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
// Until at most kPending of the committed groups are not complete.
template <int kPending>
__device__ inline void WaitWarpgroup() {
  asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(kPending) : "memory");
}

template <int kRegisters>
__device__ inline void RaiseRegisters() {
  asm volatile("setmaxnreg.inc.sync.aligned.u32 %0;" ::"n"(kRegisters));
}
template <int kRegisters>
__device__ inline void LowerRegisters() {
  asm volatile("setmaxnreg.dec.sync.aligned.u32 %0;" ::"n"(kRegisters));
}

// Where an operand lies: rows of 128 swizzled bytes, eight of them 1024 bytes. Where the summed dimension is the
// contiguous one, `chunk_bytes` does not matter; else it is the distance from 64 columns to the next 64.
__device__ inline uint64_t OperandAt(uint32_t shared, uint32_t chunk_bytes = 16) {
  constexpr uint64_t kSwizzle128 = uint64_t{1} << 62;
  constexpr uint64_t kEightRows = uint64_t{1024 / 16} << 32;
  return kSwizzle128 | kEightRows | uint64_t{chunk_bytes / 16} << 16 | (shared & 0x3ffff) / 16;
}
// The operand `bytes` further on.
__device__ inline uint64_t Advance(uint64_t operand, uint32_t bytes) { return operand + bytes / 16; }

#define TC_REGISTERS_8(i)                                                                                 \
  "+f"(sum[i]), "+f"(sum[i + 1]), "+f"(sum[i + 2]), "+f"(sum[i + 3]), "+f"(sum[i + 4]), "+f"(sum[i + 5]), \
      "+f"(sum[i + 6]), "+f"(sum[i + 7])
#define TC_REGISTERS_32(i) TC_REGISTERS_8(i), TC_REGISTERS_8(i + 8), TC_REGISTERS_8(i + 16), TC_REGISTERS_8(i + 24)
#define TC_NAMES_0_32                                                      \
  "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, " \
  "%16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define TC_NAMES_32_64                                                               \
  "%32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, " \
  "%48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define TC_NAMES_64_96                                                               \
  "%64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79, " \
  "%80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define TC_NAMES_96_112 "%96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define TC_NAMES_112_128 \
  "%112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"

// %0 .. are the registers of the sum; a, b, add and kTransposedB come behind them.
#define TC_MULTIPLY(kN, Element, type, names, registers, a_name, b_name, add_name, transposed_name)          \
  template <bool kTransposedB>                                                                               \
  __device__ inline void Multiply##kN(float(&sum)[kN / 2], uint64_t a, uint64_t b, int add, Element) {       \
    asm volatile(                                                                                            \
        "{\n"                                                                                                \
        ".reg .pred adding;\n"                                                                               \
        "setp.ne.b32 adding, " add_name                                                                      \
        ", 0;\n"                                                                                             \
        "wgmma.mma_async.sync.aligned.m64n" #kN "k16.f32." type "." type " {" names "}, " a_name ", " b_name \
        ", adding, 1, 1, 0, " transposed_name                                                                \
        ";\n"                                                                                                \
        "}\n"                                                                                                \
        : registers                                                                                          \
        : "l"(a), "l"(b), "r"(add), "n"(kTransposedB ? 1 : 0));                                              \
  }
#define TC_NAMES_128 TC_NAMES_0_32 ", " TC_NAMES_32_64
#define TC_SUM_128 TC_REGISTERS_32(0), TC_REGISTERS_32(32)
#define TC_NAMES_192 TC_NAMES_0_32 ", " TC_NAMES_32_64 ", " TC_NAMES_64_96
#define TC_SUM_192 TC_REGISTERS_32(0), TC_REGISTERS_32(32), TC_REGISTERS_32(64)
#define TC_NAMES_224 TC_NAMES_0_32 ", " TC_NAMES_32_64 ", " TC_NAMES_64_96 ", " TC_NAMES_96_112
#define TC_SUM_224 TC_REGISTERS_32(0), TC_REGISTERS_32(32), TC_REGISTERS_32(64), TC_REGISTERS_8(96), TC_REGISTERS_8(104)
#define TC_NAMES_256 TC_NAMES_0_32 ", " TC_NAMES_32_64 ", " TC_NAMES_64_96 ", " TC_NAMES_96_112 ", " TC_NAMES_112_128
#define TC_SUM_256 TC_REGISTERS_32(0), TC_REGISTERS_32(32), TC_REGISTERS_32(64), TC_REGISTERS_32(96)
TC_MULTIPLY(128, __nv_bfloat16, "bf16", TC_NAMES_128, TC_SUM_128, "%64", "%65", "%66", "%67")
TC_MULTIPLY(128, __half, "f16", TC_NAMES_128, TC_SUM_128, "%64", "%65", "%66", "%67")
TC_MULTIPLY(192, __nv_bfloat16, "bf16", TC_NAMES_192, TC_SUM_192, "%96", "%97", "%98", "%99")
TC_MULTIPLY(192, __half, "f16", TC_NAMES_192, TC_SUM_192, "%96", "%97", "%98", "%99")
TC_MULTIPLY(224, __nv_bfloat16, "bf16", TC_NAMES_224, TC_SUM_224, "%112", "%113", "%114", "%115")
TC_MULTIPLY(224, __half, "f16", TC_NAMES_224, TC_SUM_224, "%112", "%113", "%114", "%115")
TC_MULTIPLY(256, __nv_bfloat16, "bf16", TC_NAMES_256, TC_SUM_256, "%128", "%129", "%130", "%131")
TC_MULTIPLY(256, __half, "f16", TC_NAMES_256, TC_SUM_256, "%128", "%129", "%130", "%131")
#undef TC_REGISTERS_8
#undef TC_REGISTERS_32
#undef TC_NAMES_0_32
#undef TC_NAMES_32_64
#undef TC_NAMES_64_96
#undef TC_NAMES_96_112
#undef TC_NAMES_112_128
#undef TC_NAMES_128
#undef TC_SUM_128
#undef TC_NAMES_192
#undef TC_SUM_192
#undef TC_NAMES_224
#undef TC_SUM_224
#undef TC_NAMES_256
#undef TC_SUM_256
#undef TC_MULTIPLY

// sum[64, kN] = a[64, 16] b[16, kN] + (add ? sum : 0). kTransposedB: b's columns are contiguous, not its rows. Element
// i of a thread's sum: row 16 (warp % 4) + lane / 4 + i / 2 % 2 * 8, column i / 4 * 8 + lane % 4 * 2 + i % 2.
template <class Element, bool kTransposedB, int kN>
__device__ inline void Multiply(float (&sum)[kN / 2], uint64_t a, uint64_t b, bool add) {
  if constexpr (kN == 128) Multiply128<kTransposedB>(sum, a, b, add, Element());
  if constexpr (kN == 192) Multiply192<kTransposedB>(sum, a, b, add, Element());
  if constexpr (kN == 224) Multiply224<kTransposedB>(sum, a, b, add, Element());
  if constexpr (kN == 256) Multiply256<kTransposedB>(sum, a, b, add, Element());
}

}  // namespace tc::ptx
