// Credits of a ring of pieces: a producer overwrites a place only after its consumer has said that it is done with it.
#pragma once

#include "protocol/slot.h"

namespace tc {

// Pieces are numbered 0, 1, ... over the ring's whole life; piece p lies in place p mod `places`. The slot, in the
// producer's memory, is written by the consumer alone and holds how many pieces it is done with.

// Tells the producer that pieces 0 ... consumed - 1 are done with.
template <class Memory>
TC_HOST_DEVICE void ReturnCredit(Sequence* slot, Sequence consumed) {
  Signal<Memory>(slot, consumed);
}

// Whether `piece` may be written: the piece that lay in its place has been consumed.
template <class Memory>
TC_HOST_DEVICE bool HasCredit(const Sequence* slot, Sequence piece, uint64_t places) {
  return piece < places || Reached<Memory>(slot, piece - places + 1);
}

}  // namespace tc
