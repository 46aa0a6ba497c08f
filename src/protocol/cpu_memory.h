// The memory policy of CPU threads: std::atomic_ref on ordinary or shared memory.
#pragma once

#include <sched.h>
#include <time.h>

#include <atomic>
#include <chrono>
#include <cstdint>

#include "protocol/memory.h"

namespace tc {

struct CpuMemory {
  static constexpr unsigned kHotPolls = 1;
  static constexpr uint64_t kCheckNs = 0;

  template <class Word>
  static Word LoadRelaxed(const Word* word) {
    return Ref(word).load(std::memory_order_relaxed);
  }
  template <class Word>
  static void StoreRelaxed(Word* word, Word value) {
    Ref(word).store(value, std::memory_order_relaxed);
  }
  template <class Word>
  static Word LoadAcquireSys(const Word* word) {
    return Ref(word).load(std::memory_order_acquire);
  }
  template <class Word>
  static void StoreReleaseSys(Word* word, Word value) {
    Ref(word).store(value, std::memory_order_release);
  }
  template <class Word>
  static Word LoadAcquireGpu(const Word* word) {
    return LoadAcquireSys(word);
  }
  template <class Word>
  static void StoreReleaseGpu(Word* word, Word value) {
    StoreReleaseSys(word, value);
  }
  template <class Word>
  static Word AddReleaseGpu(Word* word, Word value) {
    return Ref(word).fetch_add(value, std::memory_order_release);
  }
  template <class Word>
  static Word AddAcquireGpu(Word* word, Word value) {
    return Ref(word).fetch_add(value, std::memory_order_acquire);
  }
  template <class Word>
  static Word AddAcqRelGpu(Word* word, Word value) {
    return Ref(word).fetch_add(value, std::memory_order_acq_rel);
  }
  template <class Word>
  static Word AddRelaxedGpu(Word* word, Word value) {
    return Ref(word).fetch_add(value, std::memory_order_relaxed);
  }
  // Eight ranks must make progress on two cores, so a waiter gives its core away at once, and after a while sleeps.
  static void Backoff(unsigned spins) {
    if (spins < 64) {
      ::sched_yield();
    } else {
      const timespec pause{0, spins < 1024 ? 20'000 : 200'000};
      ::nanosleep(&pause, nullptr);
    }
  }
  static uint64_t NowNs() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
  }

 private:
  template <class Word>
  static std::atomic_ref<Word> Ref(const Word* word) {
    return std::atomic_ref<Word>(*const_cast<Word*>(word));
  }
};

}  // namespace tc
