// A matrix product by Hopper's own instructions (sm_90a): one warp loads tiles through the copy engine, two warpgroups
// multiply. Persistent; clusters of two blocks load what both need once. fp16 and bf16, fp32 accumulation. The sum's
// order depends on the shape of the tiles and on k, not on timing.
#pragma once

#include <cuda.h>

#include <cstdint>

#include "cuda/ptx/barrier.cuh"
#include "cuda/ptx/mbarrier.cuh"
#include "cuda/ptx/memory.cuh"
#include "cuda/ptx/mma.cuh"
#include "cuda/ptx/tma.cuh"
#include "cuda/ptx/wgmma.cuh"
#include "order/gemm_tiles.h"
#include "tc.h"

namespace tc::cuda {

struct GemmEpilogue {
  float alpha = 1;
  const void* bias = nullptr;      // [n], of the output's type; NULL: none
  const void* residual = nullptr;  // shaped and laid out as c; NULL: none
  tcActivation_t activation = tcActivationNone;
};

struct HopperGemmParams {
  CUtensorMap a;
  CUtensorMap b;
  GemmGrid grid;
  uint32_t m;
  uint32_t n;
  void* c;
  uint64_t ldc;
  bool wide_stores;  // every row of c starts on 16 bytes
  GemmEpilogue epilogue;
  float* partials;     // [blocks' tiles, splits, elements of a tile]; splits > 1 only
  uint32_t* arrivals;  // [blocks' tiles, 2], zeros; left so
};

// What a fusion may do at a tile. Each function is called in one thread.
struct NoGemmHooks {
  // In the thread that loads, before the first load of rows [row, row + rows) of a. What it acquires is ordered before
  // the loads.
  static constexpr bool kWaits = false;
  __device__ void AwaitRows(uint32_t /*row*/, uint32_t /*rows*/) const {}
  // Where the work with this index lies.
  __device__ GemmWork At(const GemmGrid& grid, uint32_t index) const { return grid.At(index); }
  // After rows [row, row + rows) of a tile have been stored by a warpgroup; its other threads' stores come before.
  static constexpr bool kSignals = false;
  __device__ void StoredRows(uint32_t /*row*/, uint32_t /*rows*/, uint32_t /*col*/) const {}
};

template <class Element_, bool kB_KN_, int kShape_>
struct HopperGemm {
  using Element = Element_;
  static constexpr bool kB_KN = kB_KN_;
  static constexpr GemmTileShape kShape = kGemmTileShapes[kShape_];
  static constexpr int kTileM = kShape.rows;
  static constexpr int kTileN = kShape.cols;
  static constexpr int kTileK = kGemmTileK;
  static constexpr int kClusterBlocks = kShape.Blocks();
  static constexpr ClusterShare kShare = kShape.share;
  static_assert(!kB_KN || TakesContiguousColumns(kShape));

  static constexpr int kMathWarpgroups = 2;
  static constexpr int kThreads = 128 * (1 + kMathWarpgroups);
  // Warpgroups side by side along m where there are rows for both, else along n.
  static constexpr bool kSideBySideM = kTileM >= 128;
  static constexpr int kGroupM = kSideBySideM ? kTileM / kMathWarpgroups : kTileM;
  static constexpr int kGroupN = kSideBySideM ? kTileN : kTileN / kMathWarpgroups;
  static constexpr int kBlocksM = kGroupM / 64;  // products of 64 rows
  static constexpr int kSums = kGroupN / 2;      // a thread's elements of one
  static_assert(kGroupM % 64 == 0 && kGroupN % 32 == 0 && kBlocksM * kSums <= 128);
  static_assert(!kB_KN || kGroupN % 64 == 0);

  static constexpr int kRowBytes = kTileK * 2;
  static_assert(kRowBytes == 128, "the swizzle's span");
  static constexpr int kABytes = kTileM * kRowBytes;
  static constexpr int kBBytes = kTileN * kRowBytes;
  static constexpr int kStageBytes = kABytes + kBBytes;
  static constexpr int kChunkBytes = kTileK * 128;  // 64 columns of a b whose columns are contiguous
  static constexpr int kAlignment = 1024;           // of a swizzled tile
  static constexpr int kSpare = kAlignment + 256;   // to align, and barriers
  static constexpr int kSharedLimit = 227 * 1024;
  static constexpr int kStages = (kSharedLimit - kSpare) / kStageBytes;
  static constexpr int kSharedBytes = kStages * kStageBytes + kSpare;
  static_assert(kStages >= 4 && kStages * 16 + 8 <= 256);

