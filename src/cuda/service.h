// What the library itself does on a GPU beside operators: copies and zeroing, on one stream that all of a GPU's
// communicators share. Hardware queues are few (CUDA_DEVICE_MAX_CONNECTIONS), and a kernel that waits in one for its
// predecessor holds up every stream in it; so nothing on this stream ever waits for a peer, and there is only one.
#pragma once

#include <cuda_runtime_api.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>

#include "base/status.h"

namespace tc::cuda {

class Service {
 public:
  // The one of `device`; it lasts as long as somebody holds it.
  static Status Of(int device, std::shared_ptr<Service>* service);
  ~Service();
  Service(const Service&) = delete;
  Service& operator=(const Service&) = delete;

  // Both return when it is done, whatever else runs on the GPU.
  Status Copy(void* to, const void* from, size_t bytes);
  Status Zero(void* base, size_t bytes);

  // For ranks that share the GPU: kernels that threads launch at the same moment, into whichever streams, may come to
  // stand behind each other. Not for long: a launch into a full queue waits, perhaps for kernels that others still have
  // to launch.
  std::unique_lock<std::timed_mutex> LockLaunches() { return {launching_, std::chrono::milliseconds(10)}; }

 private:
  explicit Service(int device) : device_(device) {}
  Status Finish(cudaError_t enqueued, const char* what);

  const int device_;
  std::timed_mutex launching_;
  std::mutex mutex_;  // over the stream
  cudaStream_t stream_ = nullptr;
};

}  // namespace tc::cuda
