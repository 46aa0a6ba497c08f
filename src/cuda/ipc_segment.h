// Device memory of cudaMalloc, which peers in other processes open by cudaIpc: for where CUDA virtual memory is not to
// be had. cudaFree waits until its GPU is idle, so what lets go of such memory, tcMemFree or the end of a communicator,
// may wait for operators that run there.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

#include "base/status.h"
#include "comm/segment.h"

namespace tc::cuda {

Status AllocateIpc(int device, size_t bytes, std::shared_ptr<Segment>* segment);
// `handle`: what `fd` holds.
Status ImportIpc(int device, const SegmentTicket& ticket, const UniqueFd& fd, const cudaIpcMemHandle_t& handle,
                 std::shared_ptr<Segment>* segment);
// Lets `device` reach memory of AllocateIpc in this process.
Status AllowIpc(int device, const Segment& segment);

}  // namespace tc::cuda
