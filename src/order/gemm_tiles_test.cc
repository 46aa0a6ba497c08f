// Tiles of the Hopper GEMM core: every part of the product is computed once, in an order that the L2 cache likes, by
// tiles whose waves are full.
#include "order/gemm_tiles.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

namespace tc {
namespace {

constexpr uint32_t kMultiprocessors = 132;

constexpr uint64_t kSizes[] = {1, 7, 64, 65, 128, 129, 509, 1000, 4104, 14336};

TEST(GemmTiles, WorksCoverTheProductOnce) {
  for (int index = 0; index < kGemmTileShapeCount; ++index) {
    const GemmTileShape& shape = kGemmTileShapes[index];
    for (const uint64_t m : kSizes) {
      for (const uint64_t n : kSizes) {
        for (const uint32_t splits : {1u, 3u}) {
          const GemmGrid grid = GridOf(m, n, 1000, shape, splits, kMultiprocessors / shape.Blocks());
          EXPECT_GE(uint64_t{grid.rows} * shape.ClusterRows(), m);
          EXPECT_GE(uint64_t{grid.cols} * shape.ClusterCols(), n);
          std::map<std::pair<uint32_t, uint32_t>, std::set<uint32_t>> steps;
          size_t counted = 0;
          for (uint32_t work = 0; work < grid.Works(); ++work) {
            const GemmWork part = grid.At(work);
            ASSERT_LT(part.row, grid.rows);
            ASSERT_LT(part.col, grid.cols);
            ASSERT_LT(part.k_begin, part.k_end) << "a part of nothing";
            for (uint32_t step = part.k_begin; step < part.k_end; ++step, ++counted)
              steps[{part.row, part.col}].insert(step);
          }
          EXPECT_EQ(steps.size(), size_t{grid.rows} * grid.cols);
          for (const auto& [tile, seen] : steps) ASSERT_EQ(seen.size(), grid.k_steps);
          EXPECT_EQ(counted, steps.size() * grid.k_steps) << "a step of k twice";
        }
      }
    }
  }
}

// What 66 clusters compute at a time needs few rows of a and columns of b.
TEST(GemmTiles, AWaveIsACompactRectangle) {
  const GemmTileShape& shape = kGemmTileShapes[0];
  const GemmGrid grid = GridOf(8192, 8192, 8192, shape, 1, 66);
  for (uint32_t first = 0; first + 66 <= grid.Works(); first += 66) {
    std::set<uint32_t> rows, cols;
    for (uint32_t work = first; work < first + 66; ++work) {
      rows.insert(grid.At(work).row);
      cols.insert(grid.At(work).col);
    }
    EXPECT_LE(rows.size() * shape.ClusterRows() + cols.size() * shape.ClusterCols(), 2u * 3072);
  }
}

TEST(GemmTiles, GroupsGoToAndFro) {
  const GemmGrid grid{.rows = 8, .cols = 5, .k_steps = 1, .splits = 1, .group_rows = 4};
  EXPECT_EQ(grid.At(19).col, 4u);
  EXPECT_EQ(grid.At(20).col, 4u);
  EXPECT_EQ(grid.At(20).row, 4u);
  EXPECT_EQ(grid.At(39).col, 0u);
}

// By hand: blocks' tiles and waves of 132 (66 clusters of two).
TEST(GemmTiles, FullWavesWin) {
  const auto tiles = [](uint64_t m, uint64_t n, uint64_t k) {
    const GemmTiling tiling = ChooseGemmTiling(m, n, k, false, kMultiprocessors);
    const GemmTileShape& shape = kGemmTileShapes[tiling.shape];
    return std::make_tuple(shape.rows, shape.cols, tiling.grid.splits);
  };
  // 4 x 56 tiles of 256 columns are 1.7 waves, 4 x 64 of 224 are 1.9.
  EXPECT_EQ(tiles(512, 14336, 4096), std::make_tuple(128u, 224u, 1u));
  // 4 x 32 tiles of 128 columns are 0.97 of a wave.
  EXPECT_EQ(tiles(512, 4096, 14336), std::make_tuple(128u, 128u, 1u));
  // 8 x 16 tiles of 256 columns.
  EXPECT_EQ(tiles(1024, 4096, 14336), std::make_tuple(128u, 256u, 1u));
  // Large products take the largest tiles, though a half wave of small ones at the end would be shorter.
  EXPECT_EQ(tiles(8192, 14336, 4096), std::make_tuple(128u, 256u, 1u));
  // One row of a: the sum is split until half of the device is busy or more.
  EXPECT_GE(std::get<2>(tiles(1, 4096, 14336)), 4u);
}

TEST(GemmTiles, SplitsFitAWaveAndTheSum) {
  for (const uint64_t m : kSizes) {
    for (const uint64_t n : kSizes) {
      for (const uint64_t k : {8, 64, 65, 4104}) {
        for (const bool contiguous_cols : {false, true}) {
          const GemmTiling tiling = ChooseGemmTiling(m, n, k, contiguous_cols, kMultiprocessors);
          const GemmTileShape& shape = kGemmTileShapes[tiling.shape];
          EXPECT_LE(tiling.grid.splits, tiling.grid.k_steps);
          if (tiling.grid.splits > 1) {
            EXPECT_LE(tiling.grid.Works(), kMultiprocessors / shape.Blocks());
          }
          EXPECT_TRUE(!contiguous_cols || TakesContiguousColumns(shape));
        }
      }
    }
  }
}

static_assert(ChooseGemmTiling(8192, 8192, 8192, false, kMultiprocessors).grid.splits == 1);

}  // namespace
}  // namespace tc
