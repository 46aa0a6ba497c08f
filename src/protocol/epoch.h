// Epochs live in the rank's own memory and are advanced by the operator's last thread (P3).
#pragma once

#include "protocol/layout.h"

namespace tc {

// One word counts the completed epochs and, below them, the threads (blocks) that have come for the next one: who
// arrives learns both at once, and never a ticket of one epoch with the number of another.
inline constexpr int kArrivalBits = 16;

// The order of arrival among the threads (blocks) of one operator: suppliers take the low tickets (P9).
struct Arrival {
  Sequence epoch;  // of the operator that starts now
  uint32_t ticket;
};

template <class Memory>
TC_HOST_DEVICE Arrival Arrive(LocalBlock& local) {
  const uint64_t before = Memory::AddAcquireGpu(&local.arrivals, uint64_t{1});
  return {(before >> kArrivalBits) + 1, static_cast<uint32_t>(before % (uint64_t{1} << kArrivalBits))};
}

// The epoch of the operator that starts now, for who needs no ticket.
template <class Memory>
TC_HOST_DEVICE Sequence EnterEpoch(const LocalBlock& local) {
  return (Memory::LoadAcquireGpu(&local.arrivals) >> kArrivalBits) + 1;
}

// The next tile that nobody has claimed.
template <class Memory>
TC_HOST_DEVICE uint32_t ClaimTile(LocalBlock& local) {
  return Memory::AddRelaxedGpu(&local.tiles, uint32_t{1});
}

// What the first block found when it met the peers, for the other blocks of its grid: 0 to go on, else why not.
inline constexpr uint32_t kVerdicts = 4;
// Not found but noticed: this block's operator runs at the same time as another of its communicator.
inline constexpr uint32_t kOverlaps = kVerdicts - 1;

// `call` tells operators apart that overlap, by its low bits.
TC_HOST_DEVICE constexpr uint64_t VerdictOf(Sequence epoch, uint64_t call, uint32_t verdict) {
  return epoch << kArrivalBits | call * kVerdicts % (uint64_t{1} << kArrivalBits) | verdict;
}

template <class Memory>
TC_HOST_DEVICE void PostVerdict(LocalBlock& local, Sequence epoch, uint64_t call, uint32_t verdict) {
  Memory::StoreReleaseGpu(&local.verdict, VerdictOf(epoch, call, verdict));
}

// Whether it is known; if so all that the first block saw may be read.
template <class Memory>
TC_HOST_DEVICE bool ReadVerdict(const LocalBlock& local, Sequence epoch, uint64_t call, uint32_t* verdict) {
  const uint64_t posted = Memory::LoadAcquireGpu(&local.verdict);
  *verdict = static_cast<uint32_t>(posted % kVerdicts);
  if (posted == VerdictOf(epoch, call, *verdict)) return true;
  *verdict = kOverlaps;
  // Another operator's first block has spoken for this epoch, or ended it without this block.
  return posted >> kArrivalBits >= epoch || Memory::LoadRelaxed(&local.arrivals) >> kArrivalBits >= epoch;
}

// For an operator of several kernels in one stream. The first one arrives, posts a verdict even where it has one thread
// (block) only, and does not leave; each thread (block) of the last one resumes the epoch that lies open, and its last
// to leave ends it. Nobody takes a ticket here, counters stand where the first kernel left them, and all learn the
// same: the epoch cannot end before each of them has left it. False: there is no epoch to resume or to leave, since the
// communicator has ended, or the first kernel was left out. `call` is the first kernel's.
template <class Memory>
TC_HOST_DEVICE bool ResumeEpoch(const LocalBlock& local, uint64_t call, Sequence* epoch, uint32_t* verdict) {
  *epoch = EnterEpoch<Memory>(local);
  return Memory::LoadRelaxed(&local.dead) == 0 && ReadVerdict<Memory>(local, *epoch, call, verdict);
}

// Called once by each of `threads` threads (blocks) as the last thing they do. The last one zeroes the counters and the
// first `gates` gates, and only then advances the epoch. True for that last one.
template <class Memory>
TC_HOST_DEVICE bool LeaveEpoch(LocalBlock& local, Sequence epoch, uint32_t threads, uint64_t gates) {
  if (Memory::AddAcqRelGpu(&local.finished, uint32_t{1}) + 1 != threads) return false;
  for (uint64_t gate = 0; gate < gates; ++gate) Memory::StoreRelaxed(&local.gate[gate], uint32_t{0});
  Memory::StoreRelaxed(&local.tiles, uint32_t{0});
  Memory::StoreRelaxed(&local.moves, uint32_t{0});
  Memory::StoreRelaxed(&local.moves_in, uint32_t{0});
  Memory::StoreRelaxed(&local.finished, uint32_t{0});
  Memory::StoreReleaseGpu(&local.arrivals, epoch << kArrivalBits);
  return true;
}

// The same for an operator that only meets, with one thread (block): it has touched no counter, and what comes next is
// ordered behind it as a whole.
template <class Memory>
TC_HOST_DEVICE void LeaveMeeting(LocalBlock& local, Sequence epoch) {
  Memory::StoreRelaxed(&local.arrivals, epoch << kArrivalBits);
}

// Called by each of a kernel's `blocks` blocks as the very last thing they do, whether they entered an epoch or not.
// The last one says that launch `number` has ended: nothing of it touches memory any more. True for that one.
template <class Memory>
TC_HOST_DEVICE bool EndLaunch(LocalBlock& local, uint64_t number, uint32_t blocks) {
  if (blocks > 1 && Memory::AddAcqRelGpu(&local.exited, uint32_t{1}) + 1 != blocks) return false;
  Memory::StoreRelaxed(&local.exited, uint32_t{0});
  Memory::StoreReleaseSys(&local.launched, number);
  return true;
}

}  // namespace tc
