// Loads, stores, atomics and fences with an explicit order and scope: each PTX instruction wrapped once.
#pragma once

#include <cstdint>

namespace tc::ptx {

__device__ inline uint32_t LoadRelaxedSys(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.relaxed.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint64_t LoadRelaxedSys(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.relaxed.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint32_t LoadAcquireSys(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.sys.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint64_t LoadAcquireSys(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.sys.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint32_t LoadAcquireGpu(const uint32_t* word) {
  uint32_t value;
  asm volatile("ld.acquire.gpu.global.u32 %0, [%1];" : "=r"(value) : "l"(word) : "memory");
  return value;
}
__device__ inline uint64_t LoadAcquireGpu(const uint64_t* word) {
  uint64_t value;
  asm volatile("ld.acquire.gpu.global.u64 %0, [%1];" : "=l"(value) : "l"(word) : "memory");
  return value;
}

__device__ inline void StoreRelaxedSys(uint32_t* word, uint32_t value) {
  asm volatile("st.relaxed.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ inline void StoreRelaxedSys(uint64_t* word, uint64_t value) {
  asm volatile("st.relaxed.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline void StoreReleaseSys(uint32_t* word, uint32_t value) {
  asm volatile("st.release.sys.global.u32 [%0], %1;" ::"l"(word), "r"(value) : "memory");
}
__device__ inline void StoreReleaseSys(uint64_t* word, uint64_t value) {
  asm volatile("st.release.sys.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}
__device__ inline void StoreReleaseGpu(uint64_t* word, uint64_t value) {
  asm volatile("st.release.gpu.global.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ inline uint32_t AddRelaxedGpu(uint32_t* word, uint32_t value) {
  uint32_t before;
  asm volatile("atom.relaxed.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}
__device__ inline uint32_t AddReleaseGpu(uint32_t* word, uint32_t value) {
  uint32_t before;
  asm volatile("atom.release.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}
__device__ inline uint32_t AddAcqRelGpu(uint32_t* word, uint32_t value) {
  uint32_t before;
  asm volatile("atom.acq_rel.gpu.global.add.u32 %0, [%1], %2;" : "=r"(before) : "l"(word), "r"(value) : "memory");
  return before;
}

__device__ inline uint64_t AddAcquireGpu(uint64_t* word, uint64_t value) {
  uint64_t before;
  asm volatile("atom.acquire.gpu.global.add.u64 %0, [%1], %2;" : "=l"(before) : "l"(word), "l"(value) : "memory");
  return before;
}

__device__ inline void CountRelaxedGpu(uint64_t* word, uint64_t value) {
  asm volatile("red.relaxed.gpu.global.add.u64 [%0], %1;" ::"l"(word), "l"(value) : "memory");
}

__device__ inline uint64_t GlobalTimerNs() {
  uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

}  // namespace tc::ptx
