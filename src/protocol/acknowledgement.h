// Acknowledgements: who reads a peer's buffer in that peer's own memory says when it is done, so that the peer's
// operator does not end, and its caller does not write there again, before.
#pragma once

#include "protocol/layout.h"
#include "protocol/slot.h"

namespace tc {

// Tells `owner` that this rank has read all it needed, in `epoch`, of the buffer that the owner's entry named. What was
// read must have happened before: in this thread, or in threads it has synchronised with.
template <class Memory>
TC_HOST_DEVICE void Acknowledge(const RankView& view, int owner, Sequence epoch) {
  Signal<Memory>(&view.control[owner]->acknowledgement[view.rank].epoch, epoch);
}

// Whether `reader` has read all it needed of this rank's buffer in `epoch`; if so the buffer may be written again.
template <class Memory>
TC_HOST_DEVICE bool HasAcknowledged(const RankView& view, int reader, Sequence epoch) {
  return Reached<Memory>(&view.own().acknowledgement[reader].epoch, epoch);
}

}  // namespace tc
