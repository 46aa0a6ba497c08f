// How a producer's rows are cut into chunks with one watermark each, and in which order they leave.
#pragma once

#include <cstdint>

#include "protocol/layout.h"

namespace tc {

inline constexpr uint64_t kSmallestChunkRows = 64;

// Rows of a chunk: 64, doubled until a producer of `most_rows` rows has no more than kMaxChunks chunks (P11).
TC_HOST_DEVICE constexpr uint64_t ChunkRows(uint64_t most_rows) {
  uint64_t rows = kSmallestChunkRows;
  while ((most_rows + rows - 1) / rows > kMaxChunks) rows *= 2;
  return rows;
}

TC_HOST_DEVICE constexpr int ChunkCount(uint64_t rows, uint64_t chunk_rows) {
  return static_cast<int>((rows + chunk_rows - 1) / chunk_rows);
}

// The destination of a producer's step 0 ... n_ranks - 2. A consumer takes its own rows, then those of rank + 1, rank +
// 2,
// ...: so a producer serves rank - 1 first, who wants its rows next (P12). In each step the pairs are disjoint.
TC_HOST_DEVICE constexpr int PushDestination(int rank, int step, int n_ranks) {
  return (rank + n_ranks - 1 - step) % n_ranks;
}

// The producer whose rows a consumer takes in step 0 ... n_ranks - 2, after its own.
TC_HOST_DEVICE constexpr int ArrivalSource(int rank, int step, int n_ranks) { return (rank + 1 + step) % n_ranks; }

}  // namespace tc
