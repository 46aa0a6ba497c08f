#include "shared_memory.h"

#include <sys/mman.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "failure.h"

namespace tc::perf {

SharedMemory::SharedMemory(size_t bytes) : bytes_(bytes) {
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw Failure(std::string("no memory that ranks share: ") + std::strerror(errno) + ".");
  memory_ = static_cast<std::byte*>(memory);
}

SharedMemory::~SharedMemory() { munmap(memory_, bytes_); }

}  // namespace tc::perf
