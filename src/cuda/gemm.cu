#include "cuda/driver.h"
#include "cuda/gemm.h"
#include "cuda/hopper_gemm.cuh"

namespace tc::cuda {
namespace {

// Looked at by value only, so that one table serves all kernels.
struct Kernel {
  const void* function = nullptr;
  int threads = 0;
  int shared_bytes = 0;
  uint32_t a_box_rows = 0;
  uint32_t b_box_rows = 0;
};

template <class Element, bool kB_KN, int kShape>
Kernel KernelOf() {
  if constexpr (kB_KN && !TakesContiguousColumns(kGemmTileShapes[kShape])) {
    return {};
  } else {
    using Gemm = HopperGemm<Element, kB_KN, kShape>;
    return {reinterpret_cast<const void*>(&RunHopperGemm<Gemm, NoGemmHooks>), Gemm::kThreads, Gemm::kSharedBytes,
            Gemm::kABoxRows, Gemm::kBBoxRows};
  }
}

template <class Element, bool kB_KN, int... kShapes>
Kernel KernelAt(int shape, std::integer_sequence<int, kShapes...>) {
  const Kernel kernels[] = {KernelOf<Element, kB_KN, kShapes>()...};
  return kernels[shape];
}

Kernel KernelFor(const GemmProblem& problem, int shape) {
  const std::make_integer_sequence<int, kGemmTileShapeCount> shapes;
  const bool kn = problem.layout == tcBLayoutKN;
  if (problem.type == tcFloat16)
    return kn ? KernelAt<__half, true>(shape, shapes) : KernelAt<__half, false>(shape, shapes);
  return kn ? KernelAt<__nv_bfloat16, true>(shape, shapes) : KernelAt<__nv_bfloat16, false>(shape, shapes);
}

uint64_t BlockTiles(const GemmTiling& tiling) {
  return uint64_t{tiling.grid.rows} * tiling.grid.cols * kGemmTileShapes[tiling.shape].Blocks();
}

// Boxes of 64 contiguous elements x `box_rows`.
Status Describe(CUtensorMap* map, tcDataType_t type, const void* matrix, uint64_t rows, uint64_t cols, uint64_t ld,
                uint32_t box_rows) {
  const cuuint64_t sizes[] = {cols, rows};
  const cuuint64_t strides[] = {ld * 2};
  const cuuint32_t box[] = {64, box_rows};
  const cuuint32_t steps[] = {1, 1};
  TC_RETURN_IF_DRIVER_ERROR(TheDriver().TensorMapEncodeTiled(
      map, type == tcFloat16 ? CU_TENSOR_MAP_DATA_TYPE_FLOAT16 : CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, 2,
      const_cast<void*>(matrix), sizes, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      CU_TENSOR_MAP_L2_PROMOTION_L2_256B, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return {};
}

bool OnSixteen(const void* matrix, uint64_t ld) { return reinterpret_cast<uintptr_t>(matrix) % 16 == 0 && ld % 8 == 0; }

}  // namespace

bool HopperGemmTakes(const GemmProblem& problem) {
  constexpr uint64_t kLimit = uint64_t{1} << 31;
  const auto in_limits = [](uint64_t size) { return size > 0 && size < kLimit; };
  return (problem.type == tcFloat16 || problem.type == tcBfloat16) && in_limits(problem.m) && in_limits(problem.n) &&
         in_limits(problem.k) && OnSixteen(problem.a, problem.lda) && OnSixteen(problem.b, problem.ldb);
}

uint32_t HopperMultiprocessors() {
  int device = 0, major = 0, count = 0;
  if (cudaGetDevice(&device) != cudaSuccess ||
      cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device) != cudaSuccess || major != 9 ||
      cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, device) != cudaSuccess) {
    return 0;
  }
  return static_cast<uint32_t>(count);
}

uint64_t HopperGemmZeroBytes(const GemmTiling& tiling) {
  if (tiling.grid.splits == 1) return 0;
  return (BlockTiles(tiling) * 2 * sizeof(uint32_t) + 255) / 256 * 256;
}

uint64_t HopperGemmWorkspaceBytes(const GemmTiling& tiling) {
  if (tiling.grid.splits == 1) return 0;
  const GemmTileShape& shape = kGemmTileShapes[tiling.shape];
  return HopperGemmZeroBytes(tiling) +
         BlockTiles(tiling) * tiling.grid.splits * shape.rows * shape.cols * sizeof(float);
}

Status LaunchHopperGemm(const GemmProblem& problem, const GemmTiling& tiling, void* workspace, cudaStream_t stream) {
  const uint32_t multiprocessors = HopperMultiprocessors();
  if (multiprocessors == 0 || !HopperGemmTakes(problem))
    return Error(tcUnsupported, "the Hopper GEMM core does not take this product on this device");
  const Kernel kernel = KernelFor(problem, tiling.shape);
  if (kernel.function == nullptr) return Error(tcInvalidArgument, "no tiles of this shape for a b that is [k, n]");

  HopperGemmParams params{};
  TC_RETURN_IF_ERROR(
      Describe(&params.a, problem.type, problem.a, problem.m, problem.k, problem.lda, kernel.a_box_rows));
  const bool kn = problem.layout == tcBLayoutKN;
  TC_RETURN_IF_ERROR(Describe(&params.b, problem.type, problem.b, kn ? problem.k : problem.n,
                              kn ? problem.n : problem.k, problem.ldb, kernel.b_box_rows));
  params.grid = tiling.grid;
  params.m = static_cast<uint32_t>(problem.m);
  params.n = static_cast<uint32_t>(problem.n);
  params.c = problem.c;
  params.ldc = problem.ldc;
  params.wide_stores = OnSixteen(problem.c, problem.ldc);
  params.epilogue = {problem.alpha, problem.bias, problem.residual, problem.activation};
  params.arrivals = static_cast<uint32_t*>(workspace);
  if (tiling.grid.splits > 1)
    params.partials = reinterpret_cast<float*>(static_cast<char*>(workspace) + HopperGemmZeroBytes(tiling));

  TC_RETURN_IF_CUDA_ERROR(
      cudaFuncSetAttribute(kernel.function, cudaFuncAttributeMaxDynamicSharedMemorySize, kernel.shared_bytes));
  const uint32_t blocks = kGemmTileShapes[tiling.shape].Blocks();
  const uint32_t clusters = multiprocessors / blocks;
  cudaLaunchAttribute attribute{};
  attribute.id = cudaLaunchAttributeClusterDimension;
  attribute.val.clusterDim = {blocks, 1, 1};
  cudaLaunchConfig_t config{};
  config.gridDim = dim3((tiling.grid.Works() < clusters ? tiling.grid.Works() : clusters) * blocks);
  config.blockDim = dim3(static_cast<unsigned>(kernel.threads));
  config.dynamicSmemBytes = static_cast<size_t>(kernel.shared_bytes);
  config.stream = stream;
  config.attrs = &attribute;
  config.numAttrs = 1;
  NoGemmHooks hooks;
  void* arguments[] = {&params, &hooks};
  TC_RETURN_IF_CUDA_ERROR(cudaLaunchKernelExC(&config, kernel.function, arguments));
  return {};
}

}  // namespace tc::cuda
