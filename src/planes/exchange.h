// What the threads of one block do for each piece of an exchange that they have claimed, on any plane.
//
// A Block is all threads that work on a piece together, and provides
//
//   Memory                           the policy of protocol/memory.h
//   lane(), lanes()                  this thread's number among them
//   Sync()                           a barrier of them
//   All(fine)                        the same; whether every one of them is fine
//   Pause()                          a step at which a test may hold them up
//   Copy(to, from, bytes)            by all of them
//   Reduce(sources, to, bytes)       by all of them: the partials of all ranks, in their order
//   DestinationOf(rank)              the place that rank's entry names
//   InWindow(destination, rank)      where a place in a window of that rank's lies
//   AwaitChunk(producer, chunk)      in one thread, for a chunk, or its round; false: the communicator has ended
//   AwaitReader(reader)              the same for its acknowledgement
//   AwaitRoom(consumer, round)       the same for the staging's half of a round
//   Epoch()                          which all of this is
#pragma once

#include "order/moves.h"
#include "planes/packets.h"
#include "planes/pull.h"
#include "planes/push.h"
#include "protocol/election.h"
#include "protocol/rounds.h"

namespace tc {

// How many pieces of each kind there are, for MoveAt.
template <class Plane>
struct ExchangePieces {
  const Exchange& exchange;
  const Plane& plane;
  int rank;
  int n_ranks;
  int round = 0;

  TC_HOST_DEVICE bool shares() const { return Plane::kShares && exchange.shared; }
  TC_HOST_DEVICE int shared() const {
    return shares() && n_ranks > 1 ? exchange.pair[ArrivalSource(rank, 0, n_ranks)].to.count : 0;
  }
  TC_HOST_DEVICE int to(int consumer) const { return shares() ? 0 : exchange.pair[consumer].to.in_round(round); }
  TC_HOST_DEVICE int own() const { return exchange.pair[rank].to.in_round(round); }
  TC_HOST_DEVICE int from(int producer) const {
    return exchange.reduces ? 0 : exchange.pair[producer].from.in_round(round);
  }
  TC_HOST_DEVICE int reduced() const { return exchange.reduces ? exchange.pair[rank].from.count : 0; }
  TC_HOST_DEVICE int readers() const { return plane.IsRead() ? 1 : 0; }
};

template <class Block, class Plane>
class ExchangeSteps {
 public:
  using Memory = typename Block::Memory;

  TC_HOST_DEVICE ExchangeSteps(const Block& block, const Plane& plane, const RankView& view, const Exchange& exchange)
      : block_(block), plane_(plane), view_(view), exchange_(exchange) {}

  // All that this block does: claims pieces until nothing is left. claim(direction) is the next number of that
  // direction's counter; both_ways: each has one, else kOut's counts everything.
  template <class Claim>
  TC_HOST_DEVICE void Run(uint32_t ticket, bool both_ways, const Claim& claim) const {
    if (exchange_.in_units) {
      while (CarryOutUnit(claim(Direction::kOut))) {
      }
    } else if (exchange_.rounds > 1) {  // in one order: a supply may wait for what comes in
      while (CarryOut(MoveInRounds(claim(Direction::kOut)))) {
      }
    } else if (both_ways) {
      while (CarryOut(NextBothWays(view_.rank, view_.n_ranks, ticket, pieces(), claim))) {
      }
    } else {
      while (CarryOut(MoveAt(view_.rank, view_.n_ranks, claim(Direction::kOut), pieces()))) {
      }
    }
  }

  // The same by packets: a unit at a time, which goes to all peers before this block polls for theirs. `ticket` is the
  // block's own and the number of its unit. Where blocks are fewer than units, claim() is a next ticket, from the same
  // counter: so ranks claim units in one order, however few blocks each has, and it ends for the reason given at
  // CarryOutUnit. Between two units claim() is a barrier of the block's threads.
  template <class Claim>
  TC_HOST_DEVICE void RunByPackets(uint32_t ticket, uint32_t blocks, const Claim& claim) const {
    const uint32_t units = UnitCount(exchange_);
    for (uint32_t unit = ticket; unit < units && CarryOutByPackets(unit) && units > blocks;) unit = claim();
  }

  TC_HOST_DEVICE ExchangePieces<Plane> pieces() const { return {exchange_, plane_, view_.rank, view_.n_ranks}; }

  // Piece number `index` of an exchange in rounds: one round after the other, each as MoveAt orders it.
  TC_HOST_DEVICE Move MoveInRounds(int index) const {
    ExchangePieces<Plane> of_round = pieces();
    for (;; ++of_round.round) {
      Move move = MoveAt(view_.rank, view_.n_ranks, index, of_round);
      if (move.kind == MoveKind::kPush) move.chunk += of_round.round * exchange_.pair[move.peer].to.per_round;
      if (move.kind == MoveKind::kArrival) move.chunk += of_round.round * exchange_.pair[move.peer].from.per_round;
      if (move.kind != MoveKind::kNone || of_round.round + 1 >= exchange_.rounds) return move;
      index = move.chunk;
    }
  }

