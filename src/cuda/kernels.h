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

// What does an exchange on a plane, or a part of it; of the exchange only what it reduces matters. Takes
// ExchangeParams.
const void* ExchangeKernel(const Exchange& exchange, tcPlane_t plane);

// Takes DeviceComm. One block of kMeetingThreads threads.
const void* BarrierKernel();

// Takes RefusalParams: an operator that does nothing but say why. One block of kMeetingThreads threads.
const void* RefusalKernel();

}  // namespace tc::cuda
