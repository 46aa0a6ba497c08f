// Random matrices on the GPU, and the check of a product's elements against sums in fp64.
#ifndef TC_PERF_GEMM_KERNELS_H_
#define TC_PERF_GEMM_KERNELS_H_

#include <cuda_runtime_api.h>

#include <cstdint>

#include "cuda/gemm.h"

namespace tc::perf {

// Enqueues: uniform values in [-1, 1] of the type tcFloat16 or tcBfloat16; the same for the same seed.
cudaError_t FillRandom(void* elements, uint64_t count, tcDataType_t type, uint64_t seed, cudaStream_t stream);

// Enqueues: looks at elements of c, all of them where there are at most `samples`, else as many, spread over it, and
// adds those that are wrong, by more than rounding and the order of fp32 sums explain, to *wrong, in device memory.
cudaError_t CountWrong(const cuda::GemmProblem& problem, uint64_t samples, uint64_t seed, unsigned long long* wrong,
                       cudaStream_t stream);

}  // namespace tc::perf

#endif  // TC_PERF_GEMM_KERNELS_H_
