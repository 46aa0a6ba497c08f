// Epochs live in the rank's own memory and are advanced by the operator's last thread (P3).
#pragma once

#include "protocol/layout.h"

namespace tc {

// The epoch of the operator that starts now.
template <class Memory>
TC_HOST_DEVICE Sequence EnterEpoch(const LocalBlock& local) {
  return Memory::LoadAcquireGpu(&local.epoch) + 1;
}

// The order of arrival among the threads (blocks) of one operator: suppliers take the low tickets (P9).
template <class Memory>
TC_HOST_DEVICE uint32_t TakeTicket(LocalBlock& local) {
  return Memory::AddRelaxedGpu(&local.tickets, uint32_t{1});
}

// The next tile that nobody has claimed.
template <class Memory>
TC_HOST_DEVICE uint32_t ClaimTile(LocalBlock& local) {
  return Memory::AddRelaxedGpu(&local.tiles, uint32_t{1});
}

// What the first block found when it met the peers, for the other blocks of its grid: 0 to go on, else why not (< 4).
template <class Memory>
TC_HOST_DEVICE void PostVerdict(LocalBlock& local, Sequence epoch, uint32_t verdict) {
  Memory::StoreReleaseGpu(&local.verdict, epoch * 4 + verdict);
}

// Whether it is known; if so all that the first block saw may be read.
template <class Memory>
TC_HOST_DEVICE bool ReadVerdict(const LocalBlock& local, Sequence epoch, uint32_t* verdict) {
  const Sequence posted = Memory::LoadAcquireGpu(&local.verdict);
  *verdict = static_cast<uint32_t>(posted % 4);
  return posted / 4 == epoch;
}

// Called once by each of `threads` threads (blocks) as the last thing they do. The last one zeroes the counters and the
// first `gates` gates, and only then advances the epoch. True for that last one.
template <class Memory>
TC_HOST_DEVICE bool LeaveEpoch(LocalBlock& local, Sequence epoch, uint32_t threads, uint64_t gates) {
  if (Memory::AddAcqRelGpu(&local.finished, uint32_t{1}) + 1 != threads) return false;
  for (uint64_t gate = 0; gate < gates; ++gate) Memory::StoreRelaxed(&local.gate[gate], uint32_t{0});
  Memory::StoreRelaxed(&local.tickets, uint32_t{0});
  Memory::StoreRelaxed(&local.tiles, uint32_t{0});
  Memory::StoreRelaxed(&local.moves, uint32_t{0});
  Memory::StoreRelaxed(&local.finished, uint32_t{0});
  Memory::StoreReleaseSys(&local.epoch, epoch);
  return true;
}

}  // namespace tc
