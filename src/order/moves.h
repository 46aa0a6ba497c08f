// The order in which the blocks of a kernel claim a rank's data movement, piece by piece.
#pragma once

#include "order/chunks.h"
#include "protocol/memory.h"

namespace tc {

enum class MoveKind {
  kShare,    // a chunk of this rank's to all peers at once
  kPush,     // a chunk of this rank's to `peer`
  kKeepOwn,  // a chunk of this rank's to where the caller wants it
  kArrival,  // a chunk of `peer`'s, which is waited for
  kReduce,   // a chunk of this rank's result, for which all peers' are waited for
  kReaders,  // the peers' word that they have read this rank's buffer, which is waited for
  kNone,     // nothing is left
};

struct Move {
  MoveKind kind;
  int peer;
  int chunk;
  int kept = -1;  // a chunk of this rank's that is brought to where the caller wants it after this; -1: none
};

// The two directions of a rank's link. What goes out waits for nobody; what comes in is waited for.
enum class Direction { kOut, kIn };

// Piece number `index` of what goes out. `pieces` says how many there are of each kind:
//   shared()        chunks that go to all peers at once
//   to(consumer)    chunks that go to one peer
//   own()           chunks that stay
//   from(producer)  chunks that are taken one by one
//   reduced()       chunks that are taken from all peers together
//   readers()       1: there is a buffer that peers read, else 0
template <class Pieces>
TC_HOST_DEVICE constexpr Move OutwardAt(int rank, int n_ranks, int index, const Pieces& pieces) {
  // Whether `index` is among the next `count`; if not it counts from behind them.
  const auto among = [&index](int count) {
    if (index < count) return true;
    index -= count;
    return false;
  };
  if (among(pieces.shared())) return {MoveKind::kShare, rank, index};
  for (int step = 0; step + 1 < n_ranks; ++step) {
    const int consumer = PushDestination(rank, step, n_ranks);
    if (among(pieces.to(consumer))) return {MoveKind::kPush, consumer, index};
  }
  if (among(pieces.own())) return {MoveKind::kKeepOwn, rank, index};
  return {MoveKind::kNone, rank, index};
}

// The same where what comes in has a counter of its own. What stays takes nothing of the link, so it is not left for
// the end, when the link would be idle: number n brings chunk n of it to its place as well, after what goes out.
template <class Pieces>
TC_HOST_DEVICE constexpr Move OutwardKeepingAt(int rank, int n_ranks, int index, const Pieces& pieces) {
  Move move = OutwardAt(rank, n_ranks, index, pieces);
  const bool stays = index < pieces.own();
  if (move.kind == MoveKind::kKeepOwn || move.kind == MoveKind::kNone) {
    return {stays ? MoveKind::kKeepOwn : MoveKind::kNone, rank, index};
  }
  if (stays) move.kept = index;
  return move;
}

// The same of what comes in.
template <class Pieces>
TC_HOST_DEVICE constexpr Move InwardAt(int rank, int n_ranks, int index, const Pieces& pieces) {
  const auto among = [&index](int count) {
    if (index < count) return true;
    index -= count;
    return false;
  };
  for (int step = 0; step + 1 < n_ranks; ++step) {
    const int producer = ArrivalSource(rank, step, n_ranks);
    if (among(pieces.from(producer))) return {MoveKind::kArrival, producer, index};
  }
  if (among(pieces.reduced())) return {MoveKind::kReduce, rank, index};
  if (among(pieces.readers())) return {MoveKind::kReaders, rank, index};
  return {MoveKind::kNone, rank, index};
}

// The piece that is claimed as number `index` where one counter counts all of them. Whatever waits comes last: when a
// block waits, all that peers wait for has been claimed by a block that is resident (P9).
template <class Pieces>
TC_HOST_DEVICE constexpr Move MoveAt(int rank, int n_ranks, int index, const Pieces& pieces) {
  const Move outward = OutwardAt(rank, n_ranks, index, pieces);
  return outward.kind != MoveKind::kNone ? outward : InwardAt(rank, n_ranks, outward.chunk, pieces);
}

// The direction in which the block (or team of one) with this ticket claims first, and then the other, where each has a
// counter of its own, so that both are busy at once. Two of three begin with what comes in: their loads wait for the
// far end of the link, while stores are posted. The lowest ticket, which is always resident, claims all that goes out
// and that nobody else does before it waits (P9).
TC_HOST_DEVICE constexpr Direction FirstDirection(uint32_t ticket) {
  return ticket % 3 == 0 ? Direction::kOut : Direction::kIn;
}

// The next piece of a block with this ticket; claim(direction) is the next number of that direction's counter.
template <class Pieces, class Claim>
TC_HOST_DEVICE constexpr Move NextBothWays(int rank, int n_ranks, uint32_t ticket, const Pieces& pieces,
                                           const Claim& claim) {
  const bool out_first = FirstDirection(ticket) == Direction::kOut;
  const Move first = out_first ? OutwardKeepingAt(rank, n_ranks, claim(Direction::kOut), pieces)
                               : InwardAt(rank, n_ranks, claim(Direction::kIn), pieces);
  if (first.kind != MoveKind::kNone) return first;
  return out_first ? InwardAt(rank, n_ranks, claim(Direction::kIn), pieces)
                   : OutwardKeepingAt(rank, n_ranks, claim(Direction::kOut), pieces);
}

// How the chunks that a rank has for all of its peers leave.
enum class Sending { kToEach, kAtOnce, kNot };

// What a rank moves in an epoch in which it has the same chunks for every peer.
struct Movement {
  int rank;
  int n_ranks;
  bool keeps_own;
  bool takes_arrivals;
  Sending sending = Sending::kToEach;
  bool is_read = false;  // peers load them from a buffer of the caller's
};

// Every rank sends equally many chunks to each of its peers.
struct EqualChunks {
  int count;
  TC_HOST_DEVICE constexpr int chunks(int /*producer*/) const { return count; }
};

// The pieces of such an epoch; sent.chunks(rank) are the chunks that a rank sends to each of its peers.
template <class Sent>
struct GatherPieces {
  const Movement& movement;
  const Sent& sent;
  int sends = sent.chunks(movement.rank);

  TC_HOST_DEVICE constexpr int shared() const {
    return movement.sending == Sending::kAtOnce && movement.n_ranks > 1 ? sends : 0;
  }
  TC_HOST_DEVICE constexpr int to(int) const { return movement.sending == Sending::kToEach ? sends : 0; }
  TC_HOST_DEVICE constexpr int own() const { return movement.keeps_own ? sends : 0; }
  TC_HOST_DEVICE constexpr int from(int producer) const { return movement.takes_arrivals ? sent.chunks(producer) : 0; }
  TC_HOST_DEVICE constexpr int reduced() const { return 0; }
  TC_HOST_DEVICE constexpr int readers() const { return movement.is_read ? 1 : 0; }
};

template <class Sent>
TC_HOST_DEVICE constexpr Move MoveAt(const Movement& movement, int index, const Sent& sent) {
  return MoveAt(movement.rank, movement.n_ranks, index, GatherPieces<Sent>{movement, sent});
}

template <class Sent, class Claim>
TC_HOST_DEVICE constexpr Move NextBothWays(const Movement& movement, uint32_t ticket, const Sent& sent,
                                           const Claim& claim) {
  return NextBothWays(movement.rank, movement.n_ranks, ticket, GatherPieces<Sent>{movement, sent}, claim);
}

}  // namespace tc
