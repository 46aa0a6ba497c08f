// Threads of a block that work together.
#pragma once

#include "cuda/ptx/barrier.cuh"

namespace tc::cuda {

inline constexpr int kMostTeams = 2;  // of a block

// All threads of a block, or one of several teams of as many warps each, which do not wait for each other: while one
// waits for a flag, or for its stores to be covered by a release, others copy.
struct Team {
  int number = 0;  // from 1 on; 0: all
  int lane = static_cast<int>(threadIdx.x);
  int lanes = static_cast<int>(blockDim.x);

  // A barrier of the team, on the named barrier of its number; 0 is __syncthreads'.
  __device__ void Sync() const { ptx::SyncThreads(number, lanes); }
  // The same; whether every one is fine.
  __device__ bool All(bool fine) const { return ptx::SyncThreadsAnd(number, lanes, fine); }
};

// This thread's team where a block is `teams` of them.
__device__ inline Team TeamOf(int teams) {
  if (teams == 1) return {};
  const int lanes = static_cast<int>(blockDim.x) / teams;
  const int thread = static_cast<int>(threadIdx.x);
  return {thread / lanes + 1, thread % lanes, lanes};
}

}  // namespace tc::cuda
