#include "host/stream.h"

#include <cfenv>

namespace tc::host {

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Stream::Synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t target = enqueued_;
  changed_.wait(lock, [&] { return completed_ >= target; });
}

size_t Stream::bytes() {
  std::lock_guard lock(mutex_);
  return tasks_.bytes();
}

void Stream::Run() {
  // A thread inherits rounding and flushing of subnormals from its maker. Results must not depend on who called.
  std::fesetenv(FE_DFL_ENV);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    TaskQueue::Task& task = tasks_.front();
    lock.unlock();
    task.Run();  // what it holds goes before it counts as completed
    lock.lock();
    tasks_.Pop();
    ++completed_;
    changed_.notify_all();
  }
}

HandleTable<tcStream_t, Stream>& Streams() {
  static auto* streams = new HandleTable<tcStream_t, Stream>("stream");
  return *streams;
}

}  // namespace tc::host
