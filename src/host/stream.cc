#include "host/stream.h"

#include <cfenv>
#include <utility>

namespace tc::host {

Stream::~Stream() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Stream::Enqueue(std::function<void()> task) {
  {
    std::lock_guard lock(mutex_);
    if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });  // may throw: before anything has changed
    tasks_.push_back(std::move(task));
    ++enqueued_;
  }
  changed_.notify_all();
}

void Stream::Synchronize() {
  std::unique_lock lock(mutex_);
  const uint64_t target = enqueued_;
  changed_.wait(lock, [&] { return completed_ >= target; });
}

void Stream::Run() {
  // A thread inherits rounding and flushing of subnormals from its maker. Results must not depend on who called.
  std::fesetenv(FE_DFL_ENV);
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || !tasks_.empty(); });
    if (tasks_.empty()) return;
    std::function<void()> task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;  // what it holds goes before it counts as completed
    lock.lock();
    ++completed_;
    changed_.notify_all();
  }
}

HandleTable<tcStream_t, Stream>& Streams() {
  static auto* streams = new HandleTable<tcStream_t, Stream>("stream");
  return *streams;
}

}  // namespace tc::host
