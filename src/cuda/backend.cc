#include "cuda/backend.h"

#include <algorithm>
#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <thread>
#include <utility>

#include "base/data_type.h"
#include "cuda/driver.h"
#include "cuda/kernels.h"
#include "cuda/segment.h"
#include "cuda/verify.h"
#include "host/segment.h"
#include "order/shape.h"
#include "platform/sysfs.h"
#include "protocol/abort.h"
#include "protocol/cpu_memory.h"

namespace tc::cuda {
namespace {

// A driver that queues the streams of a process in fewer channels than ranks share the device may put one rank's kernel
// behind another rank's, which waits for it.
int MaxConnections() {
  const char* text = std::getenv("CUDA_DEVICE_MAX_CONNECTIONS");
  const int connections = text != nullptr ? std::atoi(text) : 0;
  return connections > 0 ? connections : 8;
}

// Ranks of this process's communicators on a device.
std::atomic<int>& BackendsOn(int device) {
  constexpr int kMostDevices = 64;
  static std::atomic<int> counts[kMostDevices];
  return counts[device % kMostDevices];
}

Status LoadKernel(const void* kernel, int shared_bytes) {
  cudaFuncAttributes attributes;
  TC_RETURN_IF_CUDA_ERROR(cudaFuncGetAttributes(&attributes, kernel));
  if (shared_bytes <= 48 * 1024) return {};
  return CheckRuntime(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, shared_bytes),
                      "cudaFuncSetAttribute");
}

Status LoadKernels() {
  for (const tcDataType_t type : {tcFloat32, tcFloat16, tcBfloat16}) {
    for (const tcBLayout_t layout : {tcBLayoutNK, tcBLayoutKN}) {
      const GemmKernel kernel = AllGatherGemmKernel(type, layout);
      TC_RETURN_IF_ERROR(LoadKernel(kernel.function, kernel.shared_bytes));
    }
  }
  for (const tcPlane_t plane : {tcPlanePush, tcPlanePull}) {
    TC_RETURN_IF_ERROR(LoadKernel(ExchangeKernel(Exchange{}, plane), 0));
    for (tcDataType_t type = tcInt8; type <= tcBfloat16; ++type) {
      TC_RETURN_IF_ERROR(LoadKernel(ExchangeKernel(Exchange{.reduces = true, .type = type}, plane), 0));
    }
  }
  TC_RETURN_IF_ERROR(LoadKernel(BarrierKernel(), 0));
  const CheckKernels checks = TheCheckKernels();
  for (const void* kernel :
       {checks.offer, checks.store, checks.bulk_store, checks.compare, checks.load, checks.flags}) {
    TC_RETURN_IF_ERROR(LoadKernel(kernel, 0));
  }
  return LoadKernel(RefusalKernel(), 0);
}

// Whether kernels, as they were built or translated for this device, may use what sm_90 has.
bool IsForHopper(const void* kernel) {
  cudaFuncAttributes attributes;
  return cudaFuncGetAttributes(&attributes, kernel) == cudaSuccess && attributes.ptxVersion >= 90;
}

// Whether the driver takes programmatic launches also in graphs, and a kernel waits for the one before it.
bool StartsEarly(const void* kernel) {
  int driver = 0;
  return cudaDriverGetVersion(&driver) == cudaSuccess && driver >= 12030 && IsForHopper(kernel);
}

// The text of a file of the kernel's; "" where there is none.
std::string TextOf(const char* path) {
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  return line;
}

std::string UuidOf(const cudaDeviceProp& prop) {
  std::string text = "GPU-";
  for (int i = 0; i < 16; ++i) {
    text += Format("%02x", static_cast<unsigned char>(prop.uuid.bytes[i]));
    if (i == 3 || i == 5 || i == 7 || i == 9) text += "-";
  }
  return text;
}

// Of the devices that this process sees, in order.
std::vector<std::string> VisibleUuids() {
  std::vector<std::string> uuids(DeviceCount());
  cudaDeviceProp prop;
  for (size_t device = 0; device < uuids.size(); ++device) {
    if (cudaGetDeviceProperties(&prop, static_cast<int>(device)) == cudaSuccess) uuids[device] = UuidOf(prop);
  }
  return uuids;
}

// The NUMA node that a device is attached to; -1 where the system does not say. Asked once: it may take milliseconds.
int NodeOf(int device) {
  static auto* mutex = new std::mutex;
  static auto* nodes = new std::map<int, int>;
  std::lock_guard lock(*mutex);
  const auto [known, fresh] = nodes->try_emplace(device, -1);
  if (!fresh) return known->second;
  char text[32];
  if (cudaDeviceGetPCIBusId(text, sizeof(text), device) != cudaSuccess) return -1;
  platform::Topology machine;
  if (!platform::ReadSysfs("", &machine).ok()) return -1;
  const auto address = platform::ParsePciAddress(text);
  for (const platform::Gpu& gpu : machine.gpus) {
    if (address == gpu.address) known->second = gpu.numa;
  }
  return known->second;
}

Status DescribeStall(const Communicator& comm, uint32_t code, const Stall& stall) {
  const std::string title = comm.Title(stall.shape.op, stall.epoch);
  if (code == static_cast<uint32_t>(tcInvalidUsage)) {
    return Error(tcInvalidUsage,
                 "%s ran at the same time as another operator of this communicator; order them: one stream, or edges "
                 "between them in the graph, or graphs one after the other",
                 title.c_str());
  }
  if (code != static_cast<uint32_t>(tcTimeout)) {
    const Status reason = comm.AbortReason(stall.peer);
    return Error(reason.code(), "%s: %s", title.c_str(), reason.sentence().c_str());
  }
  const auto seconds = [](std::chrono::nanoseconds limit) { return std::chrono::duration<double>(limit).count(); };
  const auto seen = static_cast<unsigned long long>(stall.seen);
  const auto wanted = static_cast<unsigned long long>(stall.epoch);
  if (stall.acknowledgement) {
    return Error(tcTimeout,
                 "%s waited %g s for rank %d to have read this rank's data (acknowledgement seen %llu, "
                 "wanted %llu)",
                 title.c_str(), seconds(comm.settings().timeout), stall.peer, seen, wanted);
  }
  if (stall.first_unit < 0) {
    const auto limit = stall.first_epoch ? comm.settings().entry_timeout : comm.settings().timeout;
    return Error(tcTimeout, "%s waited %g s for rank %d to %s (entry seen %llu, wanted %llu)", title.c_str(),
                 seconds(limit), stall.peer, EntryVerb(stall.first_epoch), seen, wanted);
  }
  return Error(tcTimeout, "%s waited %g s for rank %d's %s %lld-%lld (watermark seen %llu, wanted %llu)", title.c_str(),
               seconds(comm.settings().timeout), stall.peer, stall.shape.op >= tcOpAllGatherGemm ? "rows" : "bytes",
               static_cast<long long>(stall.first_unit), static_cast<long long>(stall.last_unit), seen, wanted);
}

Status DescribeRefusal(const Refusal& refusal) {
  if (refusal.to >= 0 && refusal.code == tcUnsupported) {
    return Error(tcUnsupported,
                 "tcAllToAllV moves %llu bytes from rank %d to rank %d, but at most %llu go from one rank to another "
                 "with this workspace; set workspaceBytes or TC_WORKSPACE_BYTES higher",
                 static_cast<unsigned long long>(refusal.sent), refusal.peer, refusal.to,
                 static_cast<unsigned long long>(refusal.first.k));
  }
  if (refusal.to >= 0) {
    const size_t element = ElementBytes(refusal.first.type);
    return PairMismatch(refusal.peer, refusal.to, refusal.sent / element, refusal.expected / element);
  }
  if (refusal.sentence[0] != '\0') {
    return RefusalError(refusal.other, refusal.peer, refusal.code, refusal.sentence);
  }
  return ShapeMismatch(refusal.first, refusal.peer, refusal.other, refusal.epoch);
}

}  // namespace

