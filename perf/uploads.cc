#include "uploads.h"

#include <algorithm>
#include <span>
#include <vector>

namespace tc::perf {
namespace {

// Bytes that are made on the host and copied at a time.
constexpr size_t kPieceBytes = size_t{1} << 20;

// Uploads a matrix of `rows` x `cols` elements, some rows at a time; fill(first, count, values) makes rows [first,
// first + count) of it.
template <typename Fill>
void Upload(Communicator& communicator, const ElementType& type, size_t rows, size_t cols, std::byte* target,
            const Fill& fill) {
  const size_t row_bytes = cols * type.bytes;
  if (rows == 0 || row_bytes == 0) return;
  const size_t piece_rows = std::clamp<size_t>(kPieceBytes / row_bytes, 1, rows);
  std::vector<float> values(piece_rows * cols);
  std::vector<std::byte> piece(piece_rows * row_bytes);
  for (size_t first = 0; first < rows; first += piece_rows) {
    const size_t count = std::min(piece_rows, rows - first);
    const std::span<float> made(values.data(), count * cols);
    fill(first, count, made);
    Encode(type, made, piece.data());
    communicator.Copy(target + first * row_bytes, piece.data(), count * row_bytes);
  }
}

}  // namespace

void UploadA(Communicator& communicator, const Inputs& inputs, size_t set, const Shard& shard, size_t k,
             std::byte* target) {
  const auto fill = [&](size_t first, size_t count, std::span<float> values) {
    for (size_t i = 0; i < count; ++i) inputs.ReadA(set, shard.first + first + i, 0, values.subspan(i * k, k));
  };
  Upload(communicator, inputs.Type(), shard.rows, k, target, fill);
}

void UploadB(Communicator& communicator, const Inputs& inputs, size_t set, size_t n, size_t k, tcBLayout_t layout,
             std::byte* target) {
  const int rank = communicator.Owner().Index();
  const auto fill_nk = [&](size_t first, size_t count, std::span<float> values) {
    for (size_t i = 0; i < count; ++i) inputs.ReadB(set, rank, first + i, 0, values.subspan(i * k, k));
  };
  const auto fill_kn = [&](size_t first, size_t count, std::span<float> values) {
    std::vector<float> column(count);
    for (size_t j = 0; j < n; ++j) {
      inputs.ReadB(set, rank, j, first, column);
      for (size_t i = 0; i < count; ++i) values[i * n + j] = column[i];
    }
  };
  if (layout == tcBLayoutNK) {
    Upload(communicator, inputs.Type(), n, k, target, fill_nk);
  } else {
    Upload(communicator, inputs.Type(), k, n, target, fill_kn);
  }
}

}  // namespace tc::perf
