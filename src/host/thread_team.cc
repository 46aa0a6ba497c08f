#include "host/thread_team.h"

#include <cfenv>

namespace tc::host {

ThreadTeam::~ThreadTeam() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void ThreadTeam::Start() {
  std::lock_guard lock(mutex_);
  while (threads_.size() < static_cast<size_t>(helpers_)) threads_.emplace_back([this] { Help(); });
}

void ThreadTeam::Run(FunctionRef<void()> work) {
  Start();
  {
    std::lock_guard lock(mutex_);
    work_ = &work;
    working_ = helpers_;
    ++round_;
  }
  changed_.notify_all();
  work();
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return working_ == 0; });
}

void ThreadTeam::Help() {
  std::fesetenv(FE_DFL_ENV);  // as the stream's thread does
  uint64_t seen = 0;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return closing_ || round_ != seen; });
    if (closing_) return;
    seen = round_;
    const FunctionRef<void()>* work = work_;
    lock.unlock();
    (*work)();
    lock.lock();
    if (--working_ == 0) changed_.notify_all();
  }
}

}  // namespace tc::host