  // The boxes of the tensor maps: {contiguous, other}.
  static constexpr int kABoxRows = kShare == ClusterShare::kA ? kTileM / 2 : kTileM;
  static constexpr int kBBoxRows = (kB_KN ? kTileK : kTileN) / (kShare == ClusterShare::kB ? 2 : 1);

  // The stage and the parity of its barriers' phase.
  struct Position {
    uint32_t stage = 0;
    uint32_t parity = 0;
    __device__ void Next() {
      if (++stage < kStages) return;
      stage = 0;
      parity ^= 1;
    }
  };

  struct Shared {
    uint32_t stages;
    uint32_t barriers;
    __device__ explicit Shared(uint32_t start) {
      stages = (start + kAlignment - 1) / kAlignment * kAlignment;
      barriers = stages + kStages * kStageBytes;
    }
    __device__ uint32_t A(uint32_t stage) const { return stages + stage * kStageBytes; }
    __device__ uint32_t B(uint32_t stage) const { return A(stage) + kABytes; }
    __device__ uint32_t Full(uint32_t stage) const { return barriers + stage * 8; }
    __device__ uint32_t Empty(uint32_t stage) const { return barriers + (kStages + stage) * 8; }
  };

  static __device__ uint32_t RowOf(const GemmWork& work, uint32_t block) {
    return kShare == ClusterShare::kB ? (work.row * 2 + block) * kTileM : work.row * kTileM;
  }
  static __device__ uint32_t ColOf(const GemmWork& work, uint32_t block) {
    return kShare == ClusterShare::kA ? (work.col * 2 + block) * kTileN : work.col * kTileN;
  }

  static __device__ void Await(uint32_t barrier, uint32_t parity) {
    while (!ptx::TryWait(barrier, parity)) {
    }
  }

  static __device__ void LoadStage(const HopperGemmParams& p, const Shared& shared, uint32_t stage, uint32_t row,
                                   uint32_t col, uint32_t k, uint32_t block) {
    constexpr uint16_t kBoth = 3;
    const uint32_t full = shared.Full(stage);
    ptx::ArriveExpecting(full, kStageBytes);
    if constexpr (kShare == ClusterShare::kA) {
      const uint32_t first = block * kABoxRows;
      ptx::LoadBoxForAll(shared.A(stage) + first * kRowBytes, &p.a, full, k, row + first, kBoth);
    } else {
      ptx::LoadBox(shared.A(stage), &p.a, full, k, row);
    }
    const uint32_t first = kShare == ClusterShare::kB ? block * kBBoxRows : 0;
    const auto load_b = [&](uint32_t to, int x, int y) {
      if constexpr (kShare == ClusterShare::kB) {
        ptx::LoadBoxForAll(to, &p.b, full, x, y, kBoth);
      } else {
        ptx::LoadBox(to, &p.b, full, x, y);
      }
    };
    if constexpr (kB_KN) {
#pragma unroll
      for (int chunk = 0; chunk < kTileN / 64; ++chunk)
        load_b(shared.B(stage) + chunk * kChunkBytes + first * 128, col + chunk * 64, k + first);
    } else {
      load_b(shared.B(stage) + first * kRowBytes, k, col + first);
    }
  }

  template <class Hooks>
  static __device__ void Load(const HopperGemmParams& p, const Hooks& hooks, const Shared& shared, uint32_t cluster,
                              uint32_t clusters, uint32_t block) {
    Position at;
    for (uint32_t index = cluster; index < p.grid.Works(); index += clusters) {
      const GemmWork work = hooks.At(p.grid, index);
      const uint32_t row = RowOf(work, block);
      const uint32_t col = ColOf(work, block);
      if constexpr (Hooks::kWaits) {
        hooks.AwaitRows(row, kTileM);
        ptx::FenceProxyAsync();
      }
      for (uint32_t step = work.k_begin; step < work.k_end; ++step) {
        Await(shared.Empty(at.stage), at.parity ^ 1);
        LoadStage(p, shared, at.stage, row, col, step * kTileK, block);
        at.Next();
      }
    }
  }

  using Sums = float[kBlocksM][kSums];

