// Which rows of A a rank owns when tcGemmConfig_t::rowsPerRank is NULL.
#ifndef TC_PERF_SHARDS_H_
#define TC_PERF_SHARDS_H_

#include <algorithm>
#include <cstddef>

namespace tc::perf {

struct Shard {
  size_t first;
  size_t rows;  // 0: the rank owns none
};

inline Shard ShardOf(size_t m, int n_ranks, int rank) {
  const auto ranks = static_cast<size_t>(n_ranks);
  const size_t most = (m + ranks - 1) / ranks;
  const size_t first = std::min(m, static_cast<size_t>(rank) * most);
  return {first, std::min(most, m - first)};
}

}  // namespace tc::perf

#endif  // TC_PERF_SHARDS_H_
