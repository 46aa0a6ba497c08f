#include "inputs.h"

#include <algorithm>
#include <array>

namespace tc::perf {
namespace {

constexpr uint64_t kStep = 0x9e3779b97f4a7c15;

// An odd multiple of 2^-24 in (-1, 1): exact in fp32, and never zero.
float FullPrecision(uint64_t random) {
  const auto numerator = static_cast<int32_t>(random >> 40 << 1 | 1);
  return static_cast<float>(numerator - (1 << 24)) * 0x1p-24f;
}

// One of ±1/8, ±2/8, ... ±8/8.
float Eighth(uint64_t random) {
  const auto numerator = static_cast<int32_t>(random >> 61) + 1;
  return static_cast<float>((random >> 60 & 1) != 0 ? -numerator : numerator) * 0.125f;
}

const std::byte* ElementAt(const NpyMatrix& matrix, size_t row, size_t col) {
  return matrix.bytes.data() + (row * matrix.cols + col) * matrix.type->bytes;
}

}  // namespace

uint64_t Mix(uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

void GeneratedInputs::Generate(size_t set, uint64_t matrix, size_t row, size_t col, std::span<float> values) const {
  const uint64_t stream = Mix(Mix(Mix(seed_ + kStep) + set * kStep) + matrix * kStep);
  const uint64_t key = Mix(stream + row * kStep);
  if (set == 1) {
    for (size_t i = 0; i < values.size(); ++i) values[i] = Eighth(Mix(key + (col + i) * kStep));
    return;
  }
  for (size_t i = 0; i < values.size(); ++i) values[i] = FullPrecision(Mix(key + (col + i) * kStep));
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
  Generate(set, 0, row, col, values);
}

void GeneratedInputs::ReadB(size_t set, int rank, size_t row, size_t col, std::span<float> values) const {
  Generate(set, 1 + static_cast<uint64_t>(rank), row, col, values);
}

void ArrayInputs::ReadA(size_t, size_t row, size_t col, std::span<float> values) const {
  Decode(*a_.type, ElementAt(a_, row, col), values);
}

void ArrayInputs::ReadB(size_t, int, size_t row, size_t col, std::span<float> values) const {
  if (b_layout_ == tcBLayoutNK) return Decode(*b_.type, ElementAt(b_, row, col), values);
  for (size_t i = 0; i < values.size(); ++i) Decode(*b_.type, ElementAt(b_, col + i, row), {&values[i], 1});
}

}  // namespace tc::perf