  static __device__ void MultiplyStage(Sums& sums, const Shared& shared, uint32_t stage, int group, bool add) {
    const uint32_t a_start = shared.A(stage) + (kSideBySideM ? group * kGroupM * kRowBytes : 0);
    constexpr int kGroupBBytes = kB_KN ? kGroupN / 64 * kChunkBytes : kGroupN * kRowBytes;
    const uint32_t b_start = shared.B(stage) + (kSideBySideM ? 0 : group * kGroupBBytes);
    const uint64_t a = ptx::OperandAt(a_start);
    const uint64_t b = ptx::OperandAt(b_start, kB_KN ? kChunkBytes : 16);
#pragma unroll
    for (int part = 0; part < kTileK / 16; ++part) {
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
        ptx::Multiply<Element, kB_KN, kGroupN>(sums[i], ptx::Advance(a, part * 32 + i * 64 * kRowBytes),
                                               ptx::Advance(b, part * (kB_KN ? 16 * 128 : 32)), add || part > 0);
      }
    }
  }

  static __device__ void Release(const Shared& shared, uint32_t stage) {
    const uint32_t lane = threadIdx.x % 32;
    if (lane < kClusterBlocks) ptx::ArriveAt(shared.Empty(stage), lane);
  }

  // The sum over a work's part of k.
  static __device__ void Multiply(Sums& sums, const Shared& shared, Position& at, uint32_t steps, int group) {
    uint32_t before = 0;
    for (uint32_t step = 0; step < steps; ++step) {
      Await(shared.Full(at.stage), at.parity);
      ptx::FenceWarpgroup();
      MultiplyStage(sums, shared, at.stage, group, step > 0);
      ptx::CommitWarpgroup();
      ptx::WaitWarpgroup<1>();
      if (step > 0) Release(shared, before);
      before = at.stage;
      at.Next();
    }
    ptx::WaitWarpgroup<0>();
    Release(shared, before);
  }

