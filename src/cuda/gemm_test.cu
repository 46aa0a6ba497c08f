// The Hopper GEMM core against a plain kernel in fp64: odd shapes, all tiles, layouts, types and epilogues. Every
// element of c is written and nothing beside them.
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "cuda/driver.h"
#include "cuda/gemm.h"

namespace tc::cuda {
namespace {

#define EXPECT_CUDA_OK(call) EXPECT_EQ((call), cudaSuccess) << cudaGetErrorString(cudaGetLastError())

constexpr uint16_t kPoison = 0xffff;  // a NaN in both types

template <class Element>
__global__ void Fill(Element* elements, uint64_t count, uint32_t seed) {
  for (uint64_t i = blockIdx.x * blockDim.x + threadIdx.x; i < count; i += uint64_t{gridDim.x} * blockDim.x) {
    uint32_t x = static_cast<uint32_t>(i) * 2654435761u + seed;  // Knuth's multiplicative hash, then xorshift
    x ^= x << 13;
    x ^= x >> 17;
    x ^= x << 5;
    elements[i] = static_cast<Element>(static_cast<float>(x >> 8) * 0x1p-23f - 1);
  }
}

template <class Element>
__device__ double At(const void* elements, uint64_t i) {
  return static_cast<double>(static_cast<float>(static_cast<const Element*>(elements)[i]));
}

__device__ double Activated(double x, tcActivation_t activation) {
  if (activation == tcActivationRelu) return x > 0 ? x : 0;
  if (activation == tcActivationGelu) return 0.5 * x * (1 + erf(x * 0.70710678118654752));
  if (activation == tcActivationSilu) return x / (1 + exp(-x));
  return x;
}

// Counts what is wrong in rows of ldc elements: the product in the first n, the poison behind.
template <class Element>
__global__ void CountWrong(GemmProblem p, unsigned* wrong) {
  const uint64_t i = blockIdx.x * uint64_t{blockDim.x} + threadIdx.x;
  if (i >= p.m * p.ldc) return;
  const uint64_t row = i / p.ldc;
  const uint64_t col = i % p.ldc;
  if (col >= p.n) {
    if (static_cast<const uint16_t*>(p.c)[i] != kPoison) atomicAdd(wrong, 1u);
    return;
  }
  double sum = 0;
  for (uint64_t k = 0; k < p.k; ++k) {
    const uint64_t b = p.layout == tcBLayoutKN ? k * p.ldb + col : col * p.ldb + k;
    sum += At<Element>(p.a, row * p.lda + k) * At<Element>(p.b, b);
  }
  sum *= p.alpha;
  if (p.bias != nullptr) sum += At<Element>(p.bias, col);
  if (p.residual != nullptr) sum += At<Element>(p.residual, i);
  const double wanted = Activated(sum, p.activation);
  const double rounding = p.type == tcFloat16 ? 0x1p-10 : 0x1p-7;
  const double allowed = rounding * fabs(wanted) + 1e-6 * p.k + 1e-4;
  if (!(fabs(At<Element>(p.c, i) - wanted) <= allowed)) atomicAdd(wrong, 1u);
}

class HopperGemmOnGpu : public ::testing::Test {
 protected:
  void SetUp() override {
    Status why;
    if (FindDriver(&why) == nullptr || HopperMultiprocessors() == 0) GTEST_SKIP() << "no GPU of compute capability 9.0";
    multiprocessors_ = HopperMultiprocessors();
  }
  void TearDown() override {
    for (void* memory : allocations_) EXPECT_CUDA_OK(cudaFree(memory));
  }

  void* Allocate(uint64_t bytes) {
    void* memory = nullptr;
    EXPECT_CUDA_OK(cudaMalloc(&memory, bytes));
    allocations_.push_back(memory);
    return memory;
  }

  void* Random(uint64_t count, tcDataType_t type, uint32_t seed) {
    void* elements = Allocate(count * 2);
    if (type == tcFloat16) {
      Fill<<<64, 256>>>(static_cast<__half*>(elements), count, seed);
    } else {
      Fill<<<64, 256>>>(static_cast<__nv_bfloat16*>(elements), count, seed);
    }
    return elements;
  }

