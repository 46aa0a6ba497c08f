#include <algorithm>

#include "device_kernels.h"

namespace tc::perf {
namespace {

constexpr unsigned kThreads = 256;
constexpr unsigned kWarp = 32;
constexpr unsigned kAllLanes = 0xffffffffu;

// Enough blocks for `items` of work, which the kernels stride over, and at least one.
unsigned Blocks(size_t items, size_t items_a_block) {
  constexpr size_t kMostBlocks = 2048;
  return static_cast<unsigned>(std::clamp<size_t>((items + items_a_block - 1) / items_a_block, 1, kMostBlocks));
}

__device__ size_t FirstItem() { return size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ size_t ItemStride() { return size_t{gridDim.x} * blockDim.x; }

__device__ uint32_t LoadBits(tcDataType_t type, const void* elements, size_t index) {
  if (type == tcFloat32) return static_cast<const uint32_t*>(elements)[index];
  return static_cast<const uint16_t*>(elements)[index];
}

__device__ void StoreBits(tcDataType_t type, void* elements, size_t index, uint32_t bits) {
  if (type == tcFloat32) {
    static_cast<uint32_t*>(elements)[index] = bits;
  } else {
    static_cast<uint16_t*>(elements)[index] = static_cast<uint16_t>(bits);
  }
}

// The bits of the element that is at `index` of the packed part.
__device__ uint32_t PartBits(const MatrixPart& part, size_t index) {
  const size_t row = part.transposed ? index % part.rows : index / part.cols;
  const size_t col = part.transposed ? index / part.rows : index % part.cols;
  const uint64_t key = RowKey(part.matrix, part.first_row + row);
  return BitsFromFloat(part.matrix.type, GeneratedElement(part.matrix, key, col));
}

__global__ void FillPart(const MatrixPart part, void* target) {
  const size_t elements = part.rows * part.cols;
  for (size_t i = FirstItem(); i < elements; i += ItemStride()) {
    StoreBits(part.matrix.type, target, i, PartBits(part, i));
  }
}

__global__ void ComparePart(const MatrixPart part, const void* stored, Count* count) {
  const size_t elements = part.rows * part.cols;
  for (size_t i = FirstItem(); i < elements; i += ItemStride()) {
    if (LoadBits(part.matrix.type, stored, i) != PartBits(part, i)) atomicAdd(count, Count{1});
  }
}

// A row of a times a row of b, by a warp; every lane has the result.
__device__ Expected WarpDot(const ProductCheck& check, size_t row, size_t col) {
  const uint64_t a_key = RowKey(check.a, row);
  const uint64_t b_key = RowKey(check.b, col);
  Expected sum = {0, 0};
  for (size_t i = threadIdx.x % kWarp; i < check.k; i += kWarp) {
    const double product = static_cast<double>(GeneratedElement(check.a, a_key, i)) *
                           static_cast<double>(GeneratedElement(check.b, b_key, i));
    sum.value += product;
    sum.magnitude += fabs(product);
  }
  for (unsigned distance = kWarp / 2; distance > 0; distance /= 2) {
    sum.value += __shfl_xor_sync(kAllLanes, sum.value, distance);
    sum.magnitude += __shfl_xor_sync(kAllLanes, sum.magnitude, distance);
  }
  return sum;
}

__device__ bool IsRight(const ProductCheck& check, const Expected& expected, uint32_t bits) {
  if (check.poison_apart && bits == check.type.all_bits) return true;
  const float got = FloatFromBits(check.type.code, bits);
  return check.exact ? IsExactly(check.type, expected, got) : IsWithinTolerance(check.type, check.k, expected, got);
}

// One warp an element.
__global__ void CheckProducts(const ProductCheck check, Count* count) {
  const size_t elements = check.n_rows * check.n_cols;
  for (size_t i = FirstItem() / kWarp; i < elements; i += ItemStride() / kWarp) {
    const size_t row = check.rows != nullptr ? check.rows[i / check.n_cols] : i / check.n_cols;
    const size_t col = check.cols != nullptr ? check.cols[i % check.n_cols] : i % check.n_cols;
    const Expected expected = WarpDot(check, row, col);
    const uint32_t bits = LoadBits(check.type.code, check.c, row * check.n + col);
    if (threadIdx.x % kWarp == 0 && !IsRight(check, expected, bits)) atomicAdd(count, Count{1});
  }
}

__global__ void ScanForPoison(const ElementType type, const void* elements, size_t n, Count* count) {
  for (size_t i = FirstItem(); i < n; i += ItemStride()) {
    if (LoadBits(type.code, elements, i) == type.all_bits) atomicAdd(count, Count{1});
  }
}

__global__ void ScanForWrites(const unsigned char* zone, size_t bytes, Count* count) {
  for (size_t i = FirstItem(); i < bytes; i += ItemStride()) {
    if (zone[i] != 0xff) atomicAdd(count, Count{1});
  }
}

__device__ uint64_t Now() {
  uint64_t nanoseconds;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(nanoseconds));
  return nanoseconds;
}

__global__ void Wait(uint64_t nanoseconds) {
  const uint64_t start = Now();
  while (Now() - start < nanoseconds) __nanosleep(500);
}

}  // namespace

cudaError_t Fill(const MatrixPart& part, void* target, cudaStream_t stream) {
  FillPart<<<Blocks(part.rows * part.cols, kThreads), kThreads, 0, stream>>>(part, target);
  return cudaGetLastError();
}

cudaError_t CountDifferences(const MatrixPart& part, const void* stored, Count* count, cudaStream_t stream) {
  ComparePart<<<Blocks(part.rows * part.cols, kThreads), kThreads, 0, stream>>>(part, stored, count);
  return cudaGetLastError();
}

cudaError_t CountWrongProducts(const ProductCheck& check, Count* count, cudaStream_t stream) {
  const unsigned blocks = Blocks(check.n_rows * check.n_cols, kThreads / kWarp);
  CheckProducts<<<blocks, kThreads, 0, stream>>>(check, count);
  return cudaGetLastError();
}

cudaError_t CountPoison(const ElementType& type, const void* elements, size_t n, Count* count, cudaStream_t stream) {
  ScanForPoison<<<Blocks(n, kThreads), kThreads, 0, stream>>>(type, elements, n, count);
  return cudaGetLastError();
}

cudaError_t CountWritten(const void* zone, size_t bytes, Count* count, cudaStream_t stream) {
  ScanForWrites<<<Blocks(bytes, kThreads), kThreads, 0, stream>>>(static_cast<const unsigned char*>(zone), bytes,
                                                                  count);
  return cudaGetLastError();
}

cudaError_t Pause(uint64_t nanoseconds, cudaStream_t stream) {
  Wait<<<1, 1, 0, stream>>>(nanoseconds);
  return cudaGetLastError();
}

}  // namespace tc::perf
