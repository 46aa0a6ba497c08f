// What a communicator needs of the device its rank runs on. src/host/ and src/cuda/ implement it.
#pragma once

#include <cstddef>
#include <functional>
#include <memory>

#include "base/status.h"
#include "comm/segment.h"
#include "tc.h"

namespace tc {

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  virtual int device() const = 0;

  // Zeroed memory that peers can map.
  virtual Status Allocate(size_t bytes, std::shared_ptr<Segment>* segment) = 0;
  // Another process's memory. Memory of this process comes from SegmentTable.
  virtual Status Import(const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment) = 0;

  virtual Status CreateStream(tcStream_t* stream) = 0;
  virtual Status DestroyStream(tcStream_t stream) = 0;
  virtual Status SynchronizeStream(tcStream_t stream) = 0;
  virtual Status MemcpyAsync(void* dst, const void* src, size_t bytes, tcStream_t stream) = 0;

  // Waits for every operator that was launched.
  virtual void Drain() = 0;
};

}  // namespace tc
