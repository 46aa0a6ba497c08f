#include "barrier_kernels.h"
#include "roll_call.h"

namespace tc::perf {
namespace {

// Not from a cache: peers write the words while this kernel runs, or have just done so.
__device__ uint64_t LoadWord(const uint64_t* words, int rank) {
  return *static_cast<const volatile uint64_t*>(words + rank * RollCall::kWordsApart);
}

__global__ void AnnounceRank(uint64_t* words, int rank) {
  *static_cast<volatile uint64_t*>(words + rank * RollCall::kWordsApart) = LoadWord(words, rank) + 1;
  __threadfence_system();
}

__global__ void CountAbsentRanks(const uint64_t* words, int rank, int n_ranks, unsigned long long* count) {
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < n_ranks && LoadWord(words, peer) < LoadWord(words, rank)) atomicAdd(count, 1ull);
}

}  // namespace

cudaError_t Announce(uint64_t* words, int rank, cudaStream_t stream) {
  AnnounceRank<<<1, 1, 0, stream>>>(words, rank);
  return cudaGetLastError();
}

cudaError_t CountAbsent(const uint64_t* words, int rank, int n_ranks, unsigned long long* count, cudaStream_t stream) {
  CountAbsentRanks<<<1, TC_MAX_RANKS, 0, stream>>>(words, rank, n_ranks, count);
  return cudaGetLastError();
}

}  // namespace tc::perf
