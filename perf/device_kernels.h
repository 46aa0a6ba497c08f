// Makes and checks the matrices of a fused GEMM on a GPU: the same numbers as inputs.h makes and the same judgement as
// reference.h's. Everything is enqueued on `stream`, and counts are added to what is at `count` in device memory.
#ifndef TC_PERF_DEVICE_KERNELS_H_
#define TC_PERF_DEVICE_KERNELS_H_

#include <cuda_runtime_api.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "generator.h"
#include "tolerance.h"

namespace tc::perf {

using Count = unsigned long long;

// Rows [first_row, first_row + rows) of a made-up matrix, [rows, cols] packed, or [cols, rows] when transposed.
struct MatrixPart {
  GeneratedMatrix matrix;
  size_t first_row;
  size_t rows;
  size_t cols;
  bool transposed;
};

// c [m,n] = a [m,k] · bᵀ as it should be, in some rows and some columns of it.
struct ProductCheck {
  GeneratedMatrix a;
  GeneratedMatrix b;
  ElementType type;
  size_t n;
  size_t k;
  bool exact;          // every element must be the sum itself, rounded once
  bool poison_apart;   // elements that still hold 0xff bytes are not counted here but by CountPoison
  const size_t* rows;  // [n_rows], device memory; nullptr: 0, 1, ...
  const size_t* cols;  // [n_cols], likewise
  size_t n_rows;
  size_t n_cols;
  const void* c;
};

cudaError_t Fill(const MatrixPart& part, void* target, cudaStream_t stream);
// Elements that are not the part's, bit by bit.
cudaError_t CountDifferences(const MatrixPart& part, const void* stored, Count* count, cudaStream_t stream);
cudaError_t CountWrongProducts(const ProductCheck& check, Count* count, cudaStream_t stream);
// Elements of 0xff bytes.
cudaError_t CountPoison(const ElementType& type, const void* elements, size_t n, Count* count, cudaStream_t stream);
// Bytes that are not 0xff.
cudaError_t CountWritten(const void* zone, size_t bytes, Count* count, cudaStream_t stream);
// Long enough for the host to enqueue what an iteration times: `calls` operators or graphs.
inline uint64_t NanosecondsToEnqueue(int calls) {
  constexpr uint64_t kOneCall = 10'000;
  constexpr uint64_t kMost = 2'000'000;
  return std::min(kMost, kOneCall * (3 + static_cast<uint64_t>(calls)));
}
// Keeps the stream busy, so that what is enqueued meanwhile starts without the host's delays.
cudaError_t Pause(uint64_t nanoseconds, cudaStream_t stream);

}  // namespace tc::perf

#endif  // TC_PERF_DEVICE_KERNELS_H_
