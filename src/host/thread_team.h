// The threads that carry out one operator together: what the blocks of a grid are to a kernel.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <thread>
#include <vector>

#include "base/function_ref.h"

namespace tc::host {

class ThreadTeam {
 public:
  explicit ThreadTeam(int helpers) : helpers_(helpers) {}
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam&) = delete;
  ThreadTeam& operator=(const ThreadTeam&) = delete;

  int size() const { return helpers_ + 1; }

  // Starts the helpers, unless they run; throws where no thread is to be had.
  void Start();

  // Calls work() once on the calling thread and once on every helper, all at the same time; returns when all have.
  // One call at a time.
  void Run(FunctionRef<void()> work);

 private:
  void Help();

  const int helpers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  const FunctionRef<void()>* work_ = nullptr;
  uint64_t round_ = 0;
  int working_ = 0;
  bool closing_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace tc::host
