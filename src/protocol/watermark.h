// Chunk watermarks: a producer says, chunk by chunk, how far its data has come (P11).
#pragma once

#include "protocol/layout.h"
#include "protocol/slot.h"

namespace tc {

// Tells `consumer` that chunk `chunk` of this rank's data for `epoch` lies in its memory.
template <class Memory>
TC_HOST_DEVICE void RaiseWatermark(const RankView& view, int consumer, int chunk, Sequence epoch) {
  Signal<Memory>(&view.control[consumer]->watermark[view.rank].chunk[chunk], epoch);
}

// Whether chunk `chunk` of `producer`'s data for `epoch` has come.
template <class Memory>
TC_HOST_DEVICE bool HasArrived(const RankView& view, int producer, int chunk, Sequence epoch) {
  return Reached<Memory>(&view.own().watermark[producer].chunk[chunk], epoch);
}

}  // namespace tc
