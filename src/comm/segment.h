// Memory that other ranks can map, and the process's table of it.
#pragma once

#include <sys/types.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>

#include "base/unique_fd.h"

namespace tc {

// Names a segment to other ranks.
struct SegmentTicket {
  std::array<uint8_t, 16> process;  // random: two processes never share it, whatever their pid namespaces
  uint64_t id;                      // within the process
  uint64_t bytes;
};

// A mapping; the backend that made it derives from this and unmaps in its destructor. Shared by all that use it, and so
// freed only when the last user has let go (P16).
class Segment {
 public:
  virtual ~Segment() = default;
  Segment(const Segment&) = delete;
  Segment& operator=(const Segment&) = delete;

  std::byte* base() const { return base_; }
  size_t bytes() const { return bytes_; }
  // Of the memory behind it, which comes in pieces.
  virtual size_t reserved_bytes() const { return bytes_; }
  // What another process maps; -1 when this is itself a mapping of another process's memory.
  int fd() const { return fd_.get(); }

 protected:
  Segment(std::byte* base, size_t bytes, UniqueFd fd) : base_(base), bytes_(bytes), fd_(std::move(fd)) {}

 private:
  std::byte* base_;
  size_t bytes_;
  UniqueFd fd_;
};

// This process's own segments, by id: ranks that share a process use each other's memory by plain pointer.
class SegmentTable {
 public:
  static SegmentTable& Instance();

  SegmentTicket Add(const std::shared_ptr<Segment>& segment);
  // NULL when the ticket is another process's, or the segment is gone.
  std::shared_ptr<Segment> Find(const SegmentTicket& ticket);
  // This process's name.
  std::array<uint8_t, 16> process();

 private:
  SegmentTable() = default;
  // A child made by fork inherits the table but is another process: it takes a name of its own and starts empty.
  void TakeName();

  std::mutex mutex_;
  std::array<uint8_t, 16> process_{};
  pid_t named_in_ = 0;
  uint64_t next_id_ = 1;
  std::map<uint64_t, std::weak_ptr<Segment>> segments_;
};

}  // namespace tc
