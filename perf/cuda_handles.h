// CUDA's handles as a perf binary uses them. A call that fails ends the rank with CUDA's own sentence.
#ifndef TC_PERF_CUDA_HANDLES_H_
#define TC_PERF_CUDA_HANDLES_H_

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "handles.h"

namespace tc::perf {

// Ends the rank unless `result` is cudaSuccess. `call` is the function's name.
void RequireCuda(Rank& rank, cudaError_t result, const std::string& call);

// Device memory that the operator works on, with guard zones on both sides in which nothing may be written.
class DeviceBuffer {
 public:
  static constexpr size_t kGuardBytes = 4096;

  // registered: reachable by the peers; then this is collective, and so is the destructor.
  DeviceBuffer(Communicator& communicator, size_t bytes, bool registered = false);
  ~DeviceBuffer();
  DeviceBuffer(const DeviceBuffer&) = delete;
  DeviceBuffer& operator=(const DeviceBuffer&) = delete;

  // Never NULL.
  std::byte* Data() const { return memory_ + kGuardBytes; }
  size_t Bytes() const { return bytes_; }
  const std::byte* FrontGuard() const { return memory_; }
  const std::byte* BackGuard() const { return Data() + bytes_; }

  // Enqueues: fills data and guard zones with 0xff bytes, a NaN in every floating-point type.
  void Poison();
  // The data, once what is enqueued has completed.
  std::vector<std::byte> CopyOut() const;

 private:
  size_t TotalBytes() const { return bytes_ + 2 * kGuardBytes; }

  Communicator& communicator_;
  size_t bytes_;
  std::byte* memory_ = nullptr;
  tcWindow_t window_ = nullptr;
};

// Host memory that copies to and from the device need not wait for.
class PinnedMemory {
 public:
  PinnedMemory(Rank& rank, size_t bytes);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* Data() const { return memory_; }

 private:
  Rank& rank_;
  std::byte* memory_ = nullptr;
};

// Memory that ranks share, as the current device reaches it. Where ranks are threads each has one, and the first of
// them registers for all: they must meet before any is destroyed.
class MappedMemory {
 public:
  MappedMemory(Rank& rank, std::byte* memory, size_t bytes);
  ~MappedMemory();
  MappedMemory(const MappedMemory&) = delete;
  MappedMemory& operator=(const MappedMemory&) = delete;

  uint64_t* Data() const { return words_; }  // for the device

 private:
  Rank& rank_;
  std::byte* registered_ = nullptr;  // by this rank
  uint64_t* words_ = nullptr;
};

// A point in a stream whose time is taken.
class TimeStamp {
 public:
  explicit TimeStamp(Rank& rank);
  ~TimeStamp();
  TimeStamp(const TimeStamp&) = delete;
  TimeStamp& operator=(const TimeStamp&) = delete;

  void Record(tcStream_t stream);
  // Both must have been passed.
  double MicrosecondsSince(const TimeStamp& start) const;

 private:
  Rank& rank_;
  cudaEvent_t event_ = nullptr;
};

// What `record` enqueues on the stream, as a graph.
class Graph {
 public:
  Graph(Rank& rank, tcStream_t stream, const std::function<void()>& record);
  ~Graph();
  Graph(const Graph&) = delete;
  Graph& operator=(const Graph&) = delete;

  // Once, before the first Launch: makes it ready on the stream's device. May allocate.
  void Prepare(tcStream_t stream);
  void Launch(tcStream_t stream);

 private:
  Rank& rank_;
  cudaGraph_t graph_ = nullptr;
  cudaGraphExec_t ready_ = nullptr;
};

}  // namespace tc::perf

#endif  // TC_PERF_CUDA_HANDLES_H_
