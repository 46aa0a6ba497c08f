// RollCall on a GPU: `words` is its memory as the device sees it. Everything is enqueued on `stream`.
#ifndef TC_PERF_BARRIER_KERNELS_H_
#define TC_PERF_BARRIER_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

namespace tc::perf {

cudaError_t Announce(uint64_t* words, int rank, cudaStream_t stream);
// Adds to *count, in device memory.
cudaError_t CountAbsent(const uint64_t* words, int rank, int n_ranks, unsigned long long* count, cudaStream_t stream);

}  // namespace tc::perf

#endif  // TC_PERF_BARRIER_KERNELS_H_
