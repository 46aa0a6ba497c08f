// Row-block gates: a consumer of 128 rows waits until all of them have come, whoever brings them (P11).
#pragma once

#include "protocol/layout.h"

namespace tc {

inline constexpr uint32_t kGateRows = 128;

// Adds the part of rows [begin, end) that falls into each gate. The rows of the padding behind the last real row are
// added like any other, so that a gate is open at exactly kGateRows and its waiter needs to know no shape.
template <class Memory>
TC_HOST_DEVICE void OpenGates(LocalBlock& local, uint64_t begin, uint64_t end) {
  while (begin < end) {
    const uint64_t block = begin / kGateRows;
    const uint64_t stop = (block + 1) * kGateRows < end ? (block + 1) * kGateRows : end;
    Memory::AddReleaseGpu(&local.gate[block], static_cast<uint32_t>(stop - begin));
    begin = stop;
  }
}

// Whether all rows of the block have come; if so they may be read.
template <class Memory>
TC_HOST_DEVICE bool GateIsOpen(const LocalBlock& local, uint64_t block) {
  return Memory::LoadAcquireGpu(&local.gate[block]) == kGateRows;
}

}  // namespace tc
