// Memory that the parent and all ranks share.
#ifndef TC_PERF_SHARED_MEMORY_H_
#define TC_PERF_SHARED_MEMORY_H_

#include <cstddef>

namespace tc::perf {

// Make it before the ranks start: they inherit it, as threads or as processes. Zero bytes, from the start of a page.
class SharedMemory {
 public:
  // Throws Failure when there is no memory.
  explicit SharedMemory(size_t bytes);
  ~SharedMemory();
  SharedMemory(const SharedMemory&) = delete;
  SharedMemory& operator=(const SharedMemory&) = delete;

  std::byte* Data() const { return memory_; }
  size_t Bytes() const { return bytes_; }

 private:
  size_t bytes_;
  std::byte* memory_;
};

}  // namespace tc::perf

#endif  // TC_PERF_SHARED_MEMORY_H_
