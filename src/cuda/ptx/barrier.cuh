// Barriers among some threads of a block, all of every warp that takes part.
// PTX ISA, "Parallel Synchronization and Communication Instructions: barrier{.cta}".
#pragma once

namespace tc::ptx {

__device__ inline void SyncThreads(int barrier, int threads) {
  asm volatile("barrier.cta.sync.aligned %0, %1;" ::"r"(barrier), "r"(threads) : "memory");
}

// The same; whether all say so.
__device__ inline bool SyncThreadsAnd(int barrier, int threads, bool fine) {
  int all;
  asm volatile(
      "{\n"
      ".reg .pred p, q;\n"
      "setp.ne.s32 p, %3, 0;\n"
      "barrier.cta.red.and.pred.aligned q, %1, %2, p;\n"
      "selp.s32 %0, 1, 0, q;\n"
      "}"
      : "=r"(all)
      : "r"(barrier), "r"(threads), "r"(fine ? 1 : 0)
      : "memory");
  return all != 0;
}

}  // namespace tc::ptx
