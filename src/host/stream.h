// An ordered asynchronous queue with a thread of its own: what a CUDA stream is to a GPU.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <utility>

#include "base/handle_table.h"
#include "host/task_queue.h"
#include "tc.h"

namespace tc::host {

class Stream {
 public:
  Stream() = default;
  ~Stream();  // completes what is enqueued
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Tasks run in order, one at a time. The first starts the thread.
  template <class Act>
  void Enqueue(Act task) {
    {
      std::lock_guard lock(mutex_);
      if (!thread_.joinable()) thread_ = std::thread([this] { Run(); });  // may throw: before anything has changed
      tasks_.Push(std::move(task));
      ++enqueued_;
    }
    changed_.notify_all();
  }
  // Waits for every task enqueued before the call.
  void Synchronize();
  // Of memory that it keeps for tasks: as much as were ever enqueued at a time.
  size_t bytes();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  TaskQueue tasks_;
  uint64_t enqueued_ = 0;
  uint64_t completed_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

// Streams that users hold. Process-wide: a stream serves every communicator.
HandleTable<tcStream_t, Stream>& Streams();

}  // namespace tc::host
