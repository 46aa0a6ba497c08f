// The matrices that go into a fused GEMM: made up from a seed, or the user's own. Any part of them can be asked for at
// any time on any rank, so that no rank needs another one to know what its result should be.
#ifndef TC_PERF_INPUTS_H_
#define TC_PERF_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "generator.h"
#include "npy.h"

namespace tc::perf {

class Inputs {
 public:
  virtual ~Inputs() = default;

  virtual const ElementType& Type() const = 0;
  // Iterations take turns with this many pairs of A and b, so that what an earlier one left behind is seen as wrong.
  virtual size_t Sets() const = 0;
  // True: fp32 holds every partial sum of k products of this set exactly, in whatever order they are added.
  virtual bool Exact(size_t set, size_t k) const = 0;
  // The seed of matrices that follow from one (generator.h), so that a GPU can make and check them itself.
  virtual std::optional<uint64_t> Seed() const { return std::nullopt; }
  // Elements [col, col + values.size()) of one row of A [m,k], the same on every rank.
  virtual void ReadA(size_t set, size_t row, size_t col, std::span<float> values) const = 0;
  // The same of one row of the rank's own b, taken as [n,k].
  virtual void ReadB(size_t set, int rank, size_t row, size_t col, std::span<float> values) const = 0;
};

// Pseudo-random, never zero. Set 0 is evenly spread over (-1, 1) with all the bits that the type has: it shows lost
// precision. Set 1 holds multiples of 1/8 in [-1, 1], whose products are multiples of 1/64: their sums are exact, so
// that a single product missing, doubled or stale is a wrong element. Each rank has its own b.
class GeneratedInputs final : public Inputs {
 public:
  GeneratedInputs(const ElementType& type, uint64_t seed) : type_(type), seed_(seed) {}

  const ElementType& Type() const override { return type_; }
  size_t Sets() const override { return 2; }
  bool Exact(size_t set, size_t k) const override { return set == 1 && k <= (size_t{1} << 18); }
  std::optional<uint64_t> Seed() const override { return seed_; }
  void ReadA(size_t set, size_t row, size_t col, std::span<float> values) const override;
  void ReadB(size_t set, int rank, size_t row, size_t col, std::span<float> values) const override;

 private:
  void Generate(size_t set, uint64_t matrix, size_t row, size_t col, std::span<float> values) const;

  const ElementType& type_;
  uint64_t seed_;
};

// A [m,k] and B [n,k] (b_layout nk) or [k,n] (kn), the same on every rank. Both must outlive this.
class ArrayInputs final : public Inputs {
 public:
  ArrayInputs(const NpyMatrix& a, const NpyMatrix& b, tcBLayout_t b_layout) : a_(a), b_(b), b_layout_(b_layout) {}

  const ElementType& Type() const override { return *a_.type; }
  size_t Sets() const override { return 1; }
  bool Exact(size_t, size_t) const override { return false; }
  void ReadA(size_t set, size_t row, size_t col, std::span<float> values) const override;
  void ReadB(size_t set, int rank, size_t row, size_t col, std::span<float> values) const override;

 private:
  const NpyMatrix& a_;
  const NpyMatrix& b_;
  tcBLayout_t b_layout_;
};

}  // namespace tc::perf

#endif  // TC_PERF_INPUTS_H_
