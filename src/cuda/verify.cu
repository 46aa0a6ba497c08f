// The kernels of comm/verification.h. Each writes or compares patterns for all peers at once; none waits longer than
// its limit.
#include "cuda/device_memory.cuh"
#include "cuda/ptx/bulk.cuh"
#include "cuda/verify.h"
#include "protocol/election.h"
#include "protocol/slot.h"
#include "protocol/wait.h"

namespace tc::cuda {
namespace {

// Bytes of a block's piece of a bulk store.
constexpr uint64_t kBulkPiece = 4096;

__device__ uint4 PatternAt(const CheckParams& p, int producer, uint64_t word) {
  const uint64_t low = CheckWord(p.seed, producer, 2 * word);
  const uint64_t high = CheckWord(p.seed, producer, 2 * word + 1);
  return {static_cast<uint32_t>(low), static_cast<uint32_t>(low >> 32), static_cast<uint32_t>(high),
          static_cast<uint32_t>(high >> 32)};
}

__device__ bool Differs(const uint4& a, const uint4& b) {
  return ((a.x ^ b.x) | (a.y ^ b.y) | (a.z ^ b.z) | (a.w ^ b.w)) != 0;
}

__device__ void FindWrong(const CheckParams& p, int producer) { atomicOr(p.area.Wrong(), 1u << producer); }

__device__ uint64_t FirstWord() { return blockIdx.x * uint64_t{blockDim.x} + threadIdx.x; }
__device__ uint64_t WordStep() { return gridDim.x * uint64_t{blockDim.x}; }

__global__ void OfferPattern(const __grid_constant__ CheckParams p) {
  auto* const to = reinterpret_cast<uint4*>(p.area.Offered(p.area.rank));
  for (uint64_t word = FirstWord(); word < p.bytes / 16; word += WordStep()) to[word] = PatternAt(p, p.area.rank, word);
}

__global__ void StoreIntoPeers(const __grid_constant__ CheckParams p) {
  for (int peer = 0; peer < p.area.n_ranks; ++peer) {
    auto* const to = reinterpret_cast<uint4*>(p.area.Received(peer, p.area.rank));
    for (uint64_t word = FirstWord(); word < p.bytes / 16; word += WordStep()) {
      to[word] = PatternAt(p, p.area.rank, word);
    }
  }
}

__global__ void BulkStoreIntoPeers(const __grid_constant__ CheckParams p) {
  __shared__ alignas(128) uint4 piece[kBulkPiece / 16];
  for (uint64_t at = blockIdx.x * kBulkPiece; at < p.bytes; at += gridDim.x * kBulkPiece) {
    const uint64_t bytes = p.bytes - at < kBulkPiece ? p.bytes - at : kBulkPiece;
    for (uint64_t word = threadIdx.x; word < bytes / 16; word += blockDim.x) {
      piece[word] = PatternAt(p, p.area.rank, at / 16 + word);
    }
    ptx::FenceSharedForAsync();
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int peer = 0; peer < p.area.n_ranks; ++peer) {
        ptx::BulkStore(p.area.Received(peer, p.area.rank) + at, piece, static_cast<uint32_t>(bytes));
      }
      ptx::CommitBulk();
      ptx::WaitBulk();
    }
    __syncthreads();
  }
}

// What peers have stored here, or what a copy engine has fetched.
__global__ void CompareHere(const __grid_constant__ CheckParams p) {
  for (int peer = 0; peer < p.area.n_ranks; ++peer) {
    const auto* const from =
        reinterpret_cast<const uint4*>(p.fetched ? p.area.Fetched(peer) : p.area.Received(p.area.rank, peer));
    for (uint64_t word = FirstWord(); word < p.bytes / 16; word += WordStep()) {
      if (Differs(from[word], PatternAt(p, peer, word))) FindWrong(p, peer);
    }
  }
}

__global__ void LoadFromPeers(const __grid_constant__ CheckParams p) {
  for (int peer = 0; peer < p.area.n_ranks; ++peer) {
    const auto* const from = reinterpret_cast<const uint4*>(p.area.Offered(peer));
    for (uint64_t word = FirstWord(); word < p.bytes / 16; word += WordStep()) {
      if (Differs(from[word], PatternAt(p, peer, word))) FindWrong(p, peer);
    }
  }
}

// Two blocks for each peer write half a round's data each; the last of them to be done signals for both. Rounds use two
// places in turn: a peer writes round k + 2 only when it has seen the signal of k + 1, which follows the last look at
// k.
__global__ void FlagRounds(const __grid_constant__ CheckParams p) {
  const int peer = blockIdx.x / 2;
  const int half = blockIdx.x % 2;
  const uint64_t words = p.bytes / 32;  // of a half
  __shared__ bool fine;
  for (int round = 0; round < CheckArea::kFlagRounds; ++round) {
    const uint64_t first = (round % 2 * 2 + half) * words;
    const Sequence epoch = p.seed << 20 | static_cast<Sequence>(round + 1);
    CheckParams of_round = p;
    of_round.seed = epoch;
    auto* const to = reinterpret_cast<uint4*>(p.area.Received(peer, p.area.rank));
    for (uint64_t word = threadIdx.x; word < words; word += blockDim.x) {
      to[first + word] = PatternAt(of_round, p.area.rank, first + word);
    }
    __syncthreads();
    if (threadIdx.x == 0) {
      if (Elect<DeviceMemory>(p.area.Election(peer), 2)) Signal<DeviceMemory>(p.area.Flag(peer, p.area.rank), epoch);
      const auto come = [&] { return Reached<DeviceMemory>(p.area.Flag(p.area.rank, peer), epoch); };
      const RankView nobody{.n_ranks = 0};  // there is no communicator yet that somebody could abort
      fine = WaitUntil<DeviceMemory>(come, nobody, p.limit_ns) == WaitResult::kReached;
      if (!fine) FindWrong(p, peer);
    }
    __syncthreads();
    if (!fine) return;
    const auto* const from = reinterpret_cast<const uint4*>(p.area.Received(p.area.rank, peer));
    for (uint64_t word = threadIdx.x; word < words; word += blockDim.x) {
      if (Differs(from[first + word], PatternAt(of_round, peer, first + word))) FindWrong(p, peer);
    }
    __syncthreads();
  }
}

}  // namespace

CheckKernels TheCheckKernels() {
  return {.offer = reinterpret_cast<const void*>(&OfferPattern),
          .store = reinterpret_cast<const void*>(&StoreIntoPeers),
          .bulk_store = reinterpret_cast<const void*>(&BulkStoreIntoPeers),
          .compare = reinterpret_cast<const void*>(&CompareHere),
          .load = reinterpret_cast<const void*>(&LoadFromPeers),
          .flags = reinterpret_cast<const void*>(&FlagRounds)};
}

}  // namespace tc::cuda
