// Which rows each rank owns, and the slabs in which an operator larger than its workspace is done. Pure functions,
// plain data: the same on every rank, on CPU and device.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "protocol/layout.h"

namespace tc {

// Rank r owns rows [begin[r], begin[r + 1]) of the whole.
struct Shards {
  int n_ranks = 1;
  uint64_t begin[kMaxRanks + 1] = {};

  TC_HOST_DEVICE uint64_t rows(int rank) const { return begin[rank + 1] - begin[rank]; }
  TC_HOST_DEVICE uint64_t total() const { return begin[n_ranks]; }
  uint64_t largest() const {
    uint64_t most = 0;
    for (int rank = 0; rank < n_ranks; ++rank) most = std::max(most, rows(rank));
    return most;
  }
};

// ceil(m / n_ranks) rows each; the last ranks get fewer, or none.
inline Shards EvenShards(uint64_t m, int n_ranks) {
  Shards shards{.n_ranks = n_ranks};
  const uint64_t each = m / n_ranks + (m % n_ranks != 0);
  for (int rank = 0; rank < n_ranks; ++rank) {
    shards.begin[rank + 1] = shards.begin[rank] + std::min(each, m - shards.begin[rank]);
  }
  return shards;
}

inline Shards GivenShards(const size_t* rows_per_rank, int n_ranks) {
  Shards shards{.n_ranks = n_ranks};
  for (int rank = 0; rank < n_ranks; ++rank) shards.begin[rank + 1] = shards.begin[rank] + rows_per_rank[rank];
  return shards;
}

// The same shards in units of which a row has `units`.
inline Shards InUnits(const Shards& shards, uint64_t units) {
  Shards scaled{.n_ranks = shards.n_ranks};
  for (int rank = 0; rank < shards.n_ranks; ++rank) scaled.begin[rank + 1] = shards.begin[rank + 1] * units;
  return scaled;
}

// Slab s holds rows [s * slab_rows, (s + 1) * slab_rows) of every rank's shard, packed one rank behind the other.
struct Slab {
  Shards packed;                   // places in the slab
  uint64_t first[kMaxRanks] = {};  // row of the whole that packed.begin[rank] stands for

  // The rank that owns a packed row.
  TC_HOST_DEVICE int owner(uint64_t row) const {
    int rank = 0;
    while (row >= packed.begin[rank + 1]) ++rank;
    return rank;
  }
};

inline uint64_t SlabCount(const Shards& shards, uint64_t slab_rows) {
  return shards.largest() / slab_rows + (shards.largest() % slab_rows != 0);
}

inline Slab SlabAt(const Shards& shards, uint64_t slab_rows, uint64_t index) {
  Slab slab{.packed = {.n_ranks = shards.n_ranks}};
  for (int rank = 0; rank < shards.n_ranks; ++rank) {
    const uint64_t skipped = std::min(shards.rows(rank), index * slab_rows);
    slab.first[rank] = shards.begin[rank] + skipped;
    slab.packed.begin[rank + 1] = slab.packed.begin[rank] + std::min(slab_rows, shards.rows(rank) - skipped);
  }
  return slab;
}

}  // namespace tc
