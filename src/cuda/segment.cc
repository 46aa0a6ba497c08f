#include "cuda/segment.h"

#include <fcntl.h>

#include <mutex>
#include <utility>

#include "base/log.h"
#include "cuda/driver.h"
#include "cuda/ipc_descriptor.h"
#include "cuda/ipc_segment.h"
#include "cuda/service.h"

namespace tc::cuda {
namespace {

CUmemAllocationProp MemoryOf(int device) {
  CUmemAllocationProp prop{};
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  prop.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  return prop;
}

Status Allow(int device, CUdeviceptr base, size_t bytes) {
  CUmemAccessDesc access{};
  access.location = {CU_MEM_LOCATION_TYPE_DEVICE, {device}};
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  // One at a time: ranks that share a device may ask for the same at once, and the second is told that it is so
  // already.
  static std::mutex* one_at_a_time = new std::mutex;
  std::lock_guard lock(*one_at_a_time);
  const CUresult error = TheDriver().MemSetAccess(base, bytes, &access, 1);
  if (error == CUDA_SUCCESS || error == CUDA_ERROR_ALREADY_MAPPED) return {};
  return CannotReach(device, DriverError(error));
}

// Whether this machine lacks such memory, or a container forbids it, rather than that there is too little of it.
bool IsRefusal(CUresult error) { return error == CUDA_ERROR_NOT_SUPPORTED || error == CUDA_ERROR_NOT_PERMITTED; }

bool HasVirtualMemory(int device) {
  return DeviceHas(device, CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED) &&
         DeviceHas(device, CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED);
}

// An address range with memory behind it; undone in reverse.
class Range {
 public:
  Range() = default;
  Range(Range&& other) noexcept : base(std::exchange(other.base, 0)), bytes(other.bytes), mapped(other.mapped) {}
  ~Range() {
    if (base == 0) return;
    if (mapped) TheDriver().MemUnmap(base, bytes);
    TheDriver().MemAddressFree(base, bytes);
  }
  Status Map(CUmemGenericAllocationHandle handle, size_t size) {
    bytes = size;
    TC_RETURN_IF_DRIVER_ERROR(TheDriver().MemAddressReserve(&base, bytes, 0, 0, 0));
    TC_RETURN_IF_DRIVER_ERROR(TheDriver().MemMap(base, bytes, 0, handle, 0));
    mapped = true;
    return {};
  }

  CUdeviceptr base = 0;
  size_t bytes = 0;
  bool mapped = false;
};

class DeviceSegment final : public Segment {
 public:
  DeviceSegment(Range range, int device, size_t bytes, UniqueFd fd)
      : Segment(reinterpret_cast<std::byte*>(range.base), bytes, std::move(fd)),
        range_(std::move(range)),
        device_(device) {}
  ~DeviceSegment() override {
    const DeviceScope scope(device_);
    { const Range undone = std::move(range_); }
  }
  size_t reserved_bytes() const override { return range_.bytes; }

 private:
  Range range_;
  int device_;
};

class PinnedSegment final : public Segment {
 public:
  PinnedSegment(int device, std::shared_ptr<Segment> host)
      : Segment(host->base(), host->bytes(), UniqueFd(::fcntl(host->fd(), F_DUPFD_CLOEXEC, 0))),
        device_(device),
        host_(std::move(host)) {}
  ~PinnedSegment() override {
    const DeviceScope scope(device_);
    (void)cudaHostUnregister(base());
  }
  size_t reserved_bytes() const override { return host_->reserved_bytes(); }

