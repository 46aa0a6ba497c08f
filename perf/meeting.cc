#include "meeting.h"

#include <sys/mman.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <new>
#include <string>
#include <thread>

#include "failure.h"

namespace tc::perf {

Meeting::Meeting(int count) : count_(static_cast<uint64_t>(count)) {
  void* memory = mmap(nullptr, sizeof(*arrivals_), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw Failure(std::string("no memory that ranks share: ") + std::strerror(errno) + ".");
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "it works between processes");
  arrivals_ = new (memory) std::atomic<uint64_t>(0);
}

Meeting::~Meeting() { munmap(arrivals_, sizeof(*arrivals_)); }

void Meeting::Meet() {
  const uint64_t earlier = arrivals_->fetch_add(1, std::memory_order_acq_rel);
  const uint64_t complete = (earlier / count_ + 1) * count_;
  while (arrivals_->load(std::memory_order_acquire) < complete) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace tc::perf
