// What verifies that ranks reach each other's memory: comm/verification.h on a GPU.
#pragma once

#include <cuda_runtime_api.h>

#include "comm/verification.h"

namespace tc::cuda {

// What all of these kernels take.
struct CheckParams {
  CheckArea area;
  uint64_t bytes;  // from each rank to each other
  uint64_t seed;
  uint64_t limit_ns;  // of one wait
  bool fetched;       // what is compared was brought by a copy engine
};

struct CheckKernels {
  const void* offer;
  const void* store;
  const void* bulk_store;
  const void* compare;
  const void* load;
  const void* flags;  // of 2 blocks for each rank
};
CheckKernels TheCheckKernels();

// Enqueues a step. Whose data was wrong lies in area.Wrong() when it is done. `bulk`: this device has bulk stores.
Status EnqueueCheck(const CheckStep& step, const CheckArea& area, bool bulk, cudaStream_t stream);

}  // namespace tc::cuda
