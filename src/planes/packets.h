// Packets: small data goes into the consumer's packet area, 4 bytes with each tag, so nothing else is told and nothing
// is staged. The push plane's exchanges that order/exchange.h finds small enough go so, in units: a slice of every
// pair's data each.
#pragma once

#include "order/exchange.h"
#include "protocol/packet.h"

namespace tc {

// 1 ... 4 bytes that lie anywhere, the first one lowest.
TC_HOST_DEVICE inline uint32_t LoadBytes(const std::byte* from, uint32_t bytes) {
  uint32_t word = 0;
  for (uint32_t i = 0; i < bytes; ++i) word |= static_cast<uint32_t>(from[i]) << (8 * i);
  return word;
}
TC_HOST_DEVICE inline void StoreBytes(std::byte* to, uint32_t word, uint32_t bytes) {
  for (uint32_t i = 0; i < bytes; ++i) to[i] = static_cast<std::byte>(word >> (8 * i));
}

// Where packets lie. Tests make mistakes here.
struct PacketPlaces {
  static TC_HOST_DEVICE uint64_t* Half(const RankView& view, int reader, int writer, Sequence epoch) {
    return PacketHalf(view, reader, writer, epoch);
  }
};

// One epoch's data as the threads of a Block move it: see planes/exchange.h. Each thread polls the packets that it
// takes, which come with their data, so none waits for what another has seen. Of what planes/exchange.h lists, the
// block provides lane, lanes, Sync, All, Pause, Copy and Reduce, and besides
//
//   LoadWord(from, bytes), StoreWord(to, word, bytes)   as LoadBytes and StoreBytes do
//   AwaitPacket(producer, packet, place)                in one thread: the packet; 0: the communicator has ended
//   Arrivals()                                          UnitBytes of its own memory, where the exchange reduces
template <class Block, class Places = PacketPlaces>
class PacketPlane {
 public:
  using Memory = typename Block::Memory;

  TC_HOST_DEVICE PacketPlane(const Block& block, const RankView& view, const Exchange& exchange, Sequence epoch)
      : block_(block), view_(view), exchange_(exchange), epoch_(epoch) {}

  // A unit's slice of a pair's `bytes`.
  TC_HOST_DEVICE RowRange SliceOf(uint64_t bytes, uint32_t unit) const {
    const uint64_t begin = unit * UnitBytesOfPair();
    const uint64_t end = begin + UnitBytesOfPair();
    return {begin < bytes ? begin : bytes, end < bytes ? end : bytes};
  }

  // A unit to all peers, as packets.
  TC_HOST_DEVICE void Send(uint32_t unit) const {
    const Layout layout = LayoutOf(unit);
    for (uint32_t at = block_.lane(); at < layout.places; at += kTogether * block_.lanes()) {
      Piece piece[kTogether];
      uint32_t word[kTogether] = {};
      for (uint32_t i = 0; i < kTogether; ++i) {
        piece[i] = Outgoing(layout, at + i * block_.lanes());
        if (piece[i].bytes == 0) continue;
        const std::byte* const send = exchange_.pair[piece[i].peer].send;
        word[i] = block_.LoadWord(send + piece[i].packet * kPacketBytes, piece[i].bytes);
      }
      for (uint32_t i = 0; i < kTogether; ++i) {
        if (piece[i].bytes == 0) continue;
        SendPacket<Memory>(Places::Half(view_, piece[i].peer, view_.rank, epoch_) + piece[i].packet, epoch_, word[i]);
      }
    }
  }

