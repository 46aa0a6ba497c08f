// One tile of a matrix product in true fp32, by fused multiply-add: no tensor core, no tf32. See mma_gemm.cuh for the
// contract. The sum's order depends on k alone.
#pragma once

#include <cstdint>

namespace tc::cuda {

template <bool kB_KN>
struct FmaGemm {
  using Element = float;
  static constexpr int kThreads = 256;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 16;
  static constexpr int kPitch = kTileM + 4;  // a tile lies transposed: k-major rows, padded against bank conflicts
  static constexpr int kSharedBytes = 2 * kTileK * kPitch * 4;

  template <class RowOfA, class Store>
  static __device__ void Compute(char* shared_memory, const RowOfA& a_row, const float* b, uint64_t ldb, uint64_t n,
                                 uint64_t k, uint64_t col, const Store& store) {
    auto* a_tile = reinterpret_cast<float*>(shared_memory);
    auto* b_tile = a_tile + kTileK * kPitch;
    const int thread = threadIdx.x;
    const int first_m = thread / 16 * 4;  // rows first_m + {0..3} and 64 on, columns likewise
    const int first_n = thread % 16 * 4;
    const int k_of_thread = thread % kTileK;
    const float* a_rows[8];
    for (int i = 0; i < 8; ++i) a_rows[i] = a_row(thread / kTileK + 16 * i);

    float sum[8][8] = {};
    for (uint64_t k0 = 0; k0 < k; k0 += kTileK) {
      const uint64_t kk = k0 + k_of_thread;
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        const int row = thread / kTileK + 16 * i;
        a_tile[k_of_thread * kPitch + row] = a_rows[i] != nullptr && kk < k ? a_rows[i][kk] : 0.0f;
        if constexpr (kB_KN) {
          const int k_row = thread / 128 + 2 * i;
          const uint64_t column = col + thread % 128;
          b_tile[k_row * kPitch + thread % 128] = k0 + k_row < k && column < n ? b[(k0 + k_row) * ldb + column] : 0.0f;
        } else {
          b_tile[k_of_thread * kPitch + row] = kk < k && col + row < n ? b[(col + row) * ldb + kk] : 0.0f;
        }
      }
      __syncthreads();
#pragma unroll
      for (int step = 0; step < kTileK; ++step) {
        float a_part[8];
        float b_part[8];
#pragma unroll
        for (int i = 0; i < 8; ++i) {
          a_part[i] = a_tile[step * kPitch + first_m + i % 4 + i / 4 * 64];
          b_part[i] = b_tile[step * kPitch + first_n + i % 4 + i / 4 * 64];
        }
#pragma unroll
        for (int i = 0; i < 8; ++i) {
#pragma unroll
          for (int j = 0; j < 8; ++j) sum[i][j] = fmaf(a_part[i], b_part[j], sum[i][j]);
        }
      }
      __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < 8; ++i) {
#pragma unroll
      for (int j = 0; j < 8; j += 2) {
        store(first_m + i % 4 + i / 4 * 64, col + first_n + j % 4 + j / 4 * 64, sum[i][j], sum[i][j + 1]);
      }
    }
  }
};

}  // namespace tc::cuda
