// The kernels, for the host side that launches them.
#pragma once

#include "cuda/params.h"
#include "tc.h"

namespace tc::cuda {

struct GemmKernel {
  const void* function;
  int shared_bytes;
  int tile_rows;
  int tile_cols;
};

// Takes GatherGemmParams. Blocks of kThreads threads.
GemmKernel AllGatherGemmKernel(tcDataType_t type, tcBLayout_t layout);

// Takes GatherParams.
const void* AllGatherKernel();

// Takes MeetParams: an operator that only meets, a barrier or a refusal. One block of one warp.
const void* MeetKernel();

}  // namespace tc::cuda
