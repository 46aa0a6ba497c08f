// What a fused GEMM should have computed, in fp64, and how far from it a result may be.
#ifndef TC_PERF_REFERENCE_H_
#define TC_PERF_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inputs.h"
#include "tolerance.h"

namespace tc::perf {

Expected Dot(std::span<const float> a, std::span<const float> b);

// Checks c [m,n] and gatheredA [m,k] of one rank.
class GemmReference {
 public:
  // Up to this many products every element is computed, else a sample.
  static constexpr uint64_t kFullCheckProducts = uint64_t{1} << 27;
  // Elements of a sample at least; it also takes the first and the last row and column and those of each rank's rows.
  static constexpr size_t kSampledElements = 4096;

  // Ranks own ceil(m / n_ranks) rows of A each. `inputs` must outlive this.
  GemmReference(const Inputs& inputs, size_t m, size_t n, size_t k, int rank, int n_ranks, uint64_t seed);

  // Elements of c: those of these rows in these columns, both sorted.
  struct Grid {
    std::vector<size_t> rows;
    std::vector<size_t> cols;
  };

  bool IsSampled() const { return sampled_; }
  // What is checked after an iteration when it is a sample; as large for one iteration as for another.
  Grid SampledGrid(uint64_t iteration) const;
  // Wrong elements of the packed c that an iteration on `set` has left. Whatever the sample, an element that still
  // holds its poison of 0xff bytes is wrong. `iteration` chooses the sample.
  uint64_t CountWrong(const void* c, size_t set, uint64_t iteration);
  // Elements of the packed gatheredA that are not A's, bit by bit.
  uint64_t CountWrongGathered(const void* gathered, size_t set) const;

 private:
  Grid FullGrid() const;
  // Calls visit(row, col, expected) for each element of the grid, always in the same order.
  template <typename Visit>
  void Compute(const Grid& grid, size_t set, const Visit& visit) const;
  bool IsRight(const Expected& expected, const void* c, size_t set, size_t row, size_t col) const;
  uint64_t CountPoison(const void* c) const;

  const Inputs& inputs_;
  const ElementType& type_;
  size_t m_;
  size_t n_;
  size_t k_;
  int rank_;
  int n_ranks_;
  uint64_t seed_;
  bool sampled_;
  std::vector<std::vector<Expected>> cache_;  // of each set, in Compute's order; empty: not computed yet
};

}  // namespace tc::perf

#endif  // TC_PERF_REFERENCE_H_
