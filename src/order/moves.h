// The order in which the blocks of a kernel claim a rank's data movement, piece by piece.
#pragma once

#include "order/chunks.h"
#include "protocol/memory.h"

namespace tc {

enum class MoveKind {
  kPush,     // a chunk of this rank's to `peer`
  kKeepOwn,  // a chunk of this rank's to where the caller wants it gathered
  kArrival,  // a chunk of `peer`'s, which is waited for
  kNone,     // nothing is left
};

struct Move {
  MoveKind kind;
  int peer;
  int chunk;
};

// What a rank moves in an epoch, besides its pushes.
struct Movement {
  int rank;
  int n_ranks;
  bool keeps_own;
  bool takes_arrivals;
};

// Every rank sends equally many chunks to each of its peers.
struct EqualChunks {
  int count;
  TC_HOST_DEVICE constexpr int chunks(int /*producer*/) const { return count; }
};

// The piece that is claimed as number `index`; sent.chunks(rank) are the chunks that a rank sends to each of its peers.
// Whatever waits comes last: when a block waits, every push has been claimed by a block that is resident (P9).
template <class Sent>
TC_HOST_DEVICE constexpr Move MoveAt(const Movement& movement, int index, const Sent& sent) {
  const auto [rank, n_ranks, keeps_own, takes_arrivals] = movement;
  const int own = sent.chunks(rank);
  const int pushes = own * (n_ranks - 1);
  if (index < pushes) return {MoveKind::kPush, PushDestination(rank, index / own, n_ranks), index % own};
  index -= pushes;
  if (keeps_own) {
    if (index < own) return {MoveKind::kKeepOwn, rank, index};
    index -= own;
  }
  for (int step = 0; takes_arrivals && step + 1 < n_ranks; ++step) {
    const int producer = ArrivalSource(rank, step, n_ranks);
    const int chunks = sent.chunks(producer);
    if (index < chunks) return {MoveKind::kArrival, producer, index};
    index -= chunks;
  }
  return {MoveKind::kNone, rank, 0};
}

}  // namespace tc