bool IsAvailable(Status* why) { return FindDriver(why) != nullptr; }

int DeviceCount() {
  int devices = 0;
  (void)cudaGetDeviceCount(&devices);
  return std::max(devices, 1);
}

Status CudaBackend::Create(int device, bool vmm_disable, std::unique_ptr<Backend>* backend) {
  Status why;
  if (!IsAvailable(&why)) return why;
  if (device < 0) TC_RETURN_IF_CUDA_ERROR(cudaGetDevice(&device));
  if (device >= DeviceCount()) {
    return Error(tcInvalidArgument, "device is %d; this process sees %d GPUs", device, DeviceCount());
  }
  std::unique_ptr<CudaBackend> made(new CudaBackend(device, vmm_disable));
  TC_RETURN_IF_ERROR(made->Prepare());
  *backend = std::move(made);
  return {};
}

Status CudaBackend::Prepare() {
  const DeviceScope scope(device_);
  cudaDeviceProp prop;
  TC_RETURN_IF_CUDA_ERROR(cudaGetDeviceProperties(&prop, device_));
  uuid_ = UuidOf(prop);
  arch_ = Format("sm_%d%d", prop.major, prop.minor);
  multiprocessors_ = prop.multiProcessorCount;
  node_ = NodeOf(device_);
  if (!DeviceHas(device_, CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS)) {
    return Error(tcUnsupported, "GPU %d cannot wait for a 64-bit word in a stream; the CUDA driver is too old",
                 device_);
  }
  TC_RETURN_IF_ERROR(Service::Of(device_, &service_));
  TC_RETURN_IF_ERROR(Allocate(Memory::kHost, sizeof(Report), false, &report_memory_));
  report_ = new (report_memory_->base()) Report{};
  TC_RETURN_IF_ERROR(LoadKernels());
  starts_early_ = StartsEarly(BarrierKernel());
  stores_bulk_ = IsForHopper(TheCheckKernels().bulk_store);
  ++BackendsOn(device_);
  prepared_ = true;
  return {};
}

