// Entry slots: every operator of every kind first tells every peer that it has entered, and with what (P8).
#pragma once

#include "protocol/layout.h"
#include "protocol/slot.h"

namespace tc {

// The record that `writer` has published, or will, on rank `reader` for `epoch`.
TC_HOST_DEVICE inline EntryRecord& EntryOf(const RankView& view, int reader, int writer, Sequence epoch) {
  return view.control[reader]->from.entry[writer].record[epoch % 2];
}

// Tells `peer` that this rank has entered `epoch` with `record` (whose own epoch field is not read).
template <class Memory>
TC_HOST_DEVICE void PublishEntry(const RankView& view, int peer, Sequence epoch, const EntryRecord& record) {
  EntryRecord& slot = EntryOf(view, peer, view.rank, epoch);
  WriteData<Memory>(&slot.shape, record.shape);
  WriteData<Memory>(&slot.destination, record.destination);
  WriteData<Memory>(&slot.rejected, record.rejected);
  for (size_t i = 0; record.rejected != tcSuccess && i < sizeof(slot.sentence); ++i) {
    WriteData<Memory>(&slot.sentence[i], record.sentence[i]);
  }
  Signal<Memory>(&slot.epoch, epoch);
}

// Whether `peer` has entered `epoch`; if so its record for that epoch may be read, until this rank's next epoch.
template <class Memory>
TC_HOST_DEVICE bool HasEntered(const RankView& view, int peer, Sequence epoch) {
  return Reached<Memory>(&EntryOf(view, view.rank, peer, epoch).epoch, epoch);
}

}  // namespace tc
