// An ordered asynchronous queue with a thread of its own: what a CUDA stream is to a GPU.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "base/handle_table.h"
#include "tc.h"

namespace tc::host {

class Stream {
 public:
  Stream() = default;
  ~Stream();  // completes what is enqueued
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  // Tasks run in order, one at a time. The first starts the thread.
  void Enqueue(std::function<void()> task);
  // Waits for every task enqueued before the call.
  void Synchronize();

 private:
  void Run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  uint64_t enqueued_ = 0;
  uint64_t completed_ = 0;
  bool closing_ = false;
  std::thread thread_;
};

// Streams that users hold. Process-wide: a stream serves every communicator.
HandleTable<tcStream_t, Stream>& Streams();

}  // namespace tc::host
