// A signal slot: one word with one writer for its whole life (P1), whose value only grows (P2).
#pragma once

#include "protocol/memory.h"

namespace tc {

// Publishes `value`: whoever sees it also sees all that happened before in this thread, and in threads it has
// synchronised with (P4). The data must have gone to the same destination as the slot (P6).
template <class Memory>
TC_HOST_DEVICE void Signal(Sequence* slot, Sequence value) {
  Memory::StoreReleaseSys(slot, value);
}

// Whether the slot, in this rank's own memory (P5), has come to `wanted`; if so the signaller's data may be read.
template <class Memory>
TC_HOST_DEVICE bool Reached(const Sequence* slot, Sequence wanted) {
  return Memory::LoadAcquireSys(slot) >= wanted;
}

}  // namespace tc
