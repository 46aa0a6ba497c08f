#include "cuda_handles.h"

#include <exception>

namespace tc::perf {
namespace {

// A rank that is failing frees nothing: its peers may still write there, and the process ends soon.
bool IsFailing() { return std::uncaught_exceptions() > 0; }

}  // namespace

void RequireCuda(Rank& rank, cudaError_t result, const std::string& call) {
  if (result == cudaSuccess) return;
  rank.Fail(call + ": " + cudaGetErrorName(result) + ": " + cudaGetErrorString(result));
}

DeviceBuffer::DeviceBuffer(Communicator& communicator, size_t bytes, bool registered)
    : communicator_(communicator), bytes_(bytes) {
  Rank& rank = communicator_.Owner();
  void* memory = nullptr;
  if (!registered) {
    RequireCuda(rank, cudaMalloc(&memory, TotalBytes()), "cudaMalloc of " + std::to_string(TotalBytes()) + " bytes");
    memory_ = static_cast<std::byte*>(memory);
    return;
  }
  Require(rank, tcMemAlloc(&memory, TotalBytes()), "tcMemAlloc");
  memory_ = static_cast<std::byte*>(memory);
  const tcComm_t comm = communicator_.Comm();
  Require(rank, tcCommRegister(comm, memory, TotalBytes(), &window_), "tcCommRegister", comm);
}

DeviceBuffer::~DeviceBuffer() {
  if (IsFailing()) return;
  Rank& rank = communicator_.Owner();
  if (window_ == nullptr) {
    RequireCuda(rank, cudaFree(memory_), "cudaFree");
    return;
  }
  const tcComm_t comm = communicator_.Comm();
  Require(rank, tcCommDeregister(comm, window_), "tcCommDeregister", comm);
  Require(rank, tcMemFree(memory_), "tcMemFree");
}

void DeviceBuffer::Poison() {
  const cudaError_t result = cudaMemsetAsync(memory_, 0xff, TotalBytes(), communicator_.Stream());
  RequireCuda(communicator_.Owner(), result, "cudaMemsetAsync");
}

std::vector<std::byte> DeviceBuffer::CopyOut() const {
  std::vector<std::byte> host(bytes_);
  communicator_.Copy(host.data(), Data(), bytes_);
  return host;
}

PinnedMemory::PinnedMemory(Rank& rank, size_t bytes) : rank_(rank) {
  void* memory = nullptr;
  RequireCuda(rank_, cudaHostAlloc(&memory, bytes, cudaHostAllocDefault), "cudaHostAlloc");
  memory_ = static_cast<std::byte*>(memory);
}

PinnedMemory::~PinnedMemory() {
  if (!IsFailing()) RequireCuda(rank_, cudaFreeHost(memory_), "cudaFreeHost");
}

MappedMemory::MappedMemory(Rank& rank, std::byte* memory, size_t bytes) : rank_(rank) {
  const cudaError_t result = cudaHostRegister(memory, bytes, cudaHostRegisterPortable | cudaHostRegisterMapped);
  if (result == cudaErrorHostMemoryAlreadyRegistered) {
    cudaGetLastError();  // it is no failure, and must not be found later
  } else {
    RequireCuda(rank_, result, "cudaHostRegister");
    registered_ = memory;
  }
  void* words = nullptr;
  RequireCuda(rank_, cudaHostGetDevicePointer(&words, memory, 0), "cudaHostGetDevicePointer");
  words_ = static_cast<uint64_t*>(words);
}

MappedMemory::~MappedMemory() {
  if (registered_ != nullptr && !IsFailing()) RequireCuda(rank_, cudaHostUnregister(registered_), "cudaHostUnregister");
}

TimeStamp::TimeStamp(Rank& rank) : rank_(rank) { RequireCuda(rank_, cudaEventCreate(&event_), "cudaEventCreate"); }

TimeStamp::~TimeStamp() {
  if (!IsFailing()) RequireCuda(rank_, cudaEventDestroy(event_), "cudaEventDestroy");
}

void TimeStamp::Record(tcStream_t stream) { RequireCuda(rank_, cudaEventRecord(event_, stream), "cudaEventRecord"); }

double TimeStamp::MicrosecondsSince(const TimeStamp& start) const {
  float milliseconds = 0;
  RequireCuda(rank_, cudaEventElapsedTime(&milliseconds, start.event_, event_), "cudaEventElapsedTime");
  return 1e3 * static_cast<double>(milliseconds);
}

Graph::Graph(Rank& rank, tcStream_t stream, const std::function<void()>& record) : rank_(rank) {
  RequireCuda(rank_, cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  record();
  RequireCuda(rank_, cudaStreamEndCapture(stream, &graph_), "cudaStreamEndCapture");
}

Graph::~Graph() {
  if (IsFailing()) return;
  if (ready_ != nullptr) RequireCuda(rank_, cudaGraphExecDestroy(ready_), "cudaGraphExecDestroy");
  RequireCuda(rank_, cudaGraphDestroy(graph_), "cudaGraphDestroy");
}

void Graph::Prepare(tcStream_t stream) {
  RequireCuda(rank_, cudaGraphInstantiate(&ready_, graph_, 0), "cudaGraphInstantiate");
  RequireCuda(rank_, cudaGraphUpload(ready_, stream), "cudaGraphUpload");
}

void Graph::Launch(tcStream_t stream) { RequireCuda(rank_, cudaGraphLaunch(ready_, stream), "cudaGraphLaunch"); }

}  // namespace tc::perf
