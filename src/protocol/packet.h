// Packets for small messages: 4 bytes of data and a 4-byte tag of the epoch in one 8-byte store, so that the data is
// its own signal and needs no fence (P15).
//
// A writer's packets lie in a row of the reader's ControlBlock, which holds nothing but packets ever: other bytes there
// could look like a tag. Epochs use the row's two halves in turn.
#pragma once

#include <cstddef>

#include "protocol/layout.h"

namespace tc {

// Tags run over 1 ... 2^32 - 1; 0 is the tag of memory that nobody has written yet.
inline constexpr Sequence kPacketTags = 0xffffffff;
// A packet left behind would be taken for a new one after 2 * kPacketTags epochs; places are scrubbed far more often.
inline constexpr Sequence kScrubPeriod = Sequence{1} << 30;

TC_HOST_DEVICE constexpr uint32_t PacketTag(Sequence epoch) { return static_cast<uint32_t>(epoch % kPacketTags) + 1; }

TC_HOST_DEVICE constexpr uint64_t MakePacket(Sequence epoch, uint32_t data) {
  return uint64_t{PacketTag(epoch)} << 32 | data;
}

// Whether it is one of `epoch`; if so its data.
TC_HOST_DEVICE constexpr bool IsPacketOf(uint64_t packet, Sequence epoch) { return packet >> 32 == PacketTag(epoch); }
TC_HOST_DEVICE constexpr uint32_t PacketData(uint64_t packet) { return static_cast<uint32_t>(packet); }

// The last epoch up to `epoch` that a packet can be of; 0: it is none. For messages.
TC_HOST_DEVICE constexpr Sequence PacketEpoch(uint64_t packet, Sequence epoch) {
  const Sequence tag = packet >> 32;
  const Sequence back = (PacketTag(epoch) + kPacketTags - tag) % kPacketTags;
  return tag == 0 || back > epoch ? 0 : epoch - back;
}

// Where `writer` puts its packets of an epoch on `reader`, once the reader has entered the epoch before (P8).
TC_HOST_DEVICE inline uint64_t* PacketHalf(const RankView& view, int reader, int writer, Sequence epoch) {
  return view.control[reader]->packets[writer].half[epoch % 2];
}

template <class Memory>
TC_HOST_DEVICE void SendPacket(uint64_t* place, Sequence epoch, uint32_t data) {
  Memory::StoreRelaxed(place, MakePacket(epoch, data));
}

// What lies in `place`, in this rank's own memory. If it is a packet of the epoch that is looked for, its data has come
// with it: the place must not be read again.
template <class Memory>
TC_HOST_DEVICE uint64_t LookAtPacket(const uint64_t* place) {
  return Memory::LoadRelaxed(place);
}

// Whether every operator, of whatever kind, must scrub before it publishes its entry: in two epochs of a period, one
// for each half.
TC_HOST_DEVICE constexpr bool ScrubIsDue(Sequence epoch) { return epoch % kScrubPeriod < 2; }

// Empties this rank's halves of epoch - 1, whose packets have all been taken, up to place `packets` of each. Nobody
// writes there again before this rank has entered `epoch`: all `lanes` threads call it, and meet, before one of them
// calls PublishEntry.
template <class Memory>
TC_HOST_DEVICE void ScrubPackets(const RankView& view, Sequence epoch, int packets = kMostPackets, int lane = 0,
                                 int lanes = 1) {
  for (int writer = 0; writer < view.n_ranks; ++writer) {
    uint64_t* const half = PacketHalf(view, view.rank, writer, epoch - 1);
    for (int i = lane; i < packets; i += lanes) Memory::StoreRelaxed(&half[i], uint64_t{0});
  }
}

}  // namespace tc