  // A piece that was claimed. False: nothing is left to do, or to wait for.
  TC_HOST_DEVICE bool CarryOut(const Move& move) const {
    switch (move.kind) {
      case MoveKind::kShare:
        plane_.Share(move.chunk);
        return Keep(move.kept);
      case MoveKind::kPush:
        if (exchange_.pair[move.peer].to.in_rounds()) return SupplyInRounds(move.peer, move.chunk);
        plane_.Supply(move.peer, move.chunk);
        return Keep(move.kept);
      case MoveKind::kKeepOwn:
        return Keep(move.chunk);
      case MoveKind::kArrival:
        return Take(move.peer, move.chunk);
      case MoveKind::kReduce:
        return Reduce(move.chunk);
      case MoveKind::kReaders:
        return AwaitReaders();
      default:
        return false;
    }
  }

  // Where exchange.in_units: unit number `index`, a chunk. It goes to all peers before this block waits for theirs.
  // That ends, however few blocks are resident: ranks claim chunks in one order, and the smallest chunk that some rank
  // has not shared yet is claimed next there, by a block that waits at most for smaller ones, which all have shared.
  TC_HOST_DEVICE bool CarryOutUnit(int index) const {
    if (index >= exchange_.pair[view_.rank].from.count) return false;
    plane_.Share(index);
    block_.Pause();
    return Reduce(index);
  }

 private:
  TC_HOST_DEVICE bool Keep(int chunk) const {
    if (chunk < 0) return true;
    const ExchangePair& own = exchange_.pair[view_.rank];
    const RowRange range = own.to.range(chunk);
    block_.Copy(own.recv + range.begin, own.send + range.begin, range.end - range.begin);
    return true;
  }

  TC_HOST_DEVICE bool CarryOutByPackets(uint32_t unit) const {
    plane_.Send(unit);
    const ExchangePair& own = exchange_.pair[view_.rank];
    const RowRange kept = plane_.SliceOf(own.to.bytes, unit);
    if (kept.begin < kept.end) block_.Copy(own.recv + kept.begin, own.send + kept.begin, kept.end - kept.begin);
    block_.Pause();
    if (!block_.All(plane_.Take(unit))) return false;
    if (!exchange_.reduces) return true;
    // All threads' packets have gone and come: a result in place overwrites nothing that is needed.
    const RowRange range = plane_.SliceOf(own.from.bytes, unit);
    if (range.begin == range.end) return true;
    const auto source = [&](int rank) { return rank == view_.rank ? own.send + range.begin : plane_.Arrived(rank); };
    block_.Reduce(source, own.recv + range.begin, range.end - range.begin);
    return true;
  }

  TC_HOST_DEVICE bool SupplyInRounds(int consumer, int chunk) const {
    const PairChunks& to = exchange_.pair[consumer].to;
    const int round = to.round_of(chunk);
    if (!block_.All(block_.lane() != 0 || block_.AwaitRoom(consumer, round))) return false;
    plane_.Place(consumer, chunk);
    block_.Sync();
    if (block_.lane() == 0 && Elect<Memory>(&view_.local->round_supplied[consumer][round % 2], to.in_round(round))) {
      FinishSupply<Memory>(view_, consumer, block_.Epoch(), round);
    }
    return true;
  }

  TC_HOST_DEVICE bool Take(int producer, int chunk) const {
    if (!block_.All(block_.lane() != 0 || block_.AwaitChunk(producer, chunk))) return false;
    const ExchangePair& pair = exchange_.pair[producer];
    const std::byte* const from = plane_.Arrived(producer);
    const RowRange range = pair.from.range(chunk);
    // Else it has come to where it belongs. (What goes in rounds is always staged, so its place there is the one.)
    if (from != pair.recv) {
      block_.Copy(pair.recv + range.begin, from + pair.from.staged_at(chunk), range.end - range.begin);
    }
    block_.Sync();
    if (block_.lane() != 0) return true;
    plane_.HaveRead(producer);
    if (pair.from.in_rounds()) {
      const int round = pair.from.round_of(chunk);
      if (Elect<Memory>(&view_.local->round_taken[producer][round % 2], pair.from.in_round(round))) {
        FinishTaking<Memory>(view_, producer, block_.Epoch(), round);
      }
    }
    return true;
  }

  TC_HOST_DEVICE bool Reduce(int chunk) const {
    bool fine = true;
    for (int peer = block_.lane(); peer < view_.n_ranks; peer += block_.lanes()) {
      if (peer != view_.rank && fine) fine = block_.AwaitChunk(peer, chunk);
    }
    if (!block_.All(fine)) return false;
    const ExchangePair& own = exchange_.pair[view_.rank];
    const RowRange range = own.from.range(chunk);
    const auto source = [&](int rank) { return (rank == view_.rank ? own.send : plane_.Arrived(rank)) + range.begin; };
    block_.Reduce(source, own.recv + range.begin, range.end - range.begin);
    block_.Sync();
    for (int peer = block_.lane(); peer < view_.n_ranks; peer += block_.lanes()) {
      if (peer != view_.rank) plane_.HaveRead(peer);
    }
    return true;
  }

  TC_HOST_DEVICE bool AwaitReaders() const {
    bool fine = true;
    for (int peer = block_.lane(); peer < view_.n_ranks; peer += block_.lanes()) {
      if (peer != view_.rank && exchange_.pair[peer].to.count > 0 && fine) fine = block_.AwaitReader(peer);
    }
    return block_.All(fine);
  }

  const Block& block_;
  const Plane& plane_;
  const RankView& view_;
  const Exchange& exchange_;
};

}  // namespace tc
