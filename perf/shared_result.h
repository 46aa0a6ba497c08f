// One result of rank 0 in memory that the parent and all ranks share.
#ifndef TC_PERF_SHARED_RESULT_H_
#define TC_PERF_SHARED_RESULT_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "shared_memory.h"

namespace tc::perf {

// Make it before the ranks start: they inherit it, as threads or as processes.
class SharedResult {
 public:
  // Throws Failure when there is no memory.
  explicit SharedResult(size_t bytes);

  // Once, by rank 0: copies `bytes` bytes in.
  void Publish(const std::byte* result);
  // By the others: waits for rank 0's and returns how many elements of `element_bytes` differ from it.
  uint64_t CountDifferences(const std::byte* result, size_t element_bytes) const;

  const std::byte* Data() const { return data_; }

 private:
  static constexpr size_t kHeadBytes = 64;

  size_t bytes_;
  SharedMemory memory_;
  std::atomic<uint32_t>* published_;
  std::byte* data_;
};

}  // namespace tc::perf

#endif  // TC_PERF_SHARED_RESULT_H_
