// Shows whether a barrier holds every rank back until all have come, by memory outside the library.
#ifndef TC_PERF_ROLL_CALL_H_
#define TC_PERF_ROLL_CALL_H_

#include <tc.h>

#include <atomic>
#include <cstdint>

#include "shared_memory.h"

namespace tc::perf {

// A word for each rank: how many barriers it has come to. Make it before the ranks start.
class RollCall {
 public:
  static constexpr size_t kWordsApart = 16;  // so that ranks do not share a cache line

  // Throws Failure when there is no memory.
  RollCall() : memory_(TC_MAX_RANKS * kWordsApart * sizeof(uint64_t)) {}

  // Before any rank announces itself.
  void Reset(int rank) { Word(rank).store(0, std::memory_order_release); }
  // Before each barrier.
  void Announce(int rank) { Word(rank).fetch_add(1, std::memory_order_release); }
  // After it: how many ranks have not come to it yet.
  uint64_t CountAbsent(int rank, int n_ranks) const {
    const uint64_t own = Word(rank).load(std::memory_order_relaxed);
    uint64_t absent = 0;
    for (int peer = 0; peer < n_ranks; ++peer) absent += Word(peer).load(std::memory_order_acquire) < own ? 1 : 0;
    return absent;
  }

  // For GPUs, which do the same.
  const SharedMemory& Memory() const { return memory_; }

 private:
  using AtomicWord = std::atomic_ref<uint64_t>;
  static_assert(AtomicWord::is_always_lock_free, "it works between processes");

  AtomicWord Word(int rank) const {
    return AtomicWord(reinterpret_cast<uint64_t*>(memory_.Data())[static_cast<size_t>(rank) * kWordsApart]);
  }

  SharedMemory memory_;
};

}  // namespace tc::perf

#endif  // TC_PERF_ROLL_CALL_H_
