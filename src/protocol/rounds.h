// Rounds: what one rank sends to another in one epoch, but more than the staging between them holds, goes in rounds.
// The staging has two halves, which the rounds use in turn: one is filled while the other is emptied.
#pragma once

#include "protocol/layout.h"
#include "protocol/slot.h"

namespace tc {

inline constexpr int kRoundBits = 16;
inline constexpr uint64_t kMostRounds = (uint64_t{1} << kRoundBits) - 2;  // of a pair in an epoch

// Of a half's rounds, which are `round`, round - 2, ...: that this one is over, in this epoch. Grows with both.
TC_HOST_DEVICE constexpr Sequence RoundWord(Sequence epoch, int round) {
  return epoch << kRoundBits | static_cast<Sequence>(round + 1);
}

// Tells `consumer` that all of this rank's data for a round has been supplied. It must have happened before: in this
// thread, or in threads it has synchronised with.
template <class Memory>
TC_HOST_DEVICE void FinishSupply(const RankView& view, int consumer, Sequence epoch, int round) {
  Signal<Memory>(&view.control[consumer]->round[view.rank].supplied[round % 2], RoundWord(epoch, round));
}
template <class Memory>
TC_HOST_DEVICE bool IsSupplied(const RankView& view, int producer, Sequence epoch, int round) {
  return Reached<Memory>(&view.own().round[producer].supplied[round % 2], RoundWord(epoch, round));
}

// Tells `producer` that this rank has taken all of a round's data, so that its half may be filled again.
template <class Memory>
TC_HOST_DEVICE void FinishTaking(const RankView& view, int producer, Sequence epoch, int round) {
  Signal<Memory>(&view.control[producer]->round[view.rank].taken[round % 2], RoundWord(epoch, round));
}
// Whether this rank may fill the half of a round for `consumer`: the half's previous round has been taken.
template <class Memory>
TC_HOST_DEVICE bool HasRoom(const RankView& view, int consumer, Sequence epoch, int round) {
  return round < 2 || Reached<Memory>(&view.own().round[consumer].taken[round % 2], RoundWord(epoch, round - 2));
}

}  // namespace tc