  // Rows of c are `spare` elements longer than n.
  GemmProblem Problem(tcDataType_t type, tcBLayout_t layout, uint64_t m, uint64_t n, uint64_t k, uint64_t spare) {
    GemmProblem problem{.type = type, .layout = layout, .m = m, .n = n, .k = k};
    const bool kn = layout == tcBLayoutKN;
    problem.lda = (k + 7) / 8 * 8 + spare / 8 * 8;
    problem.ldb = (kn ? n + 7 : k + 7) / 8 * 8 + spare / 8 * 8;
    problem.ldc = n + spare;
    problem.a = Random(m * problem.lda, type, 1);
    problem.b = Random((kn ? k : n) * problem.ldb, type, 2);
    problem.c = Allocate(m * problem.ldc * 2);
    return problem;
  }

  void ExpectRight(const GemmProblem& problem, const GemmTiling& tiling, const std::string& what) {
    const uint64_t bytes = problem.m * problem.ldc * 2;
    void* workspace = Allocate(HopperGemmWorkspaceBytes(tiling) + 1);
    EXPECT_CUDA_OK(cudaMemset(workspace, 0, HopperGemmZeroBytes(tiling)));
    auto* wrong = static_cast<unsigned*>(Allocate(sizeof(unsigned)));
    EXPECT_CUDA_OK(cudaMemset(wrong, 0, sizeof(unsigned)));
    // Twice: the second launch finds the workspace as the first left it.
    for (int round = 0; round < 2; ++round) {
      EXPECT_CUDA_OK(cudaMemset(problem.c, 0xff, bytes));
      const Status status = LaunchHopperGemm(problem, tiling, workspace, nullptr);
      ASSERT_TRUE(status.ok()) << status.sentence();
      const auto blocks = static_cast<unsigned>((problem.m * problem.ldc + 255) / 256);
      if (problem.type == tcFloat16) {
        CountWrong<__half><<<blocks, 256>>>(problem, wrong);
      } else {
        CountWrong<__nv_bfloat16><<<blocks, 256>>>(problem, wrong);
      }
    }
    unsigned count = 0;
    EXPECT_CUDA_OK(cudaMemcpy(&count, wrong, sizeof(count), cudaMemcpyDeviceToHost));
    EXPECT_EQ(count, 0u) << what << " m " << problem.m << " n " << problem.n << " k " << problem.k << " tiles "
                         << tiling.shape << " splits " << tiling.grid.splits;
  }

  void ExpectRight(const GemmProblem& problem, const std::string& what) {
    ExpectRight(problem,
                ChooseGemmTiling(problem.m, problem.n, problem.k, problem.layout == tcBLayoutKN, multiprocessors_),
                what);
  }

  void FreeAll() {
    TearDown();
    allocations_.clear();
  }

