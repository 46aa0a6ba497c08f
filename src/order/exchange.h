// One epoch in which every pair of ranks moves bytes of its own, as one rank sees it: plain data, made by pure
// functions from an operator's problem and the plane on which it runs.
//
// On the push plane bytes are staged in the consumer's workspace, unless its entry names a buffer of its own where they
// belong. On the pull plane they are staged in the producer's workspace, unless its entry names a buffer of its own
// where they lie. On the copy-engine plane they are always staged in the producer's.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/data_type.h"
#include "order/problem.h"
#include "order/signals.h"

namespace tc {

// What a rank moves to and from one peer. Of the rank itself: what it keeps, or, in a reduction, its own partial as
// `send`, and as `recv` and `from` what it reduces.
struct ExchangePair {
  const std::byte* send = nullptr;
  std::byte* recv = nullptr;
  PairChunks to = {};
  PairChunks from = {};
  uint64_t staged_to = 0;  // where these bytes start in the workspace that the plane stages them in
  uint64_t staged_from = 0;
  uint64_t direct =
      0;  // the same in the buffer that the peer's entry names: push: of what goes there; pull: comes from
  const std::byte* fetched =
      nullptr;  // where in this rank's memory a copy engine brings these bytes; NULL: it does not
};

struct Exchange {
  ExchangePair pair[kMaxRanks] = {};
  uint64_t first = 0;     // bytes of each pair's data that earlier epochs have moved: for messages
  bool shared = false;    // every peer gets the same bytes
  bool reduces = false;   // what comes is reduced in the order of the ranks, else it goes to where it belongs
  bool in_units = false;  // each chunk is shared, awaited and reduced as one piece
  int rounds = 1;         // of the pair that needs most
  // By packets (planes/packets.h): those of the pair that has most, and of a pair in a unit. 0: not by packets.
  uint32_t packets = 0;
  uint32_t unit_packets = 0;
  tcDataType_t type = tcInt8;
  tcRedOp_t op = tcSum;
};

// Every staged block starts on 16 bytes, so that it can be moved in 16-byte words.
constexpr uint64_t StagedBytes(uint64_t bytes) { return (bytes + 15) / 16 * 16; }

// Whether the producer stores into the consumer's memory, else the consumer loads from the producer's.
constexpr bool Pushes(tcPlane_t plane) { return plane != tcPlanePull && plane != tcPlaneCopyEngine; }

// What earlier slabs have moved of a rank's shard.
inline uint64_t SkippedUnits(const Shards& shards, const Slab& slab, int rank) {
  return slab.first[rank] - shards.begin[rank];
}

// One slab, in bytes, of a gather.
inline Exchange GatherExchange(const AllGatherVProblem& problem, const Slab& slab, int rank, tcPlane_t plane) {
  const bool push = Pushes(plane);
  Exchange exchange{.shared = true};
  const std::byte* const send = static_cast<const std::byte*>(problem.send) + SkippedUnits(problem.blocks, slab, rank);
  const auto place = [&](int owner) {
    return static_cast<std::byte*>(problem.recv) + problem.place[owner] + SkippedUnits(problem.blocks, slab, owner);
  };
  const PairChunks own = DeviceChunks(slab.packed.rows(rank), plane);
  uint64_t staged[kMaxRanks + 1] = {};
  for (int peer = 0; peer < slab.packed.n_ranks; ++peer) {
    staged[peer + 1] = staged[peer] + StagedBytes(slab.packed.rows(peer));
  }
  for (int peer = 0; peer < slab.packed.n_ranks; ++peer) {
    const uint64_t skipped = SkippedUnits(problem.blocks, slab, peer);
    exchange.pair[peer] = {.send = send,
                           .recv = place(peer),
                           .to = own,
                           .from = DeviceChunks(slab.packed.rows(peer), plane),
                           .staged_to = push ? staged[rank] : 0,
                           .staged_from = push ? staged[peer] : 0,
                           .direct = push ? slab.first[rank] : skipped};
    exchange.first = std::max(exchange.first, skipped);
  }
  if (place(rank) == send) exchange.pair[rank].to = {};  // in place
  return exchange;
}

// One slab, in elements, of a reduce-scatter.
inline Exchange ScatterExchange(const ReduceScatterProblem& problem, const Slab& slab, int rank, tcPlane_t plane) {
  const bool push = Pushes(plane);
  const size_t element = ElementBytes(problem.type);
  Exchange exchange{.reduces = true, .type = problem.type, .op = problem.op};
  const auto* const send = static_cast<const std::byte*>(problem.send);
  const uint64_t own = slab.packed.rows(rank) * element;
  exchange.first = SkippedUnits(problem.blocks, slab, rank) * element;
  uint64_t before = 0;  // staged bytes of the blocks before a peer's
  uint64_t before_own = 0;
  for (int peer = 0; peer < rank; ++peer) before_own += StagedBytes(slab.packed.rows(peer) * element);
  for (int peer = 0; peer < slab.packed.n_ranks; ++peer) {
    const uint64_t bytes = slab.packed.rows(peer) * element;
    exchange.pair[peer] = {.send = send + slab.first[peer] * element,
                           .to = DeviceChunks(bytes, plane),
                           .from = DeviceChunks(own, plane),
                           .staged_to = push ? rank * StagedBytes(bytes) : before,
                           .staged_from = push ? peer * StagedBytes(own) : before_own,
                           .direct = slab.first[rank] * element};
    before += StagedBytes(bytes);
  }
  exchange.pair[rank].recv = static_cast<std::byte*>(problem.recv) + exchange.first;
  exchange.pair[rank].to = {};
  return exchange;
}

// An all-reduce in one shot: everybody's data goes to everybody. Where recv is send, a chunk must have gone to all
// before it is reduced, so both are one piece.
inline Exchange OneShotExchange(const AllReduceProblem& problem, int rank, int n_ranks, tcPlane_t plane) {
  const bool push = Pushes(plane);
  const uint64_t bytes = problem.count * ElementBytes(problem.type);
  Exchange exchange{.shared = true, .reduces = true, .in_units = true, .type = problem.type, .op = problem.op};
  for (int peer = 0; peer < n_ranks; ++peer) {
    exchange.pair[peer] = {.send = static_cast<const std::byte*>(problem.send),
                           .to = DeviceChunks(bytes, plane),
                           .from = DeviceChunks(bytes, plane),
                           .staged_to = push ? rank * StagedBytes(bytes) : 0,
                           .staged_from = push ? peer * StagedBytes(bytes) : 0};
  }
  exchange.pair[rank].recv = static_cast<std::byte*>(problem.recv);
  exchange.pair[rank].to = {};
  return exchange;
}

// All of every pair's block of an uneven all-to-all, through `staging_bytes` for each pair: blocks that are larger go
// in rounds. (What is larger than MostInRounds is refused before it moves.)
inline Exchange UnevenExchange(const AllToAllProblem& problem, uint64_t staging_bytes, int rank, int n_ranks,
                               tcPlane_t plane) {
  const bool push = Pushes(plane);
  Exchange exchange;
  const auto chunks = [&](uint64_t bytes) {
    if (bytes <= staging_bytes) return DeviceChunks(bytes, plane);
    return bytes <= MostInRounds(staging_bytes, plane) ? ChunksInRounds(bytes, staging_bytes, plane) : PairChunks{};
  };
  for (int peer = 0; peer < n_ranks; ++peer) {
    ExchangePair& pair = exchange.pair[peer];
    pair = {.send = static_cast<const std::byte*>(problem.send) + problem.send_place[peer],
            .recv = static_cast<std::byte*>(problem.recv) + problem.blocks.place[peer],
            .to = chunks(problem.blocks.sends[peer]),
            .from = chunks(problem.blocks.expects[peer]),
            .staged_to = (push ? rank : peer) * staging_bytes,
            .staged_from = (push ? peer : rank) * staging_bytes};
    if (peer == rank) pair.to = DeviceChunks(problem.blocks.sends[peer], plane);  // it needs no staging
    if (peer != rank) exchange.rounds = std::max({exchange.rounds, pair.to.rounds(), pair.from.rounds()});
  }
  return exchange;
}

// Bytes [skipped, skipped + slab_bytes) of every pair's block of an all-to-all. With peers, slab_bytes is a multiple of
// 16.
inline Exchange AllToAllExchange(const AllToAllProblem& problem, uint64_t skipped, uint64_t slab_bytes, int rank,
                                 int n_ranks, tcPlane_t plane) {
  const bool push = Pushes(plane);
  Exchange exchange{.first = skipped};
  const auto left = [&](uint64_t block) {
    const uint64_t rest = block - std::min(block, skipped);
    return DeviceChunks(std::min(slab_bytes, rest), plane);
  };
  for (int peer = 0; peer < n_ranks; ++peer) {
    exchange.pair[peer] = {.send = static_cast<const std::byte*>(problem.send) + problem.send_place[peer] + skipped,
                           .recv = static_cast<std::byte*>(problem.recv) + problem.blocks.place[peer] + skipped,
                           .to = left(problem.blocks.sends[peer]),
                           .from = left(problem.blocks.expects[peer]),
                           .staged_to = (push ? rank : peer) * slab_bytes,
                           .staged_from = (push ? peer : rank) * slab_bytes,
                           // Alike on all ranks where entries name buffers.
                           .direct = (push ? problem.blocks.place[rank] : problem.send_place[rank]) + skipped};
  }
  return exchange;
}

inline constexpr uint64_t kPacketBytes = 4;                              // of data
inline constexpr uint64_t kMostByPackets = kMostPackets * kPacketBytes;  // of a pair

// Of a pair in a unit, which a block moves at a time: two or three for each of its threads, but of many peers more, so
// that there are no more units than usually blocks.
constexpr uint32_t UnitPackets(int n_ranks) {
  uint32_t packets = 512;
  while (packets > kMostPackets / kMostGatherBlocks && packets * static_cast<uint32_t>(n_ranks - 1) > 768) packets /= 2;
  return packets;
}
TC_HOST_DEVICE constexpr uint32_t UnitCount(const Exchange& exchange) {
  return (exchange.packets + exchange.unit_packets - 1) / exchange.unit_packets;
}
// What a unit brings to a rank, where it is kept until it is reduced.
constexpr size_t UnitBytes(int n_ranks) { return n_ranks * UnitPackets(n_ranks) * kPacketBytes; }

// Lets an exchange of the push plane go by packets, if no pair of any ranks moves more than they may. All ranks must
// know all pairs' bytes, as in every collective but tcAllToAllV: they find the same.
inline void GoByPackets(Exchange* exchange, int n_ranks) {
  uint64_t most = 0;
  for (int peer = 0; peer < n_ranks; ++peer) {
    most = std::max({most, exchange->pair[peer].to.bytes, exchange->pair[peer].from.bytes});
  }
  if (n_ranks == 1 || most > kMostByPackets) return;
  exchange->packets = static_cast<uint32_t>((most + kPacketBytes - 1) / kPacketBytes);
  exchange->unit_packets = UnitPackets(n_ranks);
}

}  // namespace tc