 private:
  int device_;
  std::shared_ptr<Segment> host_;
};

Status RoundedBytes(const CUmemAllocationProp& prop, size_t bytes, size_t* rounded) {
  size_t granularity = 0;
  TC_RETURN_IF_DRIVER_ERROR(
      TheDriver().MemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  *rounded = (bytes + granularity - 1) / granularity * granularity;
  return {};
}

// `refused`: the failure is a refusal.
Status AllocateVirtual(int device, size_t bytes, std::shared_ptr<Segment>* segment, bool* refused) {
  const CUmemAllocationProp prop = MemoryOf(device);
  size_t rounded = 0;
  TC_RETURN_IF_ERROR(RoundedBytes(prop, bytes, &rounded));
  CUmemGenericAllocationHandle handle = 0;
  if (const CUresult error = TheDriver().MemCreate(&handle, rounded, &prop, 0); error != CUDA_SUCCESS) {
    *refused = IsRefusal(error);
    return Error(error == CUDA_ERROR_OUT_OF_MEMORY ? tcSystemError : tcUnhandledCudaError,
                 "no room for %zu bytes of memory on GPU %d (%s)", rounded, device, DriverError(error).c_str());
  }
  Range range;
  int fd = -1;
  Status made = range.Map(handle, rounded);
  if (made.ok()) {
    const CUresult error =
        TheDriver().MemExportToShareableHandle(&fd, handle, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0);
    *refused = IsRefusal(error);
    made = CheckDriver(error, "cuMemExportToShareableHandle");
  }
  UniqueFd exported(fd);
  TheDriver().MemRelease(handle);  // the mapping and the descriptor keep the memory
  TC_RETURN_IF_ERROR(made);
  TC_RETURN_IF_ERROR(Allow(device, range.base, rounded));
  std::shared_ptr<Service> service;
  TC_RETURN_IF_ERROR(Service::Of(device, &service));
  TC_RETURN_IF_ERROR(service->Zero(reinterpret_cast<void*>(range.base), rounded));
  *segment = std::make_shared<DeviceSegment>(std::move(range), device, bytes, std::move(exported));
  return {};
}

}  // namespace

Status CannotReach(int device, const std::string& said) {
  return Error(tcUnsupported,
               "GPU %d cannot reach the memory of a peer (%s): these GPUs have no peer-to-peer access to each other; "
               "set TC_P2P_DISABLE=1 on every rank, and data goes through host memory",
               device, said.c_str());
}

Status AllocateDevice(int device, size_t bytes, bool vmm_disable, std::shared_ptr<Segment>* segment) {
  const DeviceScope scope(device);
  if (!vmm_disable) {
    bool refused = !HasVirtualMemory(device);
    if (!refused) {
      const Status made = AllocateVirtual(device, bytes, segment, &refused);
      if (!refused) return made;
    }
    Log(tcLogInfo, "GPU %d: CUDA virtual memory is not to be had; memory is shared by cudaIpc", device);
  }
  return AllocateIpc(device, bytes, segment);
}

Status AllocateOnCurrentDevice(size_t bytes, bool vmm_disable, std::shared_ptr<Segment>* segment) {
  int device = 0;
  int devices = 0;
  TC_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  TC_RETURN_IF_CUDA_ERROR(cudaGetDeviceCount(&devices));
  TC_RETURN_IF_ERROR(AllocateDevice(device, bytes, vmm_disable, segment));
  for (int peer = 0; peer < devices; ++peer) {
    int reachable = 0;
    if (peer == device || cudaDeviceCanAccessPeer(&reachable, peer, device) != cudaSuccess || reachable == 0) continue;
    TC_RETURN_IF_ERROR(AllowDevice(peer, **segment));
  }
  return {};
}

Status ImportDevice(int device, const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment) {
  if (const auto handle = ReadIpcDescriptor(fd)) return ImportIpc(device, ticket, fd, *handle, segment);
  const DeviceScope scope(device);
  size_t rounded = 0;
  TC_RETURN_IF_ERROR(RoundedBytes(MemoryOf(device), ticket.bytes, &rounded));
  CUmemGenericAllocationHandle handle = 0;
  const CUresult error = TheDriver().MemImportFromShareableHandle(
      &handle, reinterpret_cast<void*>(static_cast<uintptr_t>(fd.get())), CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
  if (IsRefusal(error)) {
    return Error(tcUnsupported,
                 "GPU %d cannot map the CUDA virtual memory of a peer (%s); set TC_VMM_DISABLE=1 on every rank", device,
                 DriverError(error).c_str());
  }
  TC_RETURN_IF_ERROR(CheckDriver(error, "cuMemImportFromShareableHandle"));
  Range range;
  const Status mapped = range.Map(handle, rounded);
  TheDriver().MemRelease(handle);
  TC_RETURN_IF_ERROR(mapped);
  TC_RETURN_IF_ERROR(Allow(device, range.base, rounded));
  *segment = std::make_shared<DeviceSegment>(std::move(range), device, ticket.bytes, UniqueFd());
  return {};
}

Status AllowDevice(int device, const Segment& segment) {
  const auto* mapped = dynamic_cast<const DeviceSegment*>(&segment);
  if (mapped == nullptr) return AllowIpc(device, segment);
  return Allow(device, reinterpret_cast<CUdeviceptr>(segment.base()), mapped->reserved_bytes());
}

Status PinHost(int device, std::shared_ptr<Segment> host, std::shared_ptr<Segment>* segment) {
  const DeviceScope scope(device);
  TC_RETURN_IF_CUDA_ERROR(
      cudaHostRegister(host->base(), host->bytes(), cudaHostRegisterPortable | cudaHostRegisterMapped));
  *segment = std::make_shared<PinnedSegment>(device, std::move(host));
  return {};
}

}  // namespace tc::cuda
