// Shards, slabs, chunks and tiles against naive recounts.
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <vector>

#include "order/chunks.h"
#include "order/shape.h"
#include "order/shards.h"
#include "order/tiles.h"

namespace tc {
namespace {

TEST(Shards, EvenOnesCoverEveryRowOnceAsTheHeaderSays) {
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    for (uint64_t m = 0; m < 70; ++m) {
      const Shards shards = EvenShards(m, n_ranks);
      const uint64_t each = (m + n_ranks - 1) / n_ranks;
      uint64_t row = 0;
      for (int rank = 0; rank < n_ranks; ++rank) {
        EXPECT_EQ(shards.begin[rank], row);
        EXPECT_EQ(shards.rows(rank), std::min(m, (rank + 1) * each) - std::min(m, rank * each));
        row += shards.rows(rank);
      }
      EXPECT_EQ(row, m);
      EXPECT_EQ(shards.total(), m);
    }
  }
}

TEST(Shards, EvenOnesDoNotOverflow) {
  const Shards shards = EvenShards(UINT64_MAX, 16);
  EXPECT_EQ(shards.total(), UINT64_MAX);
  EXPECT_EQ(shards.rows(0), uint64_t{1} << 60);
}

TEST(Shards, InSmallerUnitsAreTheSameOnes) {
  const size_t given[] = {5, 0, 23, 1};
  const size_t bytes[] = {20, 0, 92, 4};
  const Shards scaled = InUnits(GivenShards(given, 4), 4);
  const Shards expected = GivenShards(bytes, 4);
  EXPECT_EQ(scaled.n_ranks, 4);
  for (int rank = 0; rank <= 4; ++rank) EXPECT_EQ(scaled.begin[rank], expected.begin[rank]);
}

TEST(Slabs, AreAsManyAsTheLargestShardNeeds) {
  const size_t given[] = {5, 0, 23, 1};
  EXPECT_EQ(SlabCount(GivenShards(given, 4), 23), 1u);
  EXPECT_EQ(SlabCount(GivenShards(given, 4), 22), 2u);
  EXPECT_EQ(SlabCount(GivenShards(given, 4), UINT64_MAX), 1u);
  EXPECT_EQ(SlabCount(EvenShards(0, 4), UINT64_MAX), 0u);
}

TEST(Slabs, TogetherHoldEveryRowOnceAndKnowItsOwner) {
  const size_t given[] = {5, 0, 23, 1};
  const Shards shards = GivenShards(given, 4);
  for (uint64_t slab_rows = 1; slab_rows < 30; ++slab_rows) {
    std::set<uint64_t> seen;
    for (uint64_t index = 0; index < SlabCount(shards, slab_rows); ++index) {
      const Slab slab = SlabAt(shards, slab_rows, index);
      for (uint64_t packed = 0; packed < slab.packed.total(); ++packed) {
        const int owner = slab.owner(packed);
        const uint64_t row = packed - slab.packed.begin[owner] + slab.first[owner];
        EXPECT_GE(row, shards.begin[owner]);
        EXPECT_LT(row, shards.begin[owner + 1]);
        EXPECT_TRUE(seen.insert(row).second) << "row " << row << " twice";
      }
      for (int rank = 0; rank < 4; ++rank) EXPECT_LE(slab.packed.rows(rank), slab_rows);
    }
    EXPECT_EQ(seen.size(), shards.total());
  }
}

TEST(Chunks, AreSixtyFourRowsDoubledUntilTheirWatermarksSuffice) {
  EXPECT_EQ(ChunkRows(0), 64u);
  EXPECT_EQ(ChunkRows(64 * 1024), 64u);
  EXPECT_EQ(ChunkRows(64 * 1024 + 1), 128u);
  EXPECT_EQ(ChunkRows(10'000'000), 16384u);
  for (uint64_t rows : {0ull, 1ull, 63ull, 64ull, 65ull, 100'000ull, 123'456'789ull}) {
    EXPECT_LE(ChunkCount(rows, ChunkRows(rows)), kMaxChunks);
    EXPECT_GE(ChunkCount(rows, ChunkRows(rows)) * ChunkRows(rows), rows);
  }
}

// Every ordered pair of ranks exactly once; in each step nobody receives from two.
TEST(PushOrder, IsAScheduleOfDisjointPairs) {
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    std::set<std::pair<int, int>> pairs;
    for (int step = 0; step + 1 < n_ranks; ++step) {
      std::set<int> receivers;
      for (int rank = 0; rank < n_ranks; ++rank) {
        const int destination = PushDestination(rank, step, n_ranks);
        EXPECT_NE(destination, rank);
        EXPECT_TRUE(receivers.insert(destination).second);
        EXPECT_TRUE(pairs.emplace(rank, destination).second);
        // The consumer takes this producer's rows in the same step: delivery order is consumption order (P12).
        EXPECT_EQ(ArrivalSource(destination, step, n_ranks), rank);
      }
    }
    EXPECT_EQ(pairs.size(), static_cast<size_t>(n_ranks) * (n_ranks - 1));
  }
}

TEST(Tiles, AreVisitedOnceEachOwnRowsFirst) {
  for (uint64_t row_blocks : {1u, 2u, 5u}) {
    for (uint64_t own = 0; own < row_blocks * 128; own += 64) {
      std::map<std::pair<uint64_t, uint64_t>, int> visits;
      for (uint64_t index = 0; index < row_blocks * 3; ++index) {
        const Tile tile = AllGatherTile(index, row_blocks, 3, own, 128);
        ++visits[{tile.row_block, tile.col_block}];
        if (index == 0) {
          EXPECT_EQ(tile.row_block, (own + 127) / 128 % row_blocks);
        }
      }
      EXPECT_EQ(visits.size(), row_blocks * 3);
    }
  }
}

TEST(Shapes, DifferInWhatRanksMustAgreeOn) {
  const OperatorShape shape{.op = tcOpAllGatherGemm, .type = tcFloat32, .m = 1, .n = 2, .k = 3};
  OperatorShape other = shape;
  EXPECT_TRUE(SameShape(shape, other));
  other.k = 4;
  EXPECT_FALSE(SameShape(shape, other));
  EXPECT_EQ(DescribeShape(other), "tcFusedAllGatherGemm(m=1, n=2, k=4, float)");
  EXPECT_EQ(DescribeShape({.op = tcOpAllGather, .type = tcInt8, .m = 9}), "tcAllGather(count=9, int8)");
  EXPECT_EQ(DescribeShape({.op = tcOpReduceScatterV, .type = tcInt8, .m = 9, .n = tcMin}),
            "tcReduceScatterV(count=9, int8, min)");
  EXPECT_EQ(DescribeShape({.op = tcOpBroadcast, .type = tcInt8, .m = 9, .n = 3}), "tcBroadcast(count=9, int8, root=3)");
  EXPECT_EQ(DescribeShape({.op = tcOpAllToAllV, .type = tcInt8}), "tcAllToAllV(int8)");
  EXPECT_EQ(DescribeShape({.op = tcOpBarrier}), "tcBarrier");
  const size_t a[] = {1, 2};
  const size_t b[] = {2, 1};
  EXPECT_NE(ShardDigest(GivenShards(a, 2)), ShardDigest(GivenShards(b, 2)));
}

}  // namespace
}  // namespace tc
