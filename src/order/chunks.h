// How a producer's rows, or bytes, are cut into chunks with one watermark each, and in which order they leave.
#pragma once

#include <cstdint>

#include "protocol/layout.h"

namespace tc {

inline constexpr uint64_t kSmallestChunkRows = 64;

// Rows (bytes) of a chunk: `smallest`, doubled until a producer of `most` has no more than kMaxChunks chunks (P11).
TC_HOST_DEVICE constexpr uint64_t ChunkSize(uint64_t most, uint64_t smallest) {
  uint64_t size = smallest;
  while ((most + size - 1) / size > kMaxChunks) size *= 2;
  return size;
}

TC_HOST_DEVICE constexpr uint64_t ChunkRows(uint64_t most_rows) { return ChunkSize(most_rows, kSmallestChunkRows); }

// Of a plain all-gather, where one thread moves all chunks of a rank: small enough to pipeline.
constexpr uint64_t HostChunkBytes(uint64_t bytes) { return ChunkSize(bytes, uint64_t{256} << 10); }

// Blocks of a plain all-gather on a device: enough to saturate NVLink.
inline constexpr int kMostGatherBlocks = 32;

// The same where so many blocks move them, a few for every block. Ranks must agree on it, so it does not depend on how
// many blocks one rank's device has room for.
constexpr uint64_t DeviceChunkBytes(uint64_t bytes) {
  uint64_t smallest = uint64_t{16} << 10;
  while (smallest < bytes / (4 * kMostGatherBlocks)) smallest *= 2;
  return ChunkSize(bytes, smallest);
}

// The same through host memory: enough to fill PCIe both ways. A chunk costs several trips to the far end of the link,
// so chunks grow to 64 KiB while every block has two, and to 128 KiB where there are so many that the last ones, which
// move one way alone, do not matter.
inline constexpr int kMostHostStagedBlocks = 16;
constexpr uint64_t HostStagedChunkBytes(uint64_t bytes) {
  uint64_t smallest = uint64_t{16} << 10;
  while (smallest < uint64_t{64} << 10 && smallest < bytes / (2 * kMostHostStagedBlocks)) smallest *= 2;
  if (smallest < bytes / (32 * kMostHostStagedBlocks)) smallest = uint64_t{128} << 10;
  return ChunkSize(bytes, smallest);
}

TC_HOST_DEVICE constexpr int ChunkCount(uint64_t rows, uint64_t chunk_rows) {
  return static_cast<int>((rows + chunk_rows - 1) / chunk_rows);
}

// The destination of a producer's step 0 ... n_ranks - 2. A consumer takes its own rows, then those of rank + 1,
// rank + 2, ...: so a producer serves rank - 1 first, who wants its rows next (P12). In each step the pairs are
// disjoint.
TC_HOST_DEVICE constexpr int PushDestination(int rank, int step, int n_ranks) {
  return (rank + n_ranks - 1 - step) % n_ranks;
}

// The producer whose rows a consumer takes in step 0 ... n_ranks - 2, after its own.
TC_HOST_DEVICE constexpr int ArrivalSource(int rank, int step, int n_ranks) { return (rank + 1 + step) % n_ranks; }

}  // namespace tc
