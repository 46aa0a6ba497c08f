// Matrix product of one tile on the CPU: fp32, fp16 and bf16 inputs, fp32 accumulation, for the best instruction set
// that the processor has (AVX-512, AVX2, else portable), chosen at run time.
#pragma once

#include <cstddef>
#include <vector>

#include "tc.h"

namespace tc::host {

// c[i, j] = round(alpha * sum_k a[i, k] * b[k, j]) for 0 <= i < rows, 0 <= j < cols.
// The sum's order depends on k alone, never on rows, cols or the tile's place: on one target an element has the same
// bits however the matrix is cut into tiles and whichever rank computes it. Rounding is to nearest even; overflow gives
// infinity. Pointers are aligned to their element, no more. c overlaps neither a nor b. rows or cols of 0: nothing is
// touched.
struct GemmTile {
  tcDataType_t in_type;   // of a and b: tcFloat32, tcFloat16, tcBfloat16
  tcDataType_t out_type;  // of c: the same three
  tcBLayout_t b_layout;   // NK: b[j, k] at b + j * ldb + k; KN: b[k, j] at b + k * ldb + j
  size_t rows, cols, k;   // k >= 1
  const void* a;          // [rows, k], row i at a + i * lda elements
  size_t lda;
  const void* b;  // the tile's first column is already applied
  size_t ldb;
  void* c;  // [rows, cols], row i at c + i * ldc elements; what lies between the rows stays as it is
  size_t ldc;
  float alpha;
};

// Working memory of one thread, about 0.5 MiB, allocated by its first tile and reused by the next ones, also of other
// products.
class GemmScratch {
 public:
  // At least `floats` floats, aligned to 64 bytes, contents arbitrary; valid until the next call.
  float* Take(size_t floats);
  size_t bytes() const { return buffer_.capacity() * sizeof(float); }

 private:
  std::vector<float> buffer_;
};

// Threads may call it at the same time, each with its own scratch.
void Gemm(const GemmTile& tile, GemmScratch& scratch);

// What Gemm runs on here: "AVX3" (AVX-512), "AVX2", or the compiler's baseline ("SCALAR", "EMU128", "NEON").
const char* GemmTargetName();

// Names of all targets this processor can run, best first; GemmOnTarget computes with one of them (tests compare them).
std::vector<const char*> GemmTargetNames();
void GemmOnTarget(const char* target, const GemmTile& tile, GemmScratch& scratch);

}  // namespace tc::host
