// Bounded waiting: every spin of the library ends by success, by an abort, or by its time limit (P10).
#pragma once

#include "protocol/abort.h"

namespace tc {

enum class WaitResult : int32_t { kReached, kAborted, kTimedOut };

// Whether `ready` becomes true at once, or as soon as a signal that is under way can come.
template <class Memory, class Ready>
TC_HOST_DEVICE bool ReachedSoon(const Ready& ready) {
  for (unsigned polls = 0; polls < Memory::kHotPolls; ++polls) {
    if (ready()) return true;
  }
  return false;
}

// Polls `ready` until it is true. `ready` looks at this rank's own memory only (P5).
template <class Memory, class Ready>
TC_HOST_DEVICE WaitResult WaitUntil(const Ready& ready, const RankView& view, uint64_t limit_ns) {
  if (ReachedSoon<Memory>(ready)) return WaitResult::kReached;
  const uint64_t start = Memory::NowNs();
  uint64_t checked = start;
  for (unsigned spins = 0;; ++spins) {
    Memory::Backoff(spins);
    if (ready()) return WaitResult::kReached;
    const uint64_t now = Memory::NowNs();
    if (now - checked < Memory::kCheckNs) continue;
    checked = now;
    if (AbortedBy<Memory>(view) >= 0) return WaitResult::kAborted;
    if (now - start > limit_ns) return WaitResult::kTimedOut;
  }
}

// The same, and calls warn(ns waited so far) whenever another `every_ns` have passed.
template <class Memory, class Ready, class Warn>
TC_HOST_DEVICE WaitResult WaitUntil(const Ready& ready, const RankView& view, uint64_t limit_ns, uint64_t every_ns,
                                    const Warn& warn) {
  for (uint64_t waited = 0;;) {
    const uint64_t slice = limit_ns - waited < every_ns ? limit_ns - waited : every_ns;
    const WaitResult result = WaitUntil<Memory>(ready, view, slice);
    waited += slice;
    if (result != WaitResult::kTimedOut || waited >= limit_ns) return result;
    warn(waited);
  }
}

}  // namespace tc
