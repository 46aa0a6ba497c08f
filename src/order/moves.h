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

// The two directions of a rank's link. What goes out waits for nobody; what comes in is waited for.
enum class Direction { kOut, kIn };

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

// Piece number `index` of what goes out: pushes, then own chunks. sent.chunks(rank) are the chunks that a rank sends to
// each of its peers.
template <class Sent>
TC_HOST_DEVICE constexpr Move OutwardAt(const Movement& movement, int index, const Sent& sent) {
  const auto [rank, n_ranks, keeps_own, takes_arrivals] = movement;
  const int own = sent.chunks(rank);
  const int pushes = own * (n_ranks - 1);
  if (index < pushes) return {MoveKind::kPush, PushDestination(rank, index / own, n_ranks), index % own};
  index -= pushes;
  if (keeps_own && index < own) return {MoveKind::kKeepOwn, rank, index};
  return {MoveKind::kNone, rank, 0};
}

// The same of what comes in.
template <class Sent>
TC_HOST_DEVICE constexpr Move InwardAt(const Movement& movement, int index, const Sent& sent) {
  const auto [rank, n_ranks, keeps_own, takes_arrivals] = movement;
  for (int step = 0; takes_arrivals && step + 1 < n_ranks; ++step) {
    const int producer = ArrivalSource(rank, step, n_ranks);
    const int chunks = sent.chunks(producer);
    if (index < chunks) return {MoveKind::kArrival, producer, index};
    index -= chunks;
  }
  return {MoveKind::kNone, rank, 0};
}

// The piece that is claimed as number `index` where one counter counts all of them. Whatever waits comes last: when a
// block waits, every push has been claimed by a block that is resident (P9).
template <class Sent>
TC_HOST_DEVICE constexpr Move MoveAt(const Movement& movement, int index, const Sent& sent) {
  const int outward = sent.chunks(movement.rank) * (movement.n_ranks - 1 + (movement.keeps_own ? 1 : 0));
  return index < outward ? OutwardAt(movement, index, sent) : InwardAt(movement, index - outward, sent);
}

// The direction in which the block with this ticket claims first, and then the other, where each has a counter of its
// own, so that both are busy at once. The lowest ticket, which is always resident, claims every push that nobody else
// does before it waits (P9).
TC_HOST_DEVICE constexpr Direction FirstDirection(uint32_t ticket) {
  return ticket % 2 == 0 ? Direction::kOut : Direction::kIn;
}

// The next piece of a block with this ticket; claim(direction) is the next number of that direction's counter.
template <class Sent, class Claim>
TC_HOST_DEVICE constexpr Move NextBothWays(const Movement& movement, uint32_t ticket, const Sent& sent,
                                           const Claim& claim) {
  const bool out_first = FirstDirection(ticket) == Direction::kOut;
  const Move first =
      out_first ? OutwardAt(movement, claim(Direction::kOut), sent) : InwardAt(movement, claim(Direction::kIn), sent);
  if (first.kind != MoveKind::kNone) return first;
  return out_first ? InwardAt(movement, claim(Direction::kIn), sent)
                   : OutwardAt(movement, claim(Direction::kOut), sent);
}

}  // namespace tc
