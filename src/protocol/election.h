// Local election: of several threads (blocks) of one rank that contribute to one signal, the last gives it (P4).
#pragma once

#include "protocol/memory.h"

namespace tc {

// Called by each of `expected` contributors when its own part is done. True for the last, once: all parts happened
// before, so its release covers them. The counter, in this rank's own memory, is 0 again for the next election.
template <class Memory>
TC_HOST_DEVICE bool Elect(uint32_t* counter, uint32_t expected) {
  if (Memory::AddAcqRelGpu(counter, uint32_t{1}) + 1 != expected) return false;
  Memory::StoreRelaxed(counter, uint32_t{0});
  return true;
}

}  // namespace tc