CudaBackend::~CudaBackend() {
  if (prepared_) --BackendsOn(device_);
  const DeviceScope scope(device_);
  if (own_stream_ != nullptr) (void)cudaStreamDestroy(own_stream_);
}

Status CudaBackend::FindUnreachable(const std::vector<Neighbour>& ranks, std::string* apart) const {
  const std::vector<std::string> visible = VisibleUuids();
  for (const Neighbour& rank : ranks) {
    const auto peer = static_cast<int>(std::find(visible.begin(), visible.end(), rank.device) - visible.begin());
    if (rank.device == uuid_ || peer == static_cast<int>(visible.size())) continue;  // not seen here: mapping will tell
    int reachable = 0;
    TC_RETURN_IF_CUDA_ERROR(cudaDeviceCanAccessPeer(&reachable, device_, peer));
    if (reachable != 0) continue;
    *apart = Format("GPU %d has no peer-to-peer access to GPU %d (%s)", device_, peer, rank.device.c_str());
    return {};
  }
  return {};
}

Status CudaBackend::Meet(const std::vector<Neighbour>& ranks, std::string* apart) {
  ranks_on_device_ = static_cast<int>(
      std::count_if(ranks.begin(), ranks.end(), [&](const Neighbour& rank) { return rank.device == uuid_; }));
  if (static_cast<size_t>(ranks_on_device_) < ranks.size()) TC_RETURN_IF_ERROR(FindUnreachable(ranks, apart));
  if (ranks_on_device_ > MaxConnections()) {
    return Error(
        tcInvalidUsage,
        "%d ranks share GPU %d, but CUDA_DEVICE_MAX_CONNECTIONS allows %d streams to run at once; set it to 32",
        ranks_on_device_, device_, MaxConnections());
  }
  return {};
}

