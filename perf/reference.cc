#include "reference.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numeric>
#include <set>

#include "shards.h"

namespace tc::perf {
namespace {

// Expected values of full checks up to this many elements a set are kept, so that each is computed once and not once an
// iteration.
constexpr size_t kCachedElements = size_t{1} << 20;

std::vector<size_t> AllIndices(size_t extent) {
  std::vector<size_t> indices(extent);
  std::iota(indices.begin(), indices.end(), size_t{0});
  return indices;
}

// Sorted: `always` and `count` random ones of 0..extent-1, or all of them when there are few.
std::vector<size_t> SampleIndices(size_t extent, size_t count, const std::vector<size_t>& always, uint64_t key) {
  if (extent <= always.size() + 2 * count) return AllIndices(extent);
  std::set<size_t> chosen(always.begin(), always.end());
  const size_t wanted = chosen.size() + count;
  for (uint64_t draw = 0; chosen.size() < wanted; ++draw) chosen.insert(Mix(key + draw) % extent);
  return {chosen.begin(), chosen.end()};
}

}  // namespace

Expected Dot(std::span<const float> a, std::span<const float> b) {
  // Lanes, because the order of an fp64 sum is the compiler's to keep and one chain of additions is slow.
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> values = {};
  std::array<double, kLanes> magnitudes = {};
  size_t i = 0;
  for (; i + kLanes <= a.size(); i += kLanes) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      const double product = static_cast<double>(a[i + lane]) * static_cast<double>(b[i + lane]);
      values[lane] += product;
      magnitudes[lane] += std::fabs(product);
    }
  }
  Expected sum = {0, 0};
  for (; i < a.size(); ++i) {
    const double product = static_cast<double>(a[i]) * static_cast<double>(b[i]);
    sum.value += product;
    sum.magnitude += std::fabs(product);
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum.value += values[lane];
    sum.magnitude += magnitudes[lane];
  }
  return sum;
}

GemmReference::GemmReference(const Inputs& inputs, size_t m, size_t n, size_t k, int rank, int n_ranks, uint64_t seed)
    : inputs_(inputs),
      type_(inputs.Type()),
      m_(m),
      n_(n),
      k_(k),
      rank_(rank),
      n_ranks_(n_ranks),
      seed_(seed),
      sampled_(static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k) >
               static_cast<double>(kFullCheckProducts)),
      cache_(inputs.Sets()) {}

GemmReference::Grid GemmReference::FullGrid() const { return {AllIndices(m_), AllIndices(n_)}; }

GemmReference::Grid GemmReference::SampledGrid(uint64_t iteration) const {
  constexpr size_t kSide = 64;
  static_assert(kSide * kSide >= kSampledElements);
  std::vector<size_t> row_edges = {0, m_ - 1};
  for (int rank = 0; rank < n_ranks_; ++rank) {
    const Shard shard = ShardOf(m_, n_ranks_, rank);
    if (shard.rows > 0) row_edges.insert(row_edges.end(), {shard.first, shard.first + shard.rows - 1});
  }
  const uint64_t key = Mix(Mix(seed_ + static_cast<uint64_t>(rank_)) + iteration);
  // A matrix with few rows is sampled in more columns, and the other way round.
  const size_t rows = std::max(kSide, kSampledElements / std::min(n_, kSide));
  const size_t cols = std::max(kSide, kSampledElements / std::min(m_, kSide));
  return {SampleIndices(m_, rows, row_edges, Mix(key)), SampleIndices(n_, cols, {0, n_ - 1}, Mix(key + 1))};
}

template <typename Visit>
void GemmReference::Compute(const Grid& grid, size_t set, const Visit& visit) const {
  // Rows of b are held in blocks: each row of A is made anew for a block, which costs little beside its products.
  constexpr size_t kBlock = 64;
  std::vector<float> a(k_);
  std::vector<float> b(std::min(kBlock, grid.cols.size()) * k_);
  for (size_t first = 0; first < grid.cols.size(); first += kBlock) {
    const size_t count = std::min(kBlock, grid.cols.size() - first);
    for (size_t j = 0; j < count; ++j) inputs_.ReadB(set, rank_, grid.cols[first + j], 0, {&b[j * k_], k_});
    for (const size_t row : grid.rows) {
      inputs_.ReadA(set, row, 0, a);
      for (size_t j = 0; j < count; ++j) visit(row, grid.cols[first + j], Dot(a, {&b[j * k_], k_}));
    }
  }
}

bool GemmReference::IsRight(const Expected& expected, const void* c, size_t set, size_t row, size_t col) const {
  float got;
  Decode(type_, static_cast<const std::byte*>(c) + (row * n_ + col) * type_.bytes, {&got, 1});
  return inputs_.Exact(set, k_) ? IsExactly(type_, expected, got) : IsWithinTolerance(type_, k_, expected, got);
}

uint64_t GemmReference::CountWrong(const void* c, size_t set, uint64_t iteration) {
  if (m_ == 0 || n_ == 0) return 0;
  uint64_t wrong = 0;
  if (sampled_) {
    wrong = CountPoison(c);
    Compute(SampledGrid(iteration), set, [&](size_t row, size_t col, const Expected& expected) {
      const bool counted = ElementBits(type_, c, row * n_ + col) == type_.all_bits;
      if (!counted && !IsRight(expected, c, set, row, col)) ++wrong;
    });
    return wrong;
  }
  const auto check = [&](size_t row, size_t col, const Expected& expected) {
    if (!IsRight(expected, c, set, row, col)) ++wrong;
  };
  const Grid grid = FullGrid();
  if (m_ * n_ > kCachedElements) {
    Compute(grid, set, check);
    return wrong;
  }
  std::vector<Expected>& cache = cache_[set];
  if (cache.empty()) {
    cache.resize(m_ * n_);
    Compute(grid, set, [&](size_t row, size_t col, const Expected& expected) { cache[row * n_ + col] = expected; });
  }
  for (size_t i = 0; i < cache.size(); ++i) check(i / n_, i % n_, cache[i]);
  return wrong;
}

uint64_t GemmReference::CountPoison(const void* c) const {
  uint64_t count = 0;
  for (size_t i = 0; i < m_ * n_; ++i) count += ElementBits(type_, c, i) == type_.all_bits ? 1 : 0;
  return count;
}

uint64_t GemmReference::CountWrongGathered(const void* gathered, size_t set) const {
  uint64_t wrong = 0;
  std::vector<float> values(k_);
  std::vector<std::byte> elements(k_ * type_.bytes);
  for (size_t row = 0; row < m_; ++row) {
    inputs_.ReadA(set, row, 0, values);
    Encode(type_, values, elements.data());
    const std::byte* got = static_cast<const std::byte*>(gathered) + row * elements.size();
    if (std::memcmp(got, elements.data(), elements.size()) == 0) continue;
    for (size_t i = 0; i < k_; ++i)
      wrong += ElementBits(type_, got, i) != ElementBits(type_, elements.data(), i) ? 1 : 0;
  }
  return wrong;
}

}  // namespace tc::perf
