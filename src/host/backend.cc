#include "host/backend.h"

#include <cstring>

#include "host/segment.h"

namespace tc::host {

HostBackend::HostBackend(int device, int threads)
    : device_(device < 0 ? 0 : device),
      team_(threads),
      scratch_(team_.size()),
      default_stream_(std::make_shared<Stream>()) {}

HostBackend::~HostBackend() { Drain(); }

Status HostBackend::Allocate(Memory, size_t bytes, bool shared, std::shared_ptr<Segment>* segment) {
  return shared ? AllocateShared(bytes, segment) : AllocatePrivate(bytes, segment);
}

Status HostBackend::Import(Memory, const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment) {
  return MapShared(ticket, fd, segment);
}

Status HostBackend::CreateStream(tcStream_t* stream) {
  *stream = Streams().Add(std::make_shared<Stream>());
  return {};
}

Status HostBackend::DestroyStream(tcStream_t stream) {
  std::shared_ptr<Stream> removed;
  TC_RETURN_IF_ERROR(Streams().Remove(stream, &removed));
  removed->Synchronize();
  return {};
}

Status HostBackend::Resolve(tcStream_t stream, std::shared_ptr<Stream>* resolved) {
  if (stream != nullptr) return Streams().Find(stream, resolved);
  *resolved = default_stream_;
  return {};
}

Status HostBackend::SynchronizeStream(tcStream_t stream) {
  std::shared_ptr<Stream> resolved;
  TC_RETURN_IF_ERROR(Resolve(stream, &resolved));
  resolved->Synchronize();
  return {};
}

Status HostBackend::MemcpyAsync(void* dst, const void* src, size_t bytes, tcStream_t stream) {
  std::shared_ptr<Stream> resolved;
  TC_RETURN_IF_ERROR(Resolve(stream, &resolved));
  resolved->Enqueue([=] { std::memmove(dst, src, bytes); });
  return {};
}

void HostBackend::AwaitCompleted(uint64_t number) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return completed_ >= number; });
}

void HostBackend::SetCompleted(uint64_t number) {
  std::lock_guard lock(mutex_);
  completed_ = number;
  changed_.notify_all();  // under the lock: who drains may destroy this backend next
}

void HostBackend::Drain() {
  uint64_t launched = 0;
  {
    std::lock_guard lock(mutex_);
    launched = launched_;
  }
  AwaitCompleted(launched);
}

void HostBackend::CountScratch() {
  uint64_t bytes = 0;
  for (const GemmScratch& each : scratch_) bytes += each.bytes();
  scratch_bytes_ = bytes;
}

uint64_t HostBackend::memory_bytes() { return scratch_bytes_ + default_stream_->bytes(); }

}  // namespace tc::host
