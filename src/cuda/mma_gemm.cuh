// One tile of a matrix product by tensor cores through mma.sync: sm_80 and every later architecture, at most 99 KB of
// shared memory. fp16 and bf16, fp32 accumulation. Any k, any alignment: rows that do not start on 16 bytes take a
// slower path. The sum's order depends on k alone.
#pragma once

#include <cstdint>

#include "cuda/ptx/mma.cuh"

namespace tc::cuda {

// Both tile kernels: kThreads threads compute rows [0, kTileM) x columns [col, col + kTileN) of a product.
//   a_row(i)      where row i of the tile starts; NULL: there is no such row (it counts as zeros)
//   b, ldb        b[n, k] row-major, or, kB_KN, b[k, n]
//   store(i, j, v0, v1)  receives elements (i, j) and (i, j + 1) of the tile's sum, j absolute; called for every
//   element of
//                 the tile, also those outside the matrix
// All threads call it together; shared memory may be reused after a __syncthreads by the caller.
template <class Element_, bool kB_KN>
struct MmaGemm {
  using Element = Element_;
  static constexpr int kThreads = 256;
  static constexpr int kTileM = 128;
  static constexpr int kTileN = 128;
  static constexpr int kTileK = 64;
  static constexpr int kStages = 3;
  static constexpr int kStageBytes = (kTileM + kTileN) * kTileK * 2;
  static constexpr int kSharedBytes = kStages * kStageBytes;
  static_assert(kSharedBytes <= 99 * 1024);

  // Eight elements from row start `row`, columns [at, at + 8), of which those at or behind `limit` are zero.
  static __device__ void LoadChunk(uint32_t shared, const Element* row, uint64_t at, uint64_t limit) {
    const uint32_t valid = row == nullptr || at >= limit ? 0 : limit - at < 8 ? static_cast<uint32_t>(limit - at) : 8;
    if (valid == 8 && reinterpret_cast<uintptr_t>(row) % 16 == 0) {
      ptx::CopyAsync16(shared, row + at);
      return;
    }
    uint32_t words[4] = {};
    const auto* elements = reinterpret_cast<const uint16_t*>(row + at);
    for (uint32_t i = 0; i < valid; ++i) words[i / 2] |= static_cast<uint32_t>(elements[i]) << (i % 2 * 16);
    asm volatile("st.shared.v4.b32 [%0], {%1, %2, %3, %4};" ::"r"(shared), "r"(words[0]), "r"(words[1]), "r"(words[2]),
                 "r"(words[3])
                 : "memory");
  }

  template <class RowOfA, class Store>
  static __device__ void Compute(char* shared_memory, const RowOfA& a_row, const Element* b, uint64_t ldb, uint64_t n,
                                 uint64_t k, uint64_t col, const Store& store) {
    const uint32_t shared = ptx::SharedAddress(shared_memory);
    const int thread = threadIdx.x;
    const int warp = thread / 32;
    const int lane = thread % 32;
    const int warp_m = warp / 4 * 64;  // 2 x 4 warps of 64 x 32
    const int warp_n = warp % 4 * 32;

    // This thread copies 16-byte chunk `chunk` of rows first_row + 32 i of a, and likewise of b.
    const int chunk = thread % 8;
    const int first_row = thread / 8;
    const Element* a_rows[4];
    for (int i = 0; i < 4; ++i) a_rows[i] = a_row(first_row + 32 * i);

    const auto load = [&](int stage, uint64_t k0) {
      const uint32_t a_tile = shared + stage * kStageBytes;
      const uint32_t b_tile = a_tile + kTileM * kTileK * 2;
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int row = first_row + 32 * i;
        LoadChunk(a_tile + row * 128 + ((chunk ^ row) % 8) * 16, a_rows[i], k0 + chunk * 8, k);
      }
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        if constexpr (kB_KN) {  // rows of k, 16 chunks each
          const int row = thread / 16 + 16 * i;
          const int b_chunk = thread % 16;
          const Element* start = k0 + row < k ? b + (k0 + row) * ldb : nullptr;
          LoadChunk(b_tile + row * 256 + (b_chunk ^ row % 8) * 16, start, col + b_chunk * 8, n);
        } else {
          const int row = first_row + 32 * i;
          const Element* start = col + row < n ? b + (col + row) * ldb : nullptr;
          LoadChunk(b_tile + row * 128 + ((chunk ^ row) % 8) * 16, start, k0 + chunk * 8, k);
        }
      }
    };

    float sum[4][4][4] = {};
    const auto multiply = [&](int stage) {
      const uint32_t a_tile = shared + stage * kStageBytes;
      const uint32_t b_tile = a_tile + kTileM * kTileK * 2;
#pragma unroll
      for (int step = 0; step < kTileK / 16; ++step) {
        uint32_t a_part[4][4];
        uint32_t b_part[2][4];
#pragma unroll
        for (int i = 0; i < 4; ++i) {
          const int row = warp_m + 16 * i + lane % 16;
          ptx::LoadMatrix4(a_part[i], a_tile + row * 128 + ((2 * step + lane / 16) ^ (row % 8)) * 16);
        }
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if constexpr (kB_KN) {
            const int row = 16 * step + lane % 16;
            const int b_chunk = (warp_n + 16 * j) / 8 + lane / 16;
            ptx::LoadMatrix4Transposed(b_part[j], b_tile + row * 256 + (b_chunk ^ row % 8) * 16);
          } else {
            const int row = warp_n + 16 * j + lane % 8 + lane / 16 * 8;
            ptx::LoadMatrix4(b_part[j], b_tile + row * 128 + ((2 * step + lane / 8 % 2) ^ (row % 8)) * 16);
          }
        }
#pragma unroll
        for (int i = 0; i < 4; ++i) {
#pragma unroll
          for (int j = 0; j < 4; ++j) {
            ptx::Mma16816(sum[i][j], a_part[i], b_part[j / 2][j % 2 * 2], b_part[j / 2][j % 2 * 2 + 1], Element());
          }
        }
      }
    };

    const uint64_t steps = (k + kTileK - 1) / kTileK;
#pragma unroll
    for (int stage = 0; stage < kStages - 1; ++stage) {
      if (stage < steps) load(stage, stage * uint64_t{kTileK});
      ptx::CommitCopies();
    }
    int reading = 0;
    for (uint64_t step = 0; step < steps; ++step) {
      ptx::WaitCopies<kStages - 2>();
      __syncthreads();  // the stage is full for all, and the one before it is free
      const uint64_t next = step + kStages - 1;
      if (next < steps) load((reading + kStages - 1) % kStages, next * kTileK);
      ptx::CommitCopies();
      multiply(reading);
      reading = (reading + 1) % kStages;
    }
    ptx::WaitCopies<0>();

#pragma unroll
    for (int i = 0; i < 4; ++i) {
#pragma unroll
      for (int j = 0; j < 4; ++j) {
        const int row = warp_m + 16 * i + lane / 4;
        const uint64_t column = col + warp_n + 8 * j + lane % 4 * 2;
        store(row, column, sum[i][j][0], sum[i][j][1]);
        store(row + 8, column, sum[i][j][2], sum[i][j][3]);
      }
    }
  }
};

}  // namespace tc::cuda