  // Adds up the parts of the warpgroup that comes last, always from the first part to the last. False: others are yet
  // to come.
  static __device__ bool Reduce(const HopperGemmParams& p, Sums& sums, const GemmWork& work, uint32_t block, int group,
                                uint32_t* last) {
    const int thread = threadIdx.x % 128;
    const uint64_t tile = (uint64_t{work.row} * p.grid.cols + work.col) * kClusterBlocks + block;
    constexpr uint64_t kPartElements = uint64_t{kTileM} * kTileN;
    float4* parts = reinterpret_cast<float4*>(p.partials + tile * p.grid.splits * kPartElements) +
                    group * (kPartElements / 8) + thread;
    float4* own = parts + work.split * (kPartElements / 4);
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int j = 0; j < kSums / 4; ++j) {
        __stcg(own + (i * (kSums / 4) + j) * 128,
               make_float4(sums[i][4 * j], sums[i][4 * j + 1], sums[i][4 * j + 2], sums[i][4 * j + 3]));
      }
    }
    ptx::SyncThreads(1 + group, 128);
    if (thread == 0) {
      uint32_t* arrivals = p.arrivals + tile * kMathWarpgroups + group;
      const bool is_last = ptx::AddAcqRelGpu(arrivals, 1) == p.grid.splits - 1;
      if (is_last) *arrivals = 0;
      last[group] = is_last;
    }
    ptx::SyncThreads(1 + group, 128);
    if (last[group] == 0) return false;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int j = 0; j < kSums; ++j) sums[i][j] = 0;
    }
    for (uint32_t split = 0; split < p.grid.splits; ++split) {
      const float4* part = parts + split * (kPartElements / 4);
#pragma unroll
      for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
        for (int j = 0; j < kSums / 4; ++j) {
          const float4 values = __ldcg(part + (i * (kSums / 4) + j) * 128);
          sums[i][4 * j] += values.x;
          sums[i][4 * j + 1] += values.y;
          sums[i][4 * j + 2] += values.z;
          sums[i][4 * j + 3] += values.w;
        }
      }
    }
    return true;
  }

  template <tcActivation_t kActivation>
  static __device__ float Activate(float x) {
    if constexpr (kActivation == tcActivationRelu) return x > 0 ? x : 0;
    if constexpr (kActivation == tcActivationGelu) return 0.5f * x * (1 + erff(x * 0.70710678f));
    if constexpr (kActivation == tcActivationSilu) return __fdividef(x, 1 + __expf(-x));
    return x;
  }

  static __device__ float2 PairAt(const void* elements, uint64_t at, bool second) {
    const auto* from = static_cast<const Element*>(elements) + at;
    return {static_cast<float>(from[0]), second ? static_cast<float>(from[1]) : 0};
  }

  // Two neighbours of a row, as they are stored. kScaled: neither bias nor residual.
  template <tcActivation_t kActivation, bool kScaled>
  static __device__ uint32_t Finish(const HopperGemmParams& p, float v0, float v1, uint32_t row, uint32_t col) {
    const GemmEpilogue& epilogue = p.epilogue;
    v0 *= epilogue.alpha;
    v1 *= epilogue.alpha;
    if constexpr (!kScaled) {
      const bool second = col + 1 < p.n;
      if (epilogue.bias != nullptr && col < p.n) {
        const float2 bias = PairAt(epilogue.bias, col, second);
        v0 += bias.x;
        v1 += bias.y;
      }
      if (epilogue.residual != nullptr && row < p.m && col < p.n) {
        const float2 residual = PairAt(epilogue.residual, row * p.ldc + col, second);
        v0 += residual.x;
        v1 += residual.y;
      }
    }
    v0 = Activate<kActivation>(v0);
    v1 = Activate<kActivation>(v1);
    const Element low = static_cast<Element>(v0);
    const Element high = static_cast<Element>(v1);
    return static_cast<uint32_t>(reinterpret_cast<const uint16_t&>(low)) |
           static_cast<uint32_t>(reinterpret_cast<const uint16_t&>(high)) << 16;
  }

  // Four lanes hold a row's 32 columns, lane q words 4 i + q; afterwards words 4 q + i.
  static __device__ void Transpose(uint32_t (&words)[4], uint32_t q) {
    const bool odd = q % 2 != 0;
#pragma unroll
    for (int i = 0; i < 4; i += 2) {
      const uint32_t got = __shfl_xor_sync(~0u, odd ? words[i] : words[i + 1], 1);
      words[i] = odd ? got : words[i];
      words[i + 1] = odd ? words[i + 1] : got;
    }
    const bool upper = q >= 2;
    const uint32_t got0 = __shfl_xor_sync(~0u, upper ? words[0] : words[2], 2);
    const uint32_t got1 = __shfl_xor_sync(~0u, upper ? words[1] : words[3], 2);
    const uint32_t result[4] = {upper ? got0 : words[0], upper ? got1 : words[1], upper ? words[2] : got0,
                                upper ? words[3] : got1};
#pragma unroll
    for (int i = 0; i < 4; ++i) words[i] = result[i];
  }

  static __device__ void StoreEight(const HopperGemmParams& p, uint32_t row, uint32_t col, const uint32_t (&words)[4]) {
    if (row >= p.m || col >= p.n) return;
    auto* to = static_cast<uint16_t*>(p.c) + row * p.ldc + col;
    if (p.wide_stores && col + 8 <= p.n) {
      *reinterpret_cast<uint4*>(to) = make_uint4(words[0], words[1], words[2], words[3]);
      return;
    }
#pragma unroll
    for (uint32_t i = 0; i < 8; ++i) {
      if (col + i < p.n) to[i] = static_cast<uint16_t>(words[i / 2] >> (i % 2 * 16));
    }
  }

  // `row`, `col`: where the warpgroup's part of the tile starts.
  static __device__ void Store(const HopperGemmParams& p, const Sums& sums, uint32_t row, uint32_t col) {
    // Straight code for each case: branches at every element jump over so much that instructions have to be fetched
    // again for every tile.
    const GemmEpilogue& epilogue = p.epilogue;
    const bool scaled = epilogue.bias == nullptr && epilogue.residual == nullptr;
    if (scaled && epilogue.activation == tcActivationNone) {
      StoreWith<tcActivationNone, true>(p, sums, row, col);
    } else if (epilogue.activation == tcActivationNone) {
      StoreWith<tcActivationNone, false>(p, sums, row, col);
    } else if (epilogue.activation == tcActivationRelu) {
      StoreWith<tcActivationRelu, false>(p, sums, row, col);
    } else if (epilogue.activation == tcActivationGelu) {
      StoreWith<tcActivationGelu, false>(p, sums, row, col);
    } else {
      StoreWith<tcActivationSilu, false>(p, sums, row, col);
    }
  }

  template <tcActivation_t kActivation, bool kScaled>
  static __device__ void StoreWith(const HopperGemmParams& p, const Sums& sums, uint32_t row, uint32_t col) {
    const uint32_t lane = threadIdx.x % 32;
    const uint32_t q = lane % 4;
    const uint32_t first_row = row + threadIdx.x / 32 % 4 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < kBlocksM; ++i) {
#pragma unroll
      for (int half = 0; half < 2; ++half) {
        const uint32_t this_row = first_row + i * 64 + half * 8;
#pragma unroll
        for (int j = 0; j < kSums / 4; j += 4) {
          uint32_t words[4];
#pragma unroll
          for (int w = 0; w < 4; ++w) {
            words[w] =
                Finish<kActivation, kScaled>(p, sums[i][4 * (j + w) + 2 * half], sums[i][4 * (j + w) + 2 * half + 1],
                                             this_row, col + 8 * (j + w) + 2 * q);
          }
          Transpose(words, q);
          StoreEight(p, this_row, col + 8 * (j + q), words);
        }
      }
    }
  }

  template <class Hooks>
  static __device__ void Compute(const HopperGemmParams& p, const Hooks& hooks, const Shared& shared, uint32_t* last,
                                 uint32_t cluster, uint32_t clusters, uint32_t block) {
    const int group = threadIdx.x / 128 - 1;
    Position at;
    for (uint32_t index = cluster; index < p.grid.Works(); index += clusters) {
      const GemmWork work = hooks.At(p.grid, index);
      Sums sums;
      Multiply(sums, shared, at, work.k_end - work.k_begin, group);
      if (p.grid.splits > 1 && !Reduce(p, sums, work, block, group, last)) continue;
      const uint32_t row = RowOf(work, block) + (kSideBySideM ? group * kGroupM : 0);
      const uint32_t col = ColOf(work, block) + (kSideBySideM ? 0 : group * kGroupN);
      Store(p, sums, row, col);
      if constexpr (Hooks::kSignals) {
        ptx::SyncThreads(1 + group, 128);
        if (threadIdx.x % 128 == 0) hooks.StoredRows(row, kGroupM, col);
      }
    }
  }
};

