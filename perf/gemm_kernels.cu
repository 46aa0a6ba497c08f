#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "gemm_kernels.h"

namespace tc::perf {
namespace {

constexpr int kThreads = 256;

// SplitMix64's mixing (Steele, Lea, Flood 2014).
__device__ uint64_t Mix(uint64_t x) {
  x += 0x9e3779b97f4a7c15;
  x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9;
  x = (x ^ x >> 27) * 0x94d049bb133111eb;
  return x ^ x >> 31;
}

template <class Element>
__global__ void Fill(Element* elements, uint64_t count, uint64_t seed) {
  const uint64_t step = uint64_t{gridDim.x} * kThreads;
  for (uint64_t i = blockIdx.x * uint64_t{kThreads} + threadIdx.x; i < count; i += step) {
    const uint64_t bits = Mix(Mix(seed) + i) >> 40;
    elements[i] = static_cast<Element>(static_cast<float>(bits) * 0x1p-23f - 1.0f);
  }
}

template <class Element>
__device__ double At(const void* matrix, uint64_t index) {
  return static_cast<double>(static_cast<float>(static_cast<const Element*>(matrix)[index]));
}

__device__ double Activated(double x, tcActivation_t activation) {
  if (activation == tcActivationRelu) return x > 0 ? x : 0;
  if (activation == tcActivationGelu) return 0.5 * x * (1 + erf(x * 0.70710678118654752));
  if (activation == tcActivationSilu) return x / (1 + exp(-x));
  return x;
}

template <class Element>
__global__ void Check(cuda::GemmProblem p, uint64_t samples, uint64_t seed, unsigned long long* wrong) {
  const uint64_t sample = blockIdx.x * uint64_t{kThreads} + threadIdx.x;
  const uint64_t elements = p.m * p.n;
  if (sample >= samples) return;
  const uint64_t element = samples == elements ? sample : Mix(Mix(seed) ^ sample) % elements;
  const uint64_t row = element / p.n;
  const uint64_t col = element % p.n;
  double sum = 0;
  for (uint64_t i = 0; i < p.k; ++i) {
    const uint64_t b = p.layout == tcBLayoutKN ? i * p.ldb + col : col * p.ldb + i;
    sum += At<Element>(p.a, row * p.lda + i) * At<Element>(p.b, b);
  }
  sum *= p.alpha;
  if (p.bias != nullptr) sum += At<Element>(p.bias, col);
  if (p.residual != nullptr) sum += At<Element>(p.residual, row * p.ldc + col);
  const double wanted = Activated(sum, p.activation);
  const double seen = At<Element>(p.c, row * p.ldc + col);
  const double rounding = p.type == tcFloat16 ? 0x1p-10 : 0x1p-7;
  const double allowed = rounding * fabs(wanted) + 1e-6 * p.k + 1e-4;
  if (!(fabs(seen - wanted) <= allowed)) atomicAdd(wrong, 1ull);  // a NaN is wrong
}

}  // namespace

cudaError_t FillRandom(void* elements, uint64_t count, tcDataType_t type, uint64_t seed, cudaStream_t stream) {
  constexpr int kBlocks = 2048;
  if (type == tcFloat16) {
    Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<__half*>(elements), count, seed);
  } else {
    Fill<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(elements), count, seed);
  }
  return cudaGetLastError();
}

cudaError_t CountWrong(const cuda::GemmProblem& problem, uint64_t samples, uint64_t seed, unsigned long long* wrong,
                       cudaStream_t stream) {
  const uint64_t elements = problem.m * problem.n;
  const uint64_t looked_at = elements < samples ? elements : samples;
  const auto blocks = static_cast<unsigned>((looked_at + kThreads - 1) / kThreads);
  if (problem.type == tcFloat16) {
    Check<__half><<<blocks, kThreads, 0, stream>>>(problem, looked_at, seed, wrong);
  } else {
    Check<__nv_bfloat16><<<blocks, kThreads, 0, stream>>>(problem, looked_at, seed, wrong);
  }
  return cudaGetLastError();
}

}  // namespace tc::perf