std::string CudaBackend::CheckKey() const {
  const DeviceScope scope(device_);
  int driver = 0;
  char address[32] = "";
  (void)cudaDriverGetVersion(&driver);
  (void)cudaDeviceGetPCIBusId(address, sizeof(address), device_);
  for (char* c = address; *c != '\0'; ++c) *c = static_cast<char>(std::tolower(static_cast<unsigned char>(*c)));
  const std::string device = std::string("/sys/bus/pci/devices/") + address;
  return uuid_ + "; CUDA driver " + std::to_string(driver) + ", " + TextOf("/proc/driver/nvidia/version") +
         "; link width " + TextOf((device + "/current_link_width").c_str()) + "; " + TextOf("/proc/cmdline");
}

Status CudaBackend::RunCheck(const CheckStep& step, const CheckArea& area, RankSet* wrong) {
  tcStream_t stream = nullptr;
  TC_RETURN_IF_ERROR(OwnStream(&stream));
  const DeviceScope scope(device_);
  {
    std::unique_lock<std::timed_mutex> alone;
    if (ranks_on_device_ > 1) alone = service_->LockLaunches();
    TC_RETURN_IF_ERROR(EnqueueCheck(step, area, stores_bulk_, stream));
  }
  TC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  uint32_t found = 0;
  TC_RETURN_IF_ERROR(service_->Copy(&found, area.Wrong(), sizeof(found)));
  *wrong = static_cast<RankSet>(*wrong | found);
  return service_->Zero(reinterpret_cast<std::byte*>(area.Wrong()), sizeof(found));
}

Status CudaBackend::Allocate(Memory memory, size_t bytes, bool shared, std::shared_ptr<Segment>* segment) {
  if (memory == Memory::kDevice) return AllocateDevice(device_, bytes, vmm_disable_, segment);
  std::shared_ptr<Segment> host;
  TC_RETURN_IF_ERROR(shared ? host::AllocateShared(bytes, &host) : host::AllocatePrivate(bytes, &host));
  host::PreferNode(*host, node_);
  return PinHost(device_, std::move(host), segment);
}

Status CudaBackend::Import(Memory memory, const SegmentTicket& ticket, const UniqueFd& fd,
                           std::shared_ptr<Segment>* segment) {
  if (memory == Memory::kDevice) return ImportDevice(device_, ticket, fd, segment);
  std::shared_ptr<Segment> host;
  TC_RETURN_IF_ERROR(host::MapShared(ticket, fd, &host));
  return PinHost(device_, std::move(host), segment);
}

Status CudaBackend::Adopt(Memory memory, const Segment& segment) {
  return memory == Memory::kDevice ? AllowDevice(device_, segment) : Status();
}

Status CudaBackend::PlaceWindow(int64_t index, const std::vector<std::byte*>& bases) {
  if (index >= kMaxWindows) {
    return Error(tcInvalidUsage, "a communicator has at most %d windows at a time; deregister some", kMaxWindows);
  }
  WindowBases entry{};
  std::copy(bases.begin(), bases.end(), entry.base);
  return service_->Copy(windows_ + index, &entry, sizeof(entry));
}

