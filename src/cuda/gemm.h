// A matrix product on one GPU by the Hopper core, as its measurements and tests launch it: no operator of tc.h is a
// product alone.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>

#include "base/status.h"
#include "order/gemm_tiles.h"
#include "tc.h"

namespace tc::cuda {

// c [m, n] = activation(alpha * a [m, k] x b + bias + residual), accumulated in fp32. b is [n, k] or [k, n].
struct GemmProblem {
  tcDataType_t type = tcBfloat16;  // or tcFloat16; of all matrices
  tcBLayout_t layout = tcBLayoutNK;
  uint64_t m = 0;
  uint64_t n = 0;
  uint64_t k = 0;
  const void* a = nullptr;
  uint64_t lda = 0;  // elements from one row to the next
  const void* b = nullptr;
  uint64_t ldb = 0;
  void* c = nullptr;
  uint64_t ldc = 0;
  float alpha = 1;
  const void* bias = nullptr;      // [n]; NULL: none
  const void* residual = nullptr;  // laid out as c; NULL: none
  tcActivation_t activation = tcActivationNone;
};

// Whether the Hopper core takes it: a and b start on 16 bytes, and so does every row of theirs; dimensions are above 0
// and below 2^31.
bool HopperGemmTakes(const GemmProblem& problem);

// The current device's multiprocessors that the core would use: 0 where it does not run.
uint32_t HopperMultiprocessors();

// Bytes of device memory, on 256 bytes, that a launch works in: of them the first HopperGemmZeroBytes must be zeros
// before the first launch, and are left so.
uint64_t HopperGemmWorkspaceBytes(const GemmTiling& tiling);
uint64_t HopperGemmZeroBytes(const GemmTiling& tiling);

// Enqueues the product. `tiling`: ChooseGemmTiling's, or any other of the same problem. `workspace`: used by one launch
// at a time.
Status LaunchHopperGemm(const GemmProblem& problem, const GemmTiling& tiling, void* workspace, cudaStream_t stream);

}  // namespace tc::cuda