  uint32_t multiprocessors_ = 0;
  std::vector<void*> allocations_;
};

constexpr tcDataType_t kTypes[] = {tcBfloat16, tcFloat16};
constexpr tcBLayout_t kLayouts[] = {tcBLayoutNK, tcBLayoutKN};

TEST_F(HopperGemmOnGpu, OddShapesAreRight) {
  for (const tcDataType_t type : kTypes) {
    for (const tcBLayout_t layout : kLayouts) {
      for (const uint64_t m : {1, 7, 64, 131, 509}) {
        for (const uint64_t n : {8, 24, 129, 1000, 4104}) {
          for (const uint64_t k : {8, 24, 61, 1000}) {
            ExpectRight(Problem(type, layout, m, n, k, 0), "packed");
            ExpectRight(Problem(type, layout, m, n, k, 8), "rows of c on 16 bytes");
            ExpectRight(Problem(type, layout, m, n, k, 13), "rows of c on 2 bytes");
            FreeAll();
          }
        }
      }
    }
  }
}

TEST_F(HopperGemmOnGpu, EveryTileAndSplitIsRight) {
  for (const tcDataType_t type : kTypes) {
    for (const tcBLayout_t layout : kLayouts) {
      const GemmProblem problem = Problem(type, layout, 523, 1032, 1032, 8);
      for (int index = 0; index < kGemmTileShapeCount; ++index) {
        const GemmTileShape& shape = kGemmTileShapes[index];
        if (layout == tcBLayoutKN && !TakesContiguousColumns(shape)) continue;
        for (const uint32_t splits : {1u, 2u, 5u, kMaxSplits}) {
          const GemmGrid grid =
              GridOf(problem.m, problem.n, problem.k, shape, splits, multiprocessors_ / shape.Blocks());
          ExpectRight(problem, {index, grid}, "tiles");
        }
      }
      FreeAll();
    }
  }
}

TEST_F(HopperGemmOnGpu, EveryEpilogueIsRight) {
  for (const tcDataType_t type : kTypes) {
    for (const uint64_t spare : {0, 5}) {
      for (const tcActivation_t activation : {tcActivationNone, tcActivationRelu, tcActivationGelu, tcActivationSilu}) {
        for (int parts = 0; parts < 8; ++parts) {
          GemmProblem problem = Problem(type, tcBLayoutNK, 131, 392, 136, spare);
          problem.activation = activation;
          if (parts & 1) problem.alpha = -0.25f;
          if (parts & 2) problem.bias = Random(problem.n, type, 3);
          if (parts & 4) problem.residual = Random(problem.m * problem.ldc, type, 4);
          ExpectRight(problem, "activation " + std::to_string(activation) + " parts " + std::to_string(parts));
          FreeAll();
        }
      }
    }
  }
}

// More tiles than run at a time, and sums that are split: the same bits each time.
TEST_F(HopperGemmOnGpu, ResultsAreReproducible) {
  const GemmProblem problem = Problem(tcBfloat16, tcBLayoutNK, 1000, 1024, 4104, 0);
  const GemmTileShape& shape = kGemmTileShapes[0];
  const GemmTiling tiling = {
      0, GridOf(problem.m, problem.n, problem.k, shape, kMaxSplits, multiprocessors_ / shape.Blocks())};
  void* workspace = Allocate(HopperGemmWorkspaceBytes(tiling));
  EXPECT_CUDA_OK(cudaMemset(workspace, 0, HopperGemmZeroBytes(tiling)));
  std::vector<uint16_t> first(problem.m * problem.ldc), again(first.size());
  for (int round = 0; round < 20; ++round) {
    const Status status = LaunchHopperGemm(problem, tiling, workspace, nullptr);
    ASSERT_TRUE(status.ok()) << status.sentence();
    std::vector<uint16_t>& bits = round == 0 ? first : again;
    EXPECT_CUDA_OK(cudaMemcpy(bits.data(), problem.c, bits.size() * 2, cudaMemcpyDeviceToHost));
    if (round > 0) {
      ASSERT_EQ(first, again);
    }
  }
}

TEST(HopperGemm, RefusesWhatTheCopyEngineCannotRead) {
  char memory[64];
  auto* aligned = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(memory) + 15) / 16 * 16);
  GemmProblem problem{.m = 1, .n = 8, .k = 8, .a = aligned, .lda = 8, .b = aligned, .ldb = 8, .c = aligned, .ldc = 8};
  EXPECT_TRUE(HopperGemmTakes(problem));
  problem.lda = 12;
  EXPECT_FALSE(HopperGemmTakes(problem));
  problem.lda = 8;
  problem.b = aligned + 2;
  EXPECT_FALSE(HopperGemmTakes(problem));
  problem.b = aligned;
  problem.type = tcFloat32;
  EXPECT_FALSE(HopperGemmTakes(problem));
  problem.type = tcFloat16;
  problem.k = 0;
  EXPECT_FALSE(HopperGemmTakes(problem));
}

}  // namespace
}  // namespace tc::cuda
