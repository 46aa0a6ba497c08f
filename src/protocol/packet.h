// Packets for small messages: 4 bytes of data and a 4-byte tag of the epoch in one 8-byte store, so that the data is
// its own signal and needs no fence (P15).
#pragma once

#include <cstddef>

#include "protocol/memory.h"

namespace tc {

// Tags run over 1 ... 2^32 - 1; 0 is the tag of memory that nobody has written yet.
inline constexpr Sequence kPacketTags = 0xffffffff;
// A packet left behind would be taken for a new one after 2 * kPacketTags epochs; places are scrubbed far more often.
inline constexpr Sequence kScrubPeriod = Sequence{1} << 30;

TC_HOST_DEVICE constexpr uint32_t PacketTag(Sequence epoch) { return static_cast<uint32_t>(epoch % kPacketTags) + 1; }

TC_HOST_DEVICE constexpr uint64_t MakePacket(Sequence epoch, uint32_t data) {
  return uint64_t{PacketTag(epoch)} << 32 | data;
}

// Packets of an epoch lie in one of two halves of `half` packets in turn. The half of epoch e may be written once its
// owner has entered e - 1 (P8).
TC_HOST_DEVICE inline uint64_t* PacketHalf(uint64_t* staging, Sequence epoch, size_t half) {
  return staging + (epoch % 2) * half;
}

template <class Memory>
TC_HOST_DEVICE void SendPacket(uint64_t* place, Sequence epoch, uint32_t data) {
  Memory::StoreRelaxed(place, MakePacket(epoch, data));
}

// Whether the packet of `epoch` lies in `place`, in this rank's own memory; if so, its data.
template <class Memory>
TC_HOST_DEVICE bool TakePacket(const uint64_t* place, Sequence epoch, uint32_t* data) {
  const uint64_t packet = Memory::LoadRelaxed(place);
  if (packet >> 32 != PacketTag(epoch)) return false;
  *data = static_cast<uint32_t>(packet);
  return true;
}

// Whether every operator, of whatever kind, must scrub before it publishes its entry: in two epochs of a period, one
// for each half.
TC_HOST_DEVICE constexpr bool ScrubIsDue(Sequence epoch) { return epoch % kScrubPeriod < 2; }

// Empties this rank's half of epoch - 1, whose packets have all been taken. Nobody writes to it again before this rank
// has entered `epoch`: call it before PublishEntry.
template <class Memory>
TC_HOST_DEVICE void ScrubPackets(uint64_t* staging, Sequence epoch, size_t half) {
  uint64_t* const packets = PacketHalf(staging, epoch - 1, half);
  for (size_t i = 0; i < half; ++i) Memory::StoreRelaxed(&packets[i], uint64_t{0});
}

}  // namespace tc