template <class Gemm, class Hooks>
__global__ void __launch_bounds__(Gemm::kThreads, 1)
    RunHopperGemm(const __grid_constant__ HopperGemmParams p, const __grid_constant__ Hooks hooks) {
#ifdef __CUDA_ARCH_FEAT_SM90_ALL
  extern __shared__ char hopper_shared[];
  __shared__ uint32_t last[Gemm::kMathWarpgroups];
  const typename Gemm::Shared shared(ptx::SharedAddress(hopper_shared));
  constexpr bool kClustered = Gemm::kClusterBlocks > 1;
  if (threadIdx.x == 0) {
    ptx::PrefetchTensorMap(&p.a);
    ptx::PrefetchTensorMap(&p.b);
    for (uint32_t stage = 0; stage < Gemm::kStages; ++stage) {
      ptx::InitBarrier(shared.Full(stage), 1);
      ptx::InitBarrier(shared.Empty(stage), Gemm::kClusterBlocks * Gemm::kMathWarpgroups * 4);  // a lane of each warp
    }
    ptx::FenceBarrierInit();
  }
  if constexpr (kClustered) {
    ptx::SyncCluster();
  } else {
    __syncthreads();
  }
  const uint32_t block = kClustered ? ptx::BlockInCluster() : 0;
  const uint32_t cluster = blockIdx.x / Gemm::kClusterBlocks;
  const uint32_t clusters = gridDim.x / Gemm::kClusterBlocks;
  if (threadIdx.x < 128) {
    ptx::LowerRegisters<40>();
    if (threadIdx.x == 0) Gemm::Load(p, hooks, shared, cluster, clusters, block);
  } else {
    ptx::RaiseRegisters<232>();
    Gemm::Compute(p, hooks, shared, last, cluster, clusters, block);
  }
  // Its peer still writes to this block's shared memory and arrives at its barriers.
  if constexpr (kClustered) {
    __syncwarp();
    ptx::SyncCluster();
  }
#endif
}

}  // namespace tc::cuda
