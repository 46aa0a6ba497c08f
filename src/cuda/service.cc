#include "cuda/service.h"

#include <map>

#include "cuda/driver.h"

namespace tc::cuda {

Status Service::Of(int device, std::shared_ptr<Service>* service) {
  static auto* mutex = new std::mutex;  // never destroyed: segments may be freed late
  static auto* all = new std::map<int, std::weak_ptr<Service>>;
  std::lock_guard lock(*mutex);
  *service = (*all)[device].lock();
  if (*service != nullptr) return {};
  const DeviceScope scope(device);
  std::shared_ptr<Service> made(new Service(device));
  TC_RETURN_IF_CUDA_ERROR(cudaStreamCreateWithFlags(&made->stream_, cudaStreamNonBlocking));
  (*all)[device] = made;
  *service = std::move(made);
  return {};
}

Service::~Service() {
  const DeviceScope scope(device_);
  if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
}

Status Service::Copy(void* to, const void* from, size_t bytes) {
  const DeviceScope scope(device_);
  std::lock_guard lock(mutex_);
  return Finish(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDefault, stream_), "cudaMemcpyAsync");
}

Status Service::Zero(void* base, size_t bytes) {
  const DeviceScope scope(device_);
  std::lock_guard lock(mutex_);
  return Finish(cudaMemsetAsync(base, 0, bytes, stream_), "cudaMemsetAsync");
}

Status Service::Finish(cudaError_t enqueued, const char* what) {
  TC_RETURN_IF_ERROR(CheckRuntime(enqueued, what));
  return CheckRuntime(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
}

}  // namespace tc::cuda
