// Barriers in shared memory that count arrivals and bytes, across a cluster. PTX ISA, "mbarrier" and
// "barrier.cluster". sm_90. Arrivals release and waits acquire at the scope of the block, also where the barrier is
// another block's: what they order are accesses of the copy engine and of wgmma. Asked for at the cluster's scope they
// become a MEMBAR.ALL.GPU and a CCTL.IVALL, in every step of a main loop.
#pragma once

#include <cstdint>

namespace tc::ptx {

__device__ inline void InitBarrier(uint32_t barrier, uint32_t arrivals) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(barrier), "r"(arrivals) : "memory");
}

// Makes initialized barriers visible to the whole cluster and to the copy engine; a cluster barrier must follow.
__device__ inline void FenceBarrierInit() { asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory"); }

// One arrival, and `bytes` more to wait for in this phase.
__device__ inline void ArriveExpecting(uint32_t barrier, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(barrier), "r"(bytes) : "memory");
}

// An arrival at the barrier that lies at the same place in block `block` of the cluster.
__device__ inline void ArriveAt(uint32_t barrier, uint32_t block) {
  asm volatile(
      "{\n"
      ".reg .b32 there;\n"
      "mapa.shared::cluster.u32 there, %0, %1;\n"
      "mbarrier.arrive.shared::cluster.b64 _, [there];\n"
      "}\n" ::"r"(barrier),
      "r"(block)
      : "memory");
}

// Whether the phase of this parity has ended; the thread may sleep a while before it says no.
__device__ inline bool TryWait(uint32_t barrier, uint32_t parity) {
  uint32_t done;
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%1], %2;\n"
      "selp.u32 %0, 1, 0, done;\n"
      "}\n"
      : "=r"(done)
      : "r"(barrier), "r"(parity)
      : "memory");
  return done != 0;
}

// Orders what was written through generic loads and stores, also by others whom this thread has acquired from, before
// copies that the copy engine makes for this thread.
__device__ inline void FenceProxyAsync() { asm volatile("fence.proxy.async;" ::: "memory"); }

__device__ inline uint32_t BlockInCluster() {
  uint32_t rank;
  asm volatile("mov.u32 %0, %%cluster_ctarank;" : "=r"(rank));
  return rank;
}

__device__ inline void SyncCluster() {
  asm volatile(
      "barrier.cluster.arrive.release.aligned;\n"
      "barrier.cluster.wait.acquire.aligned;" ::
          : "memory");
}

}  // namespace tc::ptx