  // All peers' packets of a unit, to where their data belongs or where it is reduced from. False in a thread that has
  // seen the communicator end.
  TC_HOST_DEVICE bool Take(uint32_t unit) const {
    const Layout layout = LayoutOf(unit);
    for (uint32_t at = block_.lane(); at < layout.places; at += kTogether * block_.lanes()) {
      Piece piece[kTogether];
      const uint64_t* place[kTogether];
      uint64_t packet[kTogether] = {};
      for (uint32_t i = 0; i < kTogether; ++i) {
        piece[i] = Incoming(layout, at + i * block_.lanes());
        place[i] = Places::Half(view_, view_.rank, piece[i].peer, epoch_) + piece[i].packet;
      }
      // All of them are looked for at a time; what has been seen is not looked for again.
      bool missing = true;
      for (unsigned polls = 0; missing && polls < Memory::kHotPolls; ++polls) {
        missing = false;
        for (uint32_t i = 0; i < kTogether; ++i) {
          if (piece[i].bytes > 0 && !IsPacketOf(packet[i], epoch_)) packet[i] = LookAtPacket<Memory>(place[i]);
        }
        for (uint32_t i = 0; i < kTogether; ++i) {
          missing = missing || (piece[i].bytes > 0 && !IsPacketOf(packet[i], epoch_));
        }
      }
      for (uint32_t i = 0; i < kTogether; ++i) {
        if (piece[i].bytes == 0) continue;
        if (!IsPacketOf(packet[i], epoch_)) packet[i] = block_.AwaitPacket(piece[i].peer, piece[i].packet, place[i]);
        if (packet[i] == 0) return false;
        block_.StoreWord(PlaceOf(unit, piece[i]), PacketData(packet[i]), piece[i].bytes);
      }
    }
    return true;
  }

  // Where a unit's data of a producer's lies once all threads have taken it.
  TC_HOST_DEVICE const std::byte* Arrived(int producer) const {
    return block_.Arrivals() + producer * UnitBytesOfPair();
  }

 private:
  static constexpr uint32_t kTogether = 2;  // packets of a thread under way at a time

  struct Piece {
    int peer;
    uint32_t packet;  // of all that the pair has
    uint32_t bytes;   // 0: there is none
  };
  // A unit's packets, numbered: the first peer's, the next peer's, ... A pair may have fewer than there are numbers.
  struct Layout {
    uint32_t first;       // packet of each pair
    unsigned peer_shift;  // 2^peer_shift numbers for each
    uint32_t places;
  };

  TC_HOST_DEVICE uint64_t UnitBytesOfPair() const { return exchange_.unit_packets * kPacketBytes; }

  TC_HOST_DEVICE Layout LayoutOf(uint32_t unit) const {
    const uint32_t first = unit * exchange_.unit_packets;
    const uint32_t left = exchange_.packets - first;
    const uint32_t most = left < exchange_.unit_packets ? left : exchange_.unit_packets;
    unsigned peer_shift = 0;
    while ((uint32_t{1} << peer_shift) < most) ++peer_shift;
    return {first, peer_shift, static_cast<uint32_t>(view_.n_ranks - 1) << peer_shift};
  }

  TC_HOST_DEVICE Piece Outgoing(const Layout& layout, uint32_t at) const {
    const int peer = PushDestination(view_.rank, StepAt(layout, at), view_.n_ranks);
    return PieceAt(layout, at, peer, exchange_.pair[peer].to.bytes);
  }
  TC_HOST_DEVICE Piece Incoming(const Layout& layout, uint32_t at) const {
    const int peer = ArrivalSource(view_.rank, StepAt(layout, at), view_.n_ranks);
    return PieceAt(layout, at, peer, exchange_.pair[peer].from.bytes);
  }
  TC_HOST_DEVICE int StepAt(const Layout& layout, uint32_t at) const {
    return at < layout.places ? static_cast<int>(at >> layout.peer_shift) : 0;
  }
  TC_HOST_DEVICE Piece PieceAt(const Layout& layout, uint32_t at, int peer, uint64_t pair_bytes) const {
    const uint32_t in_unit = at & ((uint32_t{1} << layout.peer_shift) - 1);
    const uint32_t packet = layout.first + in_unit;
    const uint64_t begin = packet * kPacketBytes;
    if (at >= layout.places || in_unit >= exchange_.unit_packets || begin >= pair_bytes) return {peer, packet, 0};
    const uint64_t left = pair_bytes - begin;
    return {peer, packet, static_cast<uint32_t>(left < kPacketBytes ? left : kPacketBytes)};
  }

  TC_HOST_DEVICE std::byte* PlaceOf(uint32_t unit, const Piece& piece) const {
    const uint64_t at = piece.packet * kPacketBytes;
    if (!exchange_.reduces) return exchange_.pair[piece.peer].recv + at;
    return block_.Arrivals() + piece.peer * UnitBytesOfPair() + (at - unit * UnitBytesOfPair());
  }

  const Block& block_;
  const RankView& view_;
  const Exchange& exchange_;
  const Sequence epoch_;
};

}  // namespace tc
