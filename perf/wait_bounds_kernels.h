// One barrier of the protocol, with either kind of waiting.
#ifndef TC_PERF_WAIT_BOUNDS_KERNELS_H_
#define TC_PERF_WAIT_BOUNDS_KERNELS_H_

#include <cuda_runtime_api.h>

#include "cuda/params.h"

namespace tc::perf {

enum class Waiting { kBounded, kBare };

// Loads the kernels on the current device. CUDA would else do so at their first launch, and may wait for the device to
// be idle.
cudaError_t LoadMeetings();

// Enqueues a barrier of the rank `comm`.
cudaError_t EnqueueMeeting(Waiting waiting, const cuda::DeviceComm& comm, cudaStream_t stream);

}  // namespace tc::perf

#endif  // TC_PERF_WAIT_BOUNDS_KERNELS_H_
