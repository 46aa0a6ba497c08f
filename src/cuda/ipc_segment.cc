#include "cuda/ipc_segment.h"

#include <fcntl.h>

#include <algorithm>
#include <chrono>
#include <iterator>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "cuda/driver.h"
#include "cuda/ipc_descriptor.h"
#include "cuda/segment.h"
#include "cuda/service.h"

namespace tc::cuda {
namespace {

// cudaMalloc puts smaller allocations together into blocks of this size, and cudaIpc shares whole blocks: every segment
// has blocks of its own.
constexpr size_t kBlockBytes = size_t{2} << 20;

void Free(int device, void* base) {
  const DeviceScope scope(device);
  (void)cudaFree(base);  // waits until the GPU is idle
}

// Memory whose owner is done with it while peers still have it open: CUDA forbids to free it, and a peer could not open
// what is then allocated at its address. It is freed later, once they have let go or died.
class Leftovers {
 public:
  static Leftovers& Instance() {
    static Leftovers* leftovers = new Leftovers;  // never destroyed: segments may outlive static destructors
    return *leftovers;
  }

  void Add(int device, void* base, UniqueFd fd) {
    std::lock_guard lock(mutex_);
    memory_.push_back({device, base, std::move(fd)});
  }

  void FreeUnheld() {
    std::vector<Memory> unheld;  // freed after the lock is gone
    {
      std::lock_guard lock(mutex_);
      const auto split = std::partition(memory_.begin(), memory_.end(),
                                        [](const Memory& memory) { return !RetireIpcDescriptor(memory.fd.get()); });
      std::move(split, memory_.end(), std::back_inserter(unheld));
      memory_.erase(split, memory_.end());
    }
    for (const Memory& memory : unheld) Free(memory.device, memory.base);
  }

 private:
  struct Memory {
    int device;
    void* base;
    UniqueFd fd;
  };
  std::mutex mutex_;
  std::vector<Memory> memory_;
};

class IpcSegment final : public Segment {
 public:
  IpcSegment(int device, void* base, size_t bytes, size_t reserved, UniqueFd fd)
      : Segment(static_cast<std::byte*>(base), bytes, std::move(fd)), device_(device), reserved_(reserved) {}
  ~IpcSegment() override {
    // Peers mostly let go at the same time: a moment's patience saves keeping the memory for later.
    bool unheld = RetireIpcDescriptor(fd());
    for (int tries = 0; tries < 20 && !unheld; ++tries) {
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
      unheld = RetireIpcDescriptor(fd());
    }
    if (unheld) {
      Free(device_, base());
    } else {
      Leftovers::Instance().Add(device_, base(), UniqueFd(::fcntl(fd(), F_DUPFD_CLOEXEC, 0)));
    }
    Leftovers::Instance().FreeUnheld();
  }
  int device() const { return device_; }
  size_t reserved_bytes() const override { return reserved_; }

 private:
  int device_;
  size_t reserved_;
};

// What a GPU has open of other processes' memory. A handle is opened once, however many ranks and windows use it: not
// every driver opens it twice.
class OpenHandles {
 public:
  // For each GPU apart: to close a handle may wait for what runs there.
  static OpenHandles& Of(int device) {
    static auto* mutex = new std::mutex;
    static auto* all = new std::map<int, OpenHandles>;
    std::lock_guard lock(*mutex);
    return (*all)[device];
  }

  // With the GPU current, like Close.
  cudaError_t Open(const cudaIpcMemHandle_t& handle, void** base) {
    std::lock_guard lock(mutex_);
    const auto [opening, fresh] = openings_.try_emplace(Name(handle));
    if (fresh) {
      const cudaError_t error = cudaIpcOpenMemHandle(&opening->second.base, handle, cudaIpcMemLazyEnablePeerAccess);
      if (error != cudaSuccess) {
        openings_.erase(opening);
        return error;
      }
    }
    ++opening->second.users;
    *base = opening->second.base;
    return cudaSuccess;
  }

  void Close(const cudaIpcMemHandle_t& handle) {
    std::lock_guard lock(mutex_);
    const auto opening = openings_.find(Name(handle));
    if (--opening->second.users > 0) return;
    (void)cudaIpcCloseMemHandle(opening->second.base);
    openings_.erase(opening);
  }

