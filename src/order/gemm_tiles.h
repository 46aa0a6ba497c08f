// How the Hopper GEMM core cuts a product: tile shapes, the choice among them, and the order of the work.
#pragma once

#include <cstdint>

#include "protocol/memory.h"

namespace tc {

// What the two blocks of a cluster load once for both.
enum class ClusterShare {
  kNothing,  // no clusters
  kA,        // the blocks are neighbours along n
  kB,        // along m
};

struct GemmTileShape {
  uint32_t rows;
  uint32_t cols;
  ClusterShare share;

  TC_HOST_DEVICE constexpr uint32_t ClusterRows() const { return share == ClusterShare::kB ? 2 * rows : rows; }
  TC_HOST_DEVICE constexpr uint32_t ClusterCols() const { return share == ClusterShare::kA ? 2 * cols : cols; }
  TC_HOST_DEVICE constexpr uint32_t Blocks() const { return share == ClusterShare::kNothing ? 1 : 2; }
};

inline constexpr uint32_t kGemmTileK = 64;

// The first is the fastest on a large product.
inline constexpr GemmTileShape kGemmTileShapes[] = {
    {128, 256, ClusterShare::kB},      {256, 128, ClusterShare::kA}, {128, 224, ClusterShare::kB},
    {128, 192, ClusterShare::kB},      {128, 128, ClusterShare::kB}, {128, 128, ClusterShare::kA},
    {64, 256, ClusterShare::kNothing},
};
inline constexpr int kGemmTileShapeCount = sizeof(kGemmTileShapes) / sizeof(kGemmTileShapes[0]);

// Whether a shape does for a b whose columns are contiguous: such a b comes in chunks of 64 columns.
constexpr bool TakesContiguousColumns(const GemmTileShape& shape) { return shape.cols % 64 == 0; }

// Work for clusters: a cluster tile and a part of the summed dimension.
struct GemmWork {
  uint32_t row = 0;  // in cluster tiles
  uint32_t col = 0;
  uint32_t split = 0;
  uint32_t k_begin = 0;  // in steps of kGemmTileK
  uint32_t k_end = 0;
};

struct GemmGrid {
  uint32_t rows = 0;  // in cluster tiles
  uint32_t cols = 0;
  uint32_t k_steps = 0;
  uint32_t splits = 1;      // at most k_steps
  uint32_t group_rows = 1;  // computed together, column by column

  TC_HOST_DEVICE constexpr uint32_t Works() const { return rows * cols * splits; }

  // The order of the work. What runs at a time is a compact rectangle, so that its rows of a and columns of b stay in
  // the L2 cache; groups go to and fro, so that one begins with the columns the one before ended with.
  TC_HOST_DEVICE constexpr GemmWork At(uint32_t index) const {
    GemmWork work;
    work.split = index % splits;
    const uint32_t tile = index / splits;
    const uint32_t group = tile / (group_rows * cols);
    const uint32_t in_group = tile % (group_rows * cols);
    const uint32_t first_row = group * group_rows;
    const uint32_t height = rows - first_row < group_rows ? rows - first_row : group_rows;
    work.row = first_row + in_group % height;
    const uint32_t col = in_group / height;
    work.col = group % 2 == 0 ? col : cols - 1 - col;
    work.k_begin = static_cast<uint32_t>(uint64_t{k_steps} * work.split / splits);
    work.k_end = static_cast<uint32_t>(uint64_t{k_steps} * (work.split + 1) / splits);
    return work;
  }
};

struct GemmTiling {
  int shape = 0;  // of kGemmTileShapes
  GemmGrid grid;
};

namespace gemm_cost {

// In cycles of a multiprocessor of the H200, whose tensor cores do 2048 multiplications of 16-bit elements in each. The
// others are estimates that no measurement has confirmed.
inline constexpr double kMultipliesPerCycle = 2048;
inline constexpr double kLoadedBytesPerCycle = 56;   // from the L2 cache to one multiprocessor
inline constexpr double kPartialBytesPerCycle = 24;  // partial sums, there and back
inline constexpr double kStepOverhead = 40;          // barriers
inline constexpr double kTileOverhead = 900;         // first loads and last stores of a tile that nothing hides
inline constexpr double kStoreBytesPerCycle = 48;

constexpr double Max(double a, double b) { return a > b ? a : b; }

}  // namespace gemm_cost

constexpr uint32_t CeilDiv(uint64_t a, uint64_t b) { return static_cast<uint32_t>((a + b - 1) / b); }

constexpr GemmGrid GridOf(uint64_t m, uint64_t n, uint64_t k, const GemmTileShape& shape, uint32_t splits,
                          uint32_t clusters) {
  GemmGrid grid;
  grid.rows = CeilDiv(m, shape.ClusterRows());
  grid.cols = CeilDiv(n, shape.ClusterCols());
  grid.k_steps = CeilDiv(k, kGemmTileK);
  grid.splits = splits;
  // A wave's rectangle is about as high as it is wide.
  const uint64_t wave = uint64_t{clusters} * shape.ClusterCols();
  uint32_t group = 1;
  while (uint64_t{group + 1} * (group + 1) * shape.ClusterRows() <= wave) ++group;
  grid.group_rows = group < grid.rows ? group : grid.rows;
  return grid;
}

// Estimated cycles of a product on `multiprocessors`.
constexpr double GemmCycles(const GemmGrid& grid, const GemmTileShape& shape, uint32_t multiprocessors) {
  using namespace gemm_cost;
  const uint32_t clusters = multiprocessors / shape.Blocks();
  const double waves = CeilDiv(grid.Works(), clusters);
  const double area = double{1} * shape.rows * shape.cols;
  const double loaded = 2.0 * kGemmTileK *
                        (shape.rows / (shape.share == ClusterShare::kA ? 2.0 : 1.0) +
                         shape.cols / (shape.share == ClusterShare::kB ? 2.0 : 1.0));
  const double step = Max(area * kGemmTileK / kMultipliesPerCycle, loaded / kLoadedBytesPerCycle);
  const double steps = CeilDiv(grid.k_steps, grid.splits);
  const double stored = 2 * area / kStoreBytesPerCycle;
  const double reduced = grid.splits > 1 ? 4 * area * (grid.splits + 1.0) / kPartialBytesPerCycle : 0;
  return waves * (steps * (step + kStepOverhead) + kTileOverhead + stored + reduced);
}

inline constexpr uint32_t kMaxSplits = 16;

// The tiles whose waves cost least; the sum is split only where one wave would not fill the device. `contiguous_cols`:
// b is [k, n].
constexpr GemmTiling ChooseGemmTiling(uint64_t m, uint64_t n, uint64_t k, bool contiguous_cols,
                                      uint32_t multiprocessors) {
  GemmTiling best;
  double least = 0;
  for (int index = 0; index < kGemmTileShapeCount; ++index) {
    const GemmTileShape& shape = kGemmTileShapes[index];
    const uint32_t clusters = multiprocessors / shape.Blocks();
    if (clusters == 0 || (contiguous_cols && !TakesContiguousColumns(shape))) continue;
    for (uint32_t splits = 1; splits <= kMaxSplits; ++splits) {
      const GemmGrid grid = GridOf(m, n, k, shape, splits, clusters);
      if (splits > 1 && (splits > grid.k_steps || grid.Works() > clusters)) break;
      const double cycles = GemmCycles(grid, shape, multiprocessors);
      if (least == 0 || cycles < least) {
        least = cycles;
        best = {index, grid};
      }
    }
  }
  return best;
}

}  // namespace tc
