#include "host/backend.h"

#include <condition_variable>
#include <cstring>
#include <utility>

#include "host/segment.h"

namespace tc::host {

class HostBackend::Completion {
 public:
  void Set() {
    std::lock_guard lock(mutex_);
    done_ = true;
    changed_.notify_all();
  }
  void Wait() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return done_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
};

HostBackend::HostBackend(int device, int threads)
    : device_(device < 0 ? 0 : device), team_(threads), default_stream_(std::make_shared<Stream>()) {}

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

void HostBackend::Drain() {
  std::shared_ptr<Completion> last;
  {
    std::lock_guard lock(mutex_);
    last = last_;
  }
  if (last != nullptr) last->Wait();
}

Status HostBackend::Launch(tcStream_t stream, std::function<void()> op) {
  std::shared_ptr<Stream> resolved;
  TC_RETURN_IF_ERROR(Resolve(stream, &resolved));
  auto done = std::make_shared<Completion>();
  std::lock_guard lock(mutex_);
  resolved->Enqueue([before = last_, done, op = std::move(op)] {
    if (before != nullptr) before->Wait();
    op();
    done->Set();
  });
  last_ = std::move(done);
  return {};
}

}  // namespace tc::host