 private:
  struct Opening {
    void* base = nullptr;
    int users = 0;
  };
  static std::string Name(const cudaIpcMemHandle_t& handle) {
    return std::string(handle.reserved, sizeof(handle.reserved));
  }
  std::mutex mutex_;
  std::map<std::string, Opening> openings_;
};

class OpenedSegment final : public Segment {
 public:
  OpenedSegment(int device, void* base, size_t bytes, const cudaIpcMemHandle_t& handle, UniqueFd hold)
      : Segment(static_cast<std::byte*>(base), bytes, UniqueFd()),
        device_(device),
        handle_(handle),
        hold_(std::move(hold)) {}
  ~OpenedSegment() override {
    const DeviceScope scope(device_);
    OpenHandles::Of(device_).Close(handle_);
  }

 private:
  int device_;
  cudaIpcMemHandle_t handle_;
  UniqueFd hold_;  // let go of after the handle
};

Status ExportIpc(int device, void* base, UniqueFd* fd) {
  cudaIpcMemHandle_t handle;
  if (const cudaError_t error = cudaIpcGetMemHandle(&handle, base); error != cudaSuccess) {
    (void)cudaGetLastError();
    return Error(tcUnsupported,
                 "memory of GPU %d can be shared neither as CUDA virtual memory, which this machine lacks or "
                 "TC_VMM_DISABLE forbids, nor by cudaIpc (%s)",
                 device, cudaGetErrorString(error));
  }
  return MakeIpcDescriptor(handle, fd);
}

}  // namespace

Status AllocateIpc(int device, size_t bytes, std::shared_ptr<Segment>* segment) {
  Leftovers::Instance().FreeUnheld();
  const DeviceScope scope(device);
  // A number that wraps when it is rounded up is asked for as it is, and refused.
  const size_t rounded = std::max(bytes, (bytes + kBlockBytes - 1) / kBlockBytes * kBlockBytes);
  void* base = nullptr;
  if (const cudaError_t error = cudaMalloc(&base, rounded); error != cudaSuccess) {
    (void)cudaGetLastError();
    return Error(error == cudaErrorMemoryAllocation ? tcSystemError : tcUnhandledCudaError,
                 "no room for %zu bytes of memory on GPU %d (%s)", rounded, device, cudaGetErrorString(error));
  }
  UniqueFd fd;
  std::shared_ptr<Service> service;
  Status made = Service::Of(device, &service);
  if (made.ok()) made = service->Zero(base, rounded);
  if (made.ok()) made = ExportIpc(device, base, &fd);
  if (!made.ok()) {
    Free(device, base);
    return made;
  }
  *segment = std::make_shared<IpcSegment>(device, base, bytes, rounded, std::move(fd));
  return {};
}

Status ImportIpc(int device, const SegmentTicket& ticket, const UniqueFd& fd, const cudaIpcMemHandle_t& handle,
                 std::shared_ptr<Segment>* segment) {
  UniqueFd hold;
  TC_RETURN_IF_ERROR(HoldIpcDescriptor(fd, &hold));
  const DeviceScope scope(device);
  void* base = nullptr;
  if (const cudaError_t error = OpenHandles::Of(device).Open(handle, &base); error != cudaSuccess) {
    (void)cudaGetLastError();
    if (error == cudaErrorPeerAccessUnsupported) return CannotReach(device, cudaGetErrorString(error));
    return Error(tcUnhandledCudaError,
                 "GPU %d cannot open a peer's memory by cudaIpc (%s); ranks in containers need one IPC and one PID "
                 "namespace for it (--ipc=host --pid=host)",
                 device, cudaGetErrorString(error));
  }
  *segment = std::make_shared<OpenedSegment>(device, base, ticket.bytes, handle, std::move(hold));
  return {};
}

Status AllowIpc(int device, const Segment& segment) {
  const auto* mine = dynamic_cast<const IpcSegment*>(&segment);
  if (mine == nullptr) return Error(tcInternalError, "memory that is no device memory was shared as such");
  if (mine->device() == device) return {};
  const DeviceScope scope(device);
  cudaError_t error = cudaSetDevice(device);  // the scope does not tell
  if (error == cudaSuccess) error = cudaDeviceEnablePeerAccess(mine->device(), 0);
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();
  if (error == cudaErrorPeerAccessAlreadyEnabled) return {};
  if (error == cudaErrorPeerAccessUnsupported || error == cudaErrorInvalidDevice) {
    return CannotReach(device, cudaGetErrorString(error));
  }
  return Error(tcUnhandledCudaError,
               "peer access from GPU %d to GPU %d cannot be enabled (%s); let each process see only the GPUs that it "
               "uses (CUDA_VISIBLE_DEVICES)",
               device, mine->device(), cudaGetErrorString(error));
}

}  // namespace tc::cuda
