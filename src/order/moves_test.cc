// The order of movement against the list that a loop over ranks and chunks makes.
#include "order/moves.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

namespace tc {
namespace {

// Chunks of each rank.
struct ChunkList {
  std::vector<int> counts;
  int chunks(int producer) const { return counts[producer]; }
};

bool operator==(const Move& a, const Move& b) { return a.kind == b.kind && a.peer == b.peer && a.chunk == b.chunk; }

// What a rank moves, in the order that P9 and P12 ask for, written down piece by piece.
std::vector<Move> NaiveMoves(const Movement& movement, const ChunkList& sent) {
  std::vector<Move> moves;
  for (int chunk = 0; movement.sending == Sending::kAtOnce && chunk < sent.chunks(movement.rank); ++chunk) {
    if (movement.n_ranks > 1) moves.push_back({MoveKind::kShare, movement.rank, chunk});
  }
  int consumer = movement.rank;
  const int consumers = movement.sending == Sending::kToEach ? movement.n_ranks - 1 : 0;
  for (int others = consumers; others > 0; --others) {  // the rank before this one takes its rows first
    consumer = consumer == 0 ? movement.n_ranks - 1 : consumer - 1;
    for (int chunk = 0; chunk < sent.chunks(movement.rank); ++chunk)
      moves.push_back({MoveKind::kPush, consumer, chunk});
  }
  if (movement.keeps_own) {
    for (int chunk = 0; chunk < sent.chunks(movement.rank); ++chunk) {
      moves.push_back({MoveKind::kKeepOwn, movement.rank, chunk});
    }
  }
  if (movement.takes_arrivals) {
    int producer = movement.rank;
    for (int others = movement.n_ranks - 1; others > 0; --others) {
      producer = producer + 1 == movement.n_ranks ? 0 : producer + 1;
      for (int chunk = 0; chunk < sent.chunks(producer); ++chunk)
        moves.push_back({MoveKind::kArrival, producer, chunk});
    }
  }
  if (movement.is_read) moves.push_back({MoveKind::kReaders, movement.rank, 0});
  return moves;
}

TEST(Moves, AreClaimedPushesFirstThenWhatWaits) {
  std::mt19937 random(1);
  uint64_t compared = 0;
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    for (int round = 0; round < 6; ++round) {
      ChunkList sent{std::vector<int>(n_ranks)};
      for (int& count : sent.counts) count = round == 0 ? 0 : round == 1 ? 1 : static_cast<int>(random() % 9);
      if (round == 5) sent.counts[random() % n_ranks] = kMaxChunks;
      for (int rank = 0; rank < n_ranks; ++rank) {
        for (int variant = 0; variant < 24; ++variant) {
          constexpr Sending kSending[] = {Sending::kToEach, Sending::kAtOnce, Sending::kNot};
          const Movement movement{.rank = rank,
                                  .n_ranks = n_ranks,
                                  .keeps_own = variant % 2 != 0,
                                  .takes_arrivals = variant / 2 % 2 != 0,
                                  .sending = kSending[variant / 4 % 3],
                                  .is_read = variant / 12 != 0};
          const std::vector<Move> naive = NaiveMoves(movement, sent);
          for (size_t index = 0; index < naive.size(); ++index, ++compared) {
            ASSERT_TRUE(MoveAt(movement, static_cast<int>(index), sent) == naive[index])
                << "move " << index << " of rank " << rank << " of " << n_ranks;
          }
          for (int beyond = 0; beyond < 40; ++beyond) {  // every block of a grid asks once more
            const int index = static_cast<int>(naive.size()) + beyond;
            ASSERT_EQ(MoveAt(movement, index, sent).kind, MoveKind::kNone);
          }
        }
      }
    }
  }
  EXPECT_GT(compared, 100'000u);
}

// Counts of their own for every kind and peer.
struct PieceList {
  int rank;
  int share = 0, keep = 0, reduce = 0, reader = 0;
  std::vector<int> sent = {}, taken = {};
  int shared() const { return share; }
  int to(int consumer) const { return sent[consumer]; }
  int own() const { return keep; }
  int from(int producer) const { return taken[producer]; }
  int reduced() const { return reduce; }
  int readers() const { return reader; }
};

std::vector<Move> NaiveMoves(int n_ranks, const PieceList& pieces) {
  std::vector<Move> moves;
  const auto add = [&](MoveKind kind, int peer, int count) {
    for (int chunk = 0; chunk < count; ++chunk) moves.push_back({kind, peer, chunk});
  };
  add(MoveKind::kShare, pieces.rank, pieces.share);
  for (int back = 1; back < n_ranks; ++back) {
    const int consumer = (pieces.rank - back + n_ranks) % n_ranks;
    add(MoveKind::kPush, consumer, pieces.sent[consumer]);
  }
  add(MoveKind::kKeepOwn, pieces.rank, pieces.keep);
  for (int ahead = 1; ahead < n_ranks; ++ahead) {
    const int producer = (pieces.rank + ahead) % n_ranks;
    add(MoveKind::kArrival, producer, pieces.taken[producer]);
  }
  add(MoveKind::kReduce, pieces.rank, pieces.reduce);
  add(MoveKind::kReaders, pieces.rank, pieces.reader);
  return moves;
}

TEST(Moves, OfUnevenPairsAreClaimedInTheSameOrder) {
  std::mt19937 random(2);
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    for (int round = 0; round < 60; ++round) {
      const auto draw = [&] { return random() % 3 == 0 ? 0 : static_cast<int>(random() % 5); };
      PieceList pieces{.rank = static_cast<int>(random()) & 0xff, .share = draw(), .keep = draw(), .reduce = draw()};
      pieces.rank %= n_ranks;
      pieces.reader = static_cast<int>(random() % 2);
      for (std::vector<int>* counts : {&pieces.sent, &pieces.taken}) {
        for (int peer = 0; peer < n_ranks; ++peer) counts->push_back(draw());
      }
      const std::vector<Move> naive = NaiveMoves(n_ranks, pieces);
      for (size_t index = 0; index < naive.size(); ++index) {
        ASSERT_TRUE(MoveAt(pieces.rank, n_ranks, static_cast<int>(index), pieces) == naive[index])
            << "move " << index << " of rank " << pieces.rank << " of " << n_ranks;
      }
      ASSERT_EQ(MoveAt(pieces.rank, n_ranks, static_cast<int>(naive.size()), pieces).kind, MoveKind::kNone);
      ASSERT_EQ(MoveAt(pieces.rank, n_ranks, INT32_MAX, pieces).kind, MoveKind::kNone);
    }
  }
}

// Blocks that claim one after the other, in a random order, take every piece once; who starts with what comes in has
// seen nothing else while there was any. With one block that is the lowest ticket, which pushes all before it waits.
TEST(Moves, BothWaysAreClaimedOnceEachFromTwoCounters) {
  std::mt19937 random(2);
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    for (int blocks : {1, 2, 3, 16}) {
      ChunkList sent{std::vector<int>(n_ranks)};
      for (int& count : sent.counts) count = static_cast<int>(random() % 7);
      const Movement movement{.rank = static_cast<int>(random() % n_ranks),
                              .n_ranks = n_ranks,
                              .keeps_own = random() % 2 == 0,
                              .takes_arrivals = random() % 4 != 0};
      std::vector<Move> left = NaiveMoves(movement, sent);
      int claimed[2] = {};
      const auto claim = [&](Direction direction) { return claimed[static_cast<int>(direction)]++; };
      std::vector<uint32_t> running;
      for (int block = 0; block < blocks; ++block) running.push_back(block);
      while (!running.empty()) {
        const size_t at = random() % running.size();
        const uint32_t ticket = running[at];
        const Move move = NextBothWays(movement, ticket, sent, claim);
        if (move.kind == MoveKind::kNone) {
          running.erase(running.begin() + static_cast<std::ptrdiff_t>(at));
          continue;
        }
        const auto found = std::find_if(left.begin(), left.end(), [&](const Move& other) { return other == move; });
        ASSERT_NE(found, left.end()) << "claimed twice, or no piece of this rank's";
        left.erase(found);
        if (move.kept >= 0) {
          const Move kept{MoveKind::kKeepOwn, movement.rank, move.kept};
          const auto also = std::find_if(left.begin(), left.end(), [&](const Move& other) { return other == kept; });
          ASSERT_NE(also, left.end()) << "kept twice, or no chunk of this rank's";
          left.erase(also);
        }
        const bool comes_in = move.kind == MoveKind::kArrival;
        const bool first = comes_in == (FirstDirection(ticket) == Direction::kIn);
        const bool any_of_first = std::any_of(left.begin(), left.end(), [&](const Move& other) {
          return (other.kind == MoveKind::kArrival) != comes_in;
        });
        ASSERT_TRUE(first || !any_of_first) << "turned round while there was something of its own direction";
      }
      ASSERT_TRUE(left.empty()) << left.size() << " pieces were left";
    }
  }
  EXPECT_EQ(FirstDirection(0), Direction::kOut);  // suppliers first
}

static_assert(MoveAt({.rank = 1, .n_ranks = 2, .keeps_own = true, .takes_arrivals = true}, 3, EqualChunks{2}).kind ==
              MoveKind::kKeepOwn);

}  // namespace
}  // namespace tc
