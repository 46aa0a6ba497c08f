#include "comm/allocation.h"

namespace tc {

Allocations& Allocations::Instance() {
  static Allocations* allocations = new Allocations;  // never destroyed: users may free late
  return *allocations;
}

void Allocations::Add(std::shared_ptr<Segment> segment) {
  std::lock_guard lock(mutex_);
  segments_[segment->base()] = std::move(segment);
}

Status Allocations::Remove(void* ptr) {
  std::shared_ptr<Segment> freed;  // unmapped after the lock is gone
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(static_cast<std::byte*>(ptr));
  if (found == segments_.end()) {
    return Error(tcInvalidArgument, "tcMemFree: %p is not the start of memory from tcMemAlloc, or was freed before",
                 ptr);
  }
  freed = std::move(found->second);
  segments_.erase(found);
  return {};
}

Status Allocations::Find(const void* ptr, size_t bytes, std::shared_ptr<Segment>* segment, size_t* offset) const {
  const auto* begin = static_cast<const std::byte*>(ptr);
  std::lock_guard lock(mutex_);
  auto next = segments_.upper_bound(begin);
  if (next != segments_.begin()) {
    const std::shared_ptr<Segment>& candidate = std::prev(next)->second;
    const size_t into = static_cast<size_t>(begin - candidate->base());
    if (into < candidate->bytes() && bytes <= candidate->bytes() - into) {
      *segment = candidate;
      *offset = into;
      return {};
    }
  }
  return Error(tcInvalidArgument,
               "[%p, %p + %zu) does not lie inside one allocation of tcMemAlloc; allocate what you register with it",
               ptr, ptr, bytes);
}

}  // namespace tc
