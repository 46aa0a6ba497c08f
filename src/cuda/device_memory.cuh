// The memory policy of devices: PTX with explicit order and scope.
#pragma once

#include "cuda/ptx/memory.cuh"
#include "protocol/memory.h"

namespace tc::cuda {

struct DeviceMemory {
  static constexpr unsigned kHotPolls = 32;  // some microseconds, and to read the clock takes as long as a poll
  // The abort words lie in host memory, a PCIe round trip away.
  static constexpr uint64_t kCheckNs = 50'000;

  template <class Word>
  static __device__ Word LoadRelaxed(const Word* word) {
    return ptx::LoadRelaxedSys(word);
  }
  template <class Word>
  static __device__ void StoreRelaxed(Word* word, Word value) {
    ptx::StoreRelaxedSys(word, value);
  }
  template <class Word>
  static __device__ Word LoadAcquireSys(const Word* word) {
    return ptx::LoadAcquireSys(word);
  }
  template <class Word>
  static __device__ void StoreReleaseSys(Word* word, Word value) {
    ptx::StoreReleaseSys(word, value);
  }
  template <class Word>
  static __device__ Word LoadAcquireGpu(const Word* word) {
    return ptx::LoadAcquireGpu(word);
  }
  template <class Word>
  static __device__ void StoreReleaseGpu(Word* word, Word value) {
    ptx::StoreReleaseGpu(word, value);
  }
  static __device__ uint64_t AddAcquireGpu(uint64_t* word, uint64_t value) { return ptx::AddAcquireGpu(word, value); }
  static __device__ uint32_t AddReleaseGpu(uint32_t* word, uint32_t value) { return ptx::AddReleaseGpu(word, value); }
  static __device__ uint32_t AddAcqRelGpu(uint32_t* word, uint32_t value) { return ptx::AddAcqRelGpu(word, value); }
  static __device__ uint32_t AddRelaxedGpu(uint32_t* word, uint32_t value) { return ptx::AddRelaxedGpu(word, value); }
  // An addition whose result nobody waits for.
  static __device__ void CountRelaxedGpu(uint64_t* word, uint64_t value) { ptx::CountRelaxedGpu(word, value); }
  static __device__ void Backoff(unsigned spins) {
    if (spins > 0) __nanosleep(64);
  }
  static __device__ uint64_t NowNs() { return ptx::GlobalTimerNs(); }
};

}  // namespace tc::cuda
