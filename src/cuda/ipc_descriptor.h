// The file descriptor of memory that is shared by cudaIpc: a sealed memfd that holds the handle. A process that has the
// memory open holds a lock on that file, by which the owner sees when it may free.
#pragma once

#include <cuda_runtime_api.h>

#include <optional>

#include "base/status.h"
#include "base/unique_fd.h"

namespace tc::cuda {

Status MakeIpcDescriptor(const cudaIpcMemHandle_t& handle, UniqueFd* fd);

// Nothing when the descriptor is of another kind, that of CUDA virtual memory for example.
std::optional<cudaIpcMemHandle_t> ReadIpcDescriptor(const UniqueFd& fd);

// The owner may not free before `hold` is closed, which the end of this process does, too. An error when it has freed
// already.
Status HoldIpcDescriptor(const UniqueFd& fd, UniqueFd* hold);

// For the owner: whether nobody holds the memory. From then on nobody can.
bool RetireIpcDescriptor(int fd);

}  // namespace tc::cuda
