#include "comm/segment.h"

#include <sys/random.h>
#include <unistd.h>

#include <cstdlib>

namespace tc {

SegmentTable& SegmentTable::Instance() {
  static SegmentTable* table = new SegmentTable;  // never destroyed: segments may outlive static destructors
  return *table;
}

void SegmentTable::TakeName() {
  if (named_in_ == ::getpid()) return;
  size_t filled = 0;
  while (filled < process_.size()) {
    const ssize_t got = ::getrandom(process_.data() + filled, process_.size() - filled, 0);
    if (got > 0) filled += static_cast<size_t>(got);
  }
  segments_.clear();
  named_in_ = ::getpid();
}

SegmentTicket SegmentTable::Add(const std::shared_ptr<Segment>& segment) {
  std::lock_guard lock(mutex_);
  TakeName();
  std::erase_if(segments_, [](const auto& entry) { return entry.second.expired(); });
  segments_[next_id_] = segment;
  return {process_, next_id_++, segment->bytes()};
}

std::array<uint8_t, 16> SegmentTable::process() {
  std::lock_guard lock(mutex_);
  TakeName();
  return process_;
}

std::shared_ptr<Segment> SegmentTable::Find(const SegmentTicket& ticket) {
  if (ticket.process != process()) return nullptr;
  std::lock_guard lock(mutex_);
  const auto found = segments_.find(ticket.id);
  return found == segments_.end() ? nullptr : found->second.lock();
}

}  // namespace tc
