// Matrix product of one tile on the CPU: fp32, fp16 and bf16 inputs, fp32 accumulation, for the best instruction set that
// the processor has (AVX-512, AVX2, else portable), chosen at run time.
#pragma once

#include <cstddef>
#include <vector>

#include "tc.h"

namespace tc::host {

// c[i, j] = round(alpha * sum_k a[i, k] * b[k, j]) for 0 <= i < rows, 0 <= j < cols.
// The sum's order depends on k alone, never on rows, cols or the tile's place: an element has the same bits however the
// matrix is cut into tiles and whichever rank computes it.
struct GemmTile {
  tcDataType_t in_type;   // of a and b: tcFloat32, tcFloat16, tcBfloat16
  tcDataType_t out_type;  // of c: the same three
  tcBLayout_t b_layout;   // NK: b[j, k] at b + j * ldb + k; KN: b[k, j] at b + k * ldb + j
  size_t rows, cols, k;
  const void* a;          // [rows, k], row i at a + i * lda elements
  size_t lda;
  const void* b;          // the tile's first column is already applied
  size_t ldb;
  void* c;                // [rows, cols], row i at c + i * ldc elements
  size_t ldc;
  float alpha;
};

// Reused between tiles by one thread, so that a tile allocates nothing once warm.
class GemmScratch {
 public:
  float* Take(size_t floats);

 private:
  std::vector<float> buffer_;
};

void Gemm(const GemmTile& tile, GemmScratch& scratch);

// "AVX3", "AVX2", "EMU128", ...: what Gemm runs on here.
const char* GemmTargetName();

// Names of all targets this processor can run, best first; GemmOnTarget computes with one of them (tests compare them).
std::vector<const char*> GemmTargetNames();
void GemmOnTarget(const char* target, const GemmTile& tile, GemmScratch& scratch);

}  // namespace tc::host
