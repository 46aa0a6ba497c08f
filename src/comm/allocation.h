// The memory that tcMemAlloc has given out: which segment an address lies in.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <mutex>

#include "base/status.h"
#include "comm/segment.h"

namespace tc {

class Allocations {
 public:
  static Allocations& Instance();

  void Add(std::shared_ptr<Segment> segment);
  // tcInvalidArgument when no allocation starts at ptr. Windows over it keep the memory mapped.
  Status Remove(void* ptr);
  // The segment that holds all of [ptr, ptr + bytes).
  Status Find(const void* ptr, size_t bytes, std::shared_ptr<Segment>* segment, size_t* offset) const;

 private:
  mutable std::mutex mutex_;
  std::map<const std::byte*, std::shared_ptr<Segment>> segments_;  // by base
};

}  // namespace tc
