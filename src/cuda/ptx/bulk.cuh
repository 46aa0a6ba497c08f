// Bulk stores from shared to global memory by the async proxy, sm_90 and later; elsewhere they do nothing, and nobody
// calls them.
#pragma once

#include <cstdint>

namespace tc::ptx {

// Makes this thread's stores to shared memory visible to bulk stores that follow a barrier.
__device__ inline void FenceSharedForAsync() {
#if __CUDA_ARCH__ >= 900
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
#endif
}

// `to` and `from` on 16 bytes, `bytes` a multiple of 16.
__device__ inline void BulkStore(void* to, const void* from, uint32_t bytes) {
#if __CUDA_ARCH__ >= 900
  const auto shared = static_cast<uint32_t>(__cvta_generic_to_shared(from));
  asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(to), "r"(shared), "r"(bytes)
               : "memory");
#endif
}

__device__ inline void CommitBulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.commit_group;" ::: "memory");
#endif
}

// Until all committed stores are complete, not only their sources free (P7).
__device__ inline void WaitBulk() {
#if __CUDA_ARCH__ >= 900
  asm volatile("cp.async.bulk.wait_group 0;" ::: "memory");
#endif
}

}  // namespace tc::ptx
