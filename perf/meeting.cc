#include "meeting.h"

#include <chrono>
#include <new>
#include <thread>

namespace tc::perf {

Meeting::Meeting(int count) : count_(static_cast<uint64_t>(count)), memory_(sizeof(*arrivals_)) {
  static_assert(std::atomic<uint64_t>::is_always_lock_free, "it works between processes");
  arrivals_ = new (memory_.Data()) std::atomic<uint64_t>(0);
}

void Meeting::Meet() {
  const uint64_t earlier = arrivals_->fetch_add(1, std::memory_order_acq_rel);
  const uint64_t complete = (earlier / count_ + 1) * count_;
  while (arrivals_->load(std::memory_order_acquire) < complete) {
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  }
}

}  // namespace tc::perf
