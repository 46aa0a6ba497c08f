#include "inputs.h"

#include <algorithm>
#include <array>

namespace tc::perf {
namespace {

const std::byte* ElementAt(const NpyMatrix& matrix, size_t row, size_t col) {
  return matrix.bytes.data() + (row * matrix.cols + col) * matrix.type->bytes;
}

}  // namespace

void GeneratedInputs::Generate(size_t set, uint64_t matrix, size_t row, size_t col, std::span<float> values) const {
  const uint64_t key = RowKey(MatrixOf(seed_, set, matrix, type_.code), row);
  if (set == 1) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = Eighth(RandomAt(key, col + i));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = FullPrecision(RandomAt(key, col + i));
  if (type_.code == tcFloat32) return;
  // What the operator gets is rounded to its type, so that is what the reference has to start from.
  std::array<uint16_t, 256> rounded;
  for (size_t i = 0; i < values.size(); i += rounded.size()) {
    const std::span<float> part = values.subspan(i, std::min(rounded.size(), values.size() - i));
    Encode(type_, part, rounded.data());
    Decode(type_, rounded.data(), part);
  }
}

void GeneratedInputs::ReadA(size_t set, size_t row, size_t col, std::span<float> values) const {
  Generate(set, kMatrixA, row, col, values);
}

void GeneratedInputs::ReadB(size_t set, int rank, size_t row, size_t col, std::span<float> values) const {
  Generate(set, MatrixB(rank), row, col, values);
}

void ArrayInputs::ReadA(size_t, size_t row, size_t col, std::span<float> values) const {
  Decode(*a_.type, ElementAt(a_, row, col), values);
}

void ArrayInputs::ReadB(size_t, int, size_t row, size_t col, std::span<float> values) const {
  if (b_layout_ == tcBLayoutNK) return Decode(*b_.type, ElementAt(b_, row, col), values);
  for (size_t i = 0; i < values.size(); ++i) Decode(*b_.type, ElementAt(b_, col + i, row), {&values[i], 1});
}

}  // namespace tc::perf
