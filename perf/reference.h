// What a fused GEMM should have computed, in fp64, and how far from it a result may be.
#ifndef TC_PERF_REFERENCE_H_
#define TC_PERF_REFERENCE_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "inputs.h"

namespace tc::perf {

// A sum of products in fp64, and the same sum of their magnitudes, which is what rounding errors are measured by.
struct Expected {
  double value;
  double magnitude;
};

Expected Dot(std::span<const float> a, std::span<const float> b);

// True when an operator that accumulates k products in fp32, in any order, and rounds once to `type` may return `got`.
bool IsWithinTolerance(const ElementType& type, size_t k, const Expected& expected, float got);

// True when `got` is the sum itself, rounded once to nearest. For inputs whose partial sums fp32 holds exactly.
bool IsExactly(const ElementType& type, const Expected& expected, float got);

// Checks c [m,n] and gatheredA [m,k] of one rank.
class GemmReference {
 public:
  // Up to this many products every element is computed, else a sample.
  static constexpr uint64_t kFullCheckProducts = uint64_t{1} << 27;
  // Elements of a sample at least; it also takes the first and the last row and column and those of each rank's rows.
  static constexpr size_t kSampledElements = 4096;

  // Ranks own ceil(m / n_ranks) rows of A each. `inputs` must outlive this.
  GemmReference(const Inputs& inputs, size_t m, size_t n, size_t k, int rank, int n_ranks, uint64_t seed);

  bool IsSampled() const { return sampled_; }
  // Wrong elements of the packed c that an iteration on `set` has left. Whatever the sample, an element that still
  // holds its poison of 0xff bytes is wrong. `iteration` chooses the sample.
  uint64_t CountWrong(const void* c, size_t set, uint64_t iteration);
  // Elements of the packed gatheredA that are not A's, bit by bit.
  uint64_t CountWrongGathered(const void* gathered, size_t set) const;

 private:
  struct Grid {
    std::vector<size_t> rows;
    std::vector<size_t> cols;
  };

  Grid FullGrid() const;
  Grid SampledGrid(uint64_t iteration) const;
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