Status CudaBackend::CreateStream(tcStream_t* stream) {
  const DeviceScope scope(device_);
  return CheckRuntime(cudaStreamCreateWithFlags(stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
}

Status CudaBackend::DestroyStream(tcStream_t stream) {
  if (stream == nullptr) return Error(tcInvalidArgument, "the stream is NULL");
  const DeviceScope scope(device_);
  TC_RETURN_IF_CUDA_ERROR(cudaStreamSynchronize(stream));
  return CheckRuntime(cudaStreamDestroy(stream), "cudaStreamDestroy");
}

Status CudaBackend::SynchronizeStream(tcStream_t stream) {
  const DeviceScope scope(device_);
  return CheckRuntime(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
}

Status CudaBackend::MemcpyAsync(void* dst, const void* src, size_t bytes, tcStream_t stream) {
  const DeviceScope scope(device_);
  return CheckRuntime(cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDefault, stream), "cudaMemcpyAsync");
}

Status CudaBackend::OwnStream(tcStream_t* stream) {
  std::lock_guard lock(mutex_);
  if (own_stream_ == nullptr) TC_RETURN_IF_ERROR(CreateStream(&own_stream_));
  *stream = own_stream_;
  return {};
}

void CudaBackend::Stop() {
  std::lock_guard lock(mutex_);
  if (local_ != nullptr) (void)service_->Copy(&local_->dead, &report_->dead, sizeof(report_->dead));
}

void CudaBackend::Drain() {
  uint64_t launched = 0;
  {
    std::lock_guard lock(mutex_);
    launched = launched_;
  }
  // By looking, not by a wait in a stream: hardware queues are few, and behind such a wait others' kernels would stand.
  for (uint64_t ended = 0; ended < launched;) {
    if (!service_->Copy(&ended, &local_->launched, sizeof(ended)).ok()) return;  // the device is lost
    if (ended < launched) std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
}

void CudaBackend::CollectLongWait(Communicator& comm, int peer) {
  const LongWait& wait = report_->long_wait[peer];
  PeerWait& seen = long_waits_[peer];
  const bool had_left = std::exchange(seen.left, HasLeft<CpuMemory>(comm.view(), peer));
  const uint32_t told = CpuMemory::LoadAcquireSys(&wait.told);
  if (told == std::exchange(seen.told, told)) return;
  if (wait.epoch != std::exchange(seen.epoch, wait.epoch)) seen.warnings = 0;
  const uint64_t warnings = wait.waited_ns / static_cast<uint64_t>(comm.settings().entry_warning.count());
  if (warnings > std::exchange(seen.warnings, warnings)) {
    comm.WarnOfWait(wait.op, wait.epoch, peer, std::chrono::nanoseconds(wait.waited_ns));
  }
  // It had left when the last look was taken, and what it did before has come since: it will not enter.
  if (had_left) comm.End(comm.PeerHasLeft(wait.op, wait.epoch, peer));
}

void CudaBackend::CollectRefusals(Communicator& comm) {
  Refusals& refusals = report_->refusals;
  const uint32_t reported = CpuMemory::LoadAcquireSys(&refusals.reported);
  for (uint32_t number = refusals.collected; number != reported; ++number) {
    const Refusal& refusal = refusals.refusal[number % Refusals::kMost];
    comm.FailOperator(DescribeRefusal(refusal),
                      refusal.in_graph ? std::optional<tcStream_t>() : std::optional(refusal.stream));
    CpuMemory::StoreReleaseSys(&refusals.collected, number + 1);
  }
  const uint32_t lost = CpuMemory::LoadAcquireSys(&refusals.lost);
  const uint32_t newly = lost - std::exchange(refusals_lost_, lost);
  if (newly == 0) return;
  comm.FailOperator(Error(tcInvalidUsage,
                          "%u more operators were refused, faster than this rank asked why; the reasons of %u others "
                          "are kept",
                          newly, Refusals::kMost),
                    std::nullopt);
}

void CudaBackend::Collect(Communicator& comm) {
  std::lock_guard lock(collecting_);
  for (int peer = 0; peer < comm.n_ranks(); ++peer) CollectLongWait(comm, peer);
  CollectRefusals(comm);
  if (HasStalled<CpuMemory>(report_->stall)) {
    comm.End(DescribeStall(comm, report_->stall.code, report_->stall.stall));
  }
}

void CudaBackend::Tally(Communicator& comm) {
  std::lock_guard lock(mutex_);
  tc::Tally tally;
  // Nothing was launched, or the device is lost, which the next operator says.
  if (local_ == nullptr || !service_->Copy(&tally, &local_->tally, sizeof(tally)).ok()) return;
  comm.counters().ops = tally.ops;
  comm.counters().bytes_sent = tally.bytes_sent;
  comm.counters().bytes_received = tally.bytes_received;
  for (int peer = 0; peer < comm.n_ranks(); ++peer) comm.counters().wait_ns[peer] = tally.wait_ns[peer];
}

DeviceComm CudaBackend::KernelView(const Communicator& comm) const {
  return {.jitter_ns = static_cast<uint32_t>(comm.settings().jitter.count()),
          .host_staged = comm.settings().host_staged(),
          .view = comm.view(),
          .timeout_ns = static_cast<uint64_t>(comm.settings().timeout.count()),
          .entry_timeout_ns = static_cast<uint64_t>(comm.settings().entry_timeout.count()),
          .windows = windows_,
          .report = report_};
}

int CudaBackend::MostBlocks() const {
  const int communicators = std::max(1, BackendsOn(device_) / ranks_on_device_);
  return std::max(1, (multiprocessors_ - 2 * communicators) / ranks_on_device_);
}

Status CudaBackend::Follow(tcStream_t stream, uint64_t launched) {
  const auto word = reinterpret_cast<CUdeviceptr>(&local_->launched);
  return CheckDriver(TheDriver().StreamWaitValue64(stream, word, launched, CU_STREAM_WAIT_VALUE_GEQ),
                     "cuStreamWaitValue64");
}

Status CudaBackend::LaunchGrid(tcStream_t stream, const Grid& grid, void* params) const {
  cudaLaunchAttribute early{};
  early.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  early.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid.blocks);
  config.blockDim = dim3(grid.threads);
  config.dynamicSmemBytes = grid.shared_bytes;
  config.stream = stream;
  config.attrs = &early;
  config.numAttrs = grid.starts_early && starts_early_ ? 1 : 0;
  return CheckRuntime(cudaLaunchKernelExC(&config, grid.kernel, &params), "cudaLaunchKernelExC");
}

Status CudaBackend::LaunchNext(tcStream_t stream, const Kernel* opening, std::span<const CopyOnDevice> copies,
                               const Kernel& closing) {
  if (stream == nullptr && ranks_on_device_ > 1) {
    return Error(
        tcInvalidUsage,
        "%d ranks share GPU %d, and the default stream would run their operators one after the other, each waiting "
        "for the next; give each rank a stream of its own (tcStreamCreate)",
        ranks_on_device_, device_);
  }
  const DeviceScope scope(device_);
  std::lock_guard lock(mutex_);
  cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
  unsigned long long id = 0;
  TC_RETURN_IF_CUDA_ERROR(cudaStreamIsCapturing(stream, &capture));
  const bool eager = capture == cudaStreamCaptureStatusNone;
  if (eager) {
    TC_RETURN_IF_CUDA_ERROR(cudaStreamGetId(stream, &id));
    if (launched_ > 0 && id != last_stream_) TC_RETURN_IF_ERROR(Follow(stream, launched_));
  }
  DeviceComm& comm = closing.comm;
  local_ = comm.view.local;
  comm.call = ++calls_;
  comm.stream = stream;
  comm.launched = eager ? launched_ + 1 : 0;
  {
    std::unique_lock<std::timed_mutex> alone;
    if (ranks_on_device_ > 1) alone = service_->LockLaunches();
    if (opening != nullptr) {
      opening->comm.call = comm.call;
      opening->comm.stream = stream;
      TC_RETURN_IF_ERROR(LaunchGrid(stream, opening->grid, opening->params));
    }
    for (const CopyOnDevice& copy : copies) {
      TC_RETURN_IF_CUDA_ERROR(cudaMemcpyAsync(copy.to, copy.from, copy.bytes, cudaMemcpyDefault, stream));
    }
    TC_RETURN_IF_ERROR(LaunchGrid(stream, closing.grid, closing.params));
  }
  if (!eager) return {};
  launched_ = comm.launched;
  last_stream_ = id;
  return {};
}

}  // namespace tc::cuda
