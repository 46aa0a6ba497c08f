// Entry slots: every operator of every kind first tells every peer that it has entered, and with what (P8).
#pragma once

#include "protocol/layout.h"
#include "protocol/slot.h"

namespace tc {

// The record that `writer` has published, or will, on rank `reader` for `epoch`.
TC_HOST_DEVICE inline EntryRecord& EntryOf(const RankView& view, int reader, int writer, Sequence epoch) {
  return view.control[reader]->entry[writer].record[epoch % 2];
}

// A slot holds twice the epoch, plus one where no record goes with it: a barrier says all there is to say by entering,
// and its release need not wait until a record has reached the peer.
TC_HOST_DEVICE inline OperatorShape BareShape() { return {.op = tcOpBarrier}; }

TC_HOST_DEVICE constexpr Sequence EntryWord(Sequence epoch, bool bare) { return epoch * 2 + (bare ? 1 : 0); }

// Tells `peer` that this rank has entered `epoch` with `record` (whose own word is not read).
template <class Memory>
TC_HOST_DEVICE void PublishEntry(const RankView& view, int peer, Sequence epoch, const EntryRecord& record) {
  EntryRecord& slot = EntryOf(view, peer, view.rank, epoch);
  const bool bare = record.rejected == tcSuccess && SameShape(record.shape, BareShape());
  if (!bare) {
    WriteData<Memory>(&slot.shape, record.shape);
    WriteData<Memory>(&slot.destination, record.destination);
    WriteData<Memory>(&slot.rejected, record.rejected);
    for (size_t i = 0; record.rejected != tcSuccess && i < sizeof(slot.sentence); ++i) {
      WriteData<Memory>(&slot.sentence[i], record.sentence[i]);
    }
    if (record.rejected == tcSuccess && record.shape.op == tcOpAllToAllV) {
      WriteData<Memory>(&slot.blocks, record.blocks);
    }
  }
  Signal<Memory>(&slot.entered, EntryWord(epoch, bare));
}

// An entry that is known to be bare without looking: a barrier's.
struct BareEntry {
  OperatorShape shape = BareShape();
  int32_t rejected = tcSuccess;
};
template <class Memory>
TC_HOST_DEVICE void PublishEntry(const RankView& view, int peer, Sequence epoch, const BareEntry&) {
  Signal<Memory>(&EntryOf(view, peer, view.rank, epoch).entered, EntryWord(epoch, true));
}

// Whether `peer` has entered `epoch`; if so what it entered with may be read, until this rank's next epoch.
template <class Memory>
TC_HOST_DEVICE bool HasEntered(const RankView& view, int peer, Sequence epoch) {
  return Reached<Memory>(&EntryOf(view, view.rank, peer, epoch).entered, EntryWord(epoch, false));
}
// The same, and says whether no record goes with it.
template <class Memory>
TC_HOST_DEVICE bool HasEntered(const RankView& view, int peer, Sequence epoch, bool* bare) {
  const Sequence word = Memory::LoadAcquireSys(&EntryOf(view, view.rank, peer, epoch).entered);
  *bare = word == EntryWord(epoch, true);
  return word >= EntryWord(epoch, false);
}

// The last epoch of this one's parity that `peer` has entered, as far as this rank sees: for messages.
template <class Memory>
TC_HOST_DEVICE Sequence EpochEntered(const RankView& view, int peer, Sequence epoch) {
  return Memory::LoadRelaxed(&EntryOf(view, view.rank, peer, epoch).entered) / 2;
}

// What `peer` entered with, once HasEntered.
struct EntryHead {
  OperatorShape shape;
  int32_t rejected;
};
template <class Memory>
TC_HOST_DEVICE EntryHead ReadEntry(const RankView& view, int peer, Sequence epoch) {
  const EntryRecord& record = EntryOf(view, view.rank, peer, epoch);
  if (Memory::LoadRelaxed(&record.entered) == EntryWord(epoch, true)) return {BareShape(), tcSuccess};
  return {ReadData<Memory>(&record.shape), ReadData<Memory>(&record.rejected)};
}

}  // namespace tc
