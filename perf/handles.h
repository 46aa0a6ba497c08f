// The library's handles as a perf binary uses them. A call that fails ends the rank with the library's own sentence.
#ifndef TC_PERF_HANDLES_H_
#define TC_PERF_HANDLES_H_

#include <tc.h>

#include <cstddef>
#include <vector>

#include "placement.h"
#include "ranks.h"

namespace tc::perf {

// Ends the rank unless `result` is tcSuccess. `call` is the function's name. comm NULL: the error is this thread's.
void Require(Rank& rank, tcResult_t result, const char* call, tcComm_t comm = nullptr);

// A communicator of all ranks and a stream.
class Communicator {
 public:
  Communicator(Rank& rank, const tcUniqueId& id, const Placement& placement);
  ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  tcComm_t Comm() const { return comm_; }
  tcStream_t Stream() const { return stream_; }
  Rank& Owner() const { return rank_; }
  bool OnGpu() const { return on_gpu_; }

  // Waits for the stream.
  void Synchronize();
  // Returns once every rank is here.
  void Barrier();
  // Any direction; returns when the bytes are there.
  void Copy(void* target, const void* source, size_t bytes);

 private:
  Rank& rank_;
  bool on_gpu_;
  tcComm_t comm_ = nullptr;
  tcStream_t stream_ = nullptr;
};

// Memory of a rank on CPUs that the operator works on, with guard zones on both sides in which nothing may be written.
class Buffer {
 public:
  // registered: reachable by the peers; then this is collective, and so is the destructor.
  Buffer(Communicator& communicator, size_t bytes, bool registered = false);
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  // Never NULL.
  std::byte* Data() const { return memory_ + kGuardBytes; }
  size_t Bytes() const { return bytes_; }

  // Fills data and guard zones with 0xff bytes, a NaN in every floating-point type.
  void Poison();
  // Copies the data out; returns host memory that is valid until the next call of Poison or CopyOut. *spoiled receives
  // the number of guard bytes that were written.
  const std::byte* CopyOut(size_t* spoiled);

 private:
  static constexpr size_t kGuardBytes = 4096;

  size_t TotalBytes() const { return bytes_ + 2 * kGuardBytes; }

  Communicator& communicator_;
  size_t bytes_;
  std::byte* memory_ = nullptr;
  tcWindow_t window_ = nullptr;
  std::vector<std::byte> host_;  // empty until it is needed: inputs need none
};

}  // namespace tc::perf

#endif  // TC_PERF_HANDLES_H_
