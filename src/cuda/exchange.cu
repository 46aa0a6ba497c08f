// All plain collectives: one epoch in which every pair of ranks moves bytes of its own, by push or by pull, and what
// comes is kept or reduced.
#include <cuda_bf16.h>
#include <cuda_fp16.h>

#include "cuda/frame.cuh"
#include "cuda/kernels.h"
#include "order/reduction.h"
#include "planes/exchange.h"

namespace tc::cuda {
namespace {

struct HalfUnit {
  static __device__ float ToFloat(uint16_t bits) { return __half2float(__ushort_as_half(bits)); }
  static __device__ uint16_t FromFloat(float value) { return __half_as_ushort(__float2half_rn(value)); }
};
struct Bf16Unit {
  static __device__ float ToFloat(uint16_t bits) { return __bfloat162float(__ushort_as_bfloat16(bits)); }
  static __device__ uint16_t FromFloat(float value) { return __bfloat16_as_ushort(__float2bfloat16_rn(value)); }
};

// Reduces by all threads of a block. A thread reads all sources of its elements before it writes them: `to` may be one
// of the sources.
template <class Format, class Step>
struct BlockReduction {
  using Stored = typename Format::Stored;
  using Sum = typename Format::Sum;
  static constexpr int kPerWord = 16 / sizeof(Stored);
  // Words of each source under way at a time, as registers for their sums allow.
  static constexpr int kUnroll = sizeof(Stored) >= 4 ? 4 : sizeof(Stored);
  union Word {
    uint4 whole;
    Stored element[kPerWord];
  };

  const std::byte* const* sources;
  int n_sources;
  int divisor;

  __device__ const uint4* WordsOf(int source) const { return reinterpret_cast<const uint4*>(sources[source]); }

  __device__ Stored Finish(Sum sum) const { return Format::Store(divisor > 1 ? Average(sum, divisor) : sum); }

  // Words `word`, word + kThreads, ..., kWords of them.
  template <int kWords>
  __device__ void ReduceWords(uint4* to, uint64_t word) const {
    Sum sums[kWords][kPerWord];
#pragma unroll 1
    for (int source = 0; source < n_sources; ++source) {
      Word held[kWords];
#pragma unroll
      for (int i = 0; i < kWords; ++i) held[i].whole = WordsOf(source)[word + i * kThreads];
#pragma unroll
      for (int i = 0; i < kWords; ++i) {
#pragma unroll
        for (int e = 0; e < kPerWord; ++e) {
          const Sum next = Format::Load(held[i].element[e]);
          sums[i][e] = source == 0 ? next : Step::Step(sums[i][e], next);
        }
      }
    }
#pragma unroll
    for (int i = 0; i < kWords; ++i) {
      Word result;
#pragma unroll
      for (int e = 0; e < kPerWord; ++e) result.element[e] = Finish(sums[i][e]);
      to[word + i * kThreads] = result.whole;
    }
  }

  __device__ void Run(std::byte* to, uint64_t bytes) const {
    auto misalignment = reinterpret_cast<uintptr_t>(to);
    for (int source = 0; source < n_sources; ++source) misalignment |= reinterpret_cast<uintptr_t>(sources[source]);
    const uint64_t words = misalignment % 16 == 0 ? bytes / 16 : 0;
    auto* const to_words = reinterpret_cast<uint4*>(to);
    uint64_t word = threadIdx.x;
    for (; word + (kUnroll - 1) * kThreads < words; word += kUnroll * kThreads) ReduceWords<kUnroll>(to_words, word);
    for (; word < words; word += kThreads) ReduceWords<1>(to_words, word);
    const uint64_t elements = bytes / sizeof(Stored);
    for (uint64_t at = words * kPerWord + threadIdx.x; at < elements; at += kThreads) {
      Sum sum = Format::Load(reinterpret_cast<const Stored*>(sources[0])[at]);
      for (int source = 1; source < n_sources; ++source) {
        sum = Step::Step(sum, Format::Load(reinterpret_cast<const Stored*>(sources[source])[at]));
      }
      reinterpret_cast<Stored*>(to)[at] = Finish(sum);
    }
  }
};

// Not inlined: kernels call them in several places, once for a chunk, and would take minutes to compile.
__device__ __noinline__ void CopyChunk(std::byte* to, const std::byte* from, uint64_t bytes, Team team) {
  if (team.number == 0) return CopyBytes<16>(to, from, bytes, team);
  CopyBytes<8>(to, from, bytes, team);  // several teams' loads are under way together
}
template <class Element>
__device__ __noinline__ void ReduceChunk(const std::byte* const* sources, int n_sources, tcRedOp_t op, std::byte* to,
                                         uint64_t bytes) {
  WithStep<Element>(op, [&]<class Format, class Step>() {
    BlockReduction<Format, Step>{sources, n_sources, op == tcAvg ? n_sources : 1}.Run(to, bytes);
  });
}

// Apart, so that what usually runs is short: a kernel of a few microseconds waits for its instructions, too.
__device__ __noinline__ uint32_t LoadOddWord(const std::byte* from, uint32_t bytes) { return LoadBytes(from, bytes); }
__device__ __noinline__ void StoreOddWord(std::byte* to, uint32_t word, uint32_t bytes) { StoreBytes(to, word, bytes); }

// Waits in one thread for a slot of this rank's. False: the communicator has ended, by a stall, which is told, or
// otherwise. seen(): the epoch that the slot has come to.
template <class Ready, class Seen>
__device__ inline bool AwaitSlot(const ExchangeParams& p, Sequence epoch, const Ready& ready, Stall stall,
                                 const Seen& seen) {
  const RankView& view = p.comm.view;
  const auto over = [&] { return ready() || DeviceMemory::LoadAcquireGpu(&view.local->dead) != 0; };
  const WaitResult result = WaitUntil<DeviceMemory>(over, view, p.comm.timeout_ns);
  if (result == WaitResult::kReached) return ready();
  stall.shape = p.entry.shape;
  stall.epoch = epoch;
  stall.seen = seen();
  ReportStall(p.comm, result, stall);
  return false;
}

// The packet of `epoch` in a place; 0: the communicator has ended. Apart, since a block seldom has to come here.
__device__ __noinline__ uint64_t AwaitPacket(const ExchangeParams& p, Sequence epoch, int producer, uint32_t packet,
                                             const uint64_t* place) {
  const uint64_t begin = packet * kPacketBytes;
  const uint64_t left = p.exchange.pair[producer].from.bytes - begin;
  const Stall stall{.peer = producer,
                    .first_unit = static_cast<int64_t>(p.exchange.first + begin),
                    .last_unit = static_cast<int64_t>(p.exchange.first + begin + min(left, kPacketBytes)) - 1};
  uint64_t seen = 0;
  const auto come = [&] {
    if (!IsPacketOf(seen, epoch)) seen = LookAtPacket<DeviceMemory>(place);
    return IsPacketOf(seen, epoch);
  };
  return AwaitSlot(p, epoch, come, stall, [&] { return PacketEpoch(seen, epoch); }) ? seen : 0;
}

// A team of a block's threads, for planes/exchange.h. Element: what the exchange reduces, where all of a block are one
// team; void: it does not.
template <class Element>
struct ThreadBlock {
  using Memory = DeviceMemory;

  const ExchangeParams& p;
  const Sequence epoch;
  const Team team;

  __device__ Sequence Epoch() const { return epoch; }
  __device__ int lane() const { return team.lane; }
  __device__ int lanes() const { return team.lanes; }
  __device__ void Sync() const { team.Sync(); }
  __device__ bool All(bool fine) const { return team.All(fine); }
  __device__ void Pause() const {
    if (lane() == 0) Dawdle(p.comm);
  }
  __device__ void Copy(std::byte* to, const std::byte* from, uint64_t bytes) const { CopyChunk(to, from, bytes, team); }
  __device__ Destination DestinationOf(int rank) const { return DestinationAt(p.comm, rank, epoch); }
  __device__ std::byte* InWindow(const Destination& destination, int rank) const {
    return p.comm.windows[destination.window].base[rank] + destination.offset;
  }

  template <class Source>
  __device__ void Reduce(const Source& source, std::byte* to, uint64_t bytes) const {
    if constexpr (!std::is_void_v<Element>) {
      __shared__ const std::byte* sources[kMaxRanks];
      const int n_ranks = p.comm.view.n_ranks;
      if (lane() < n_ranks) sources[threadIdx.x] = source(lane());
      __syncthreads();
      ReduceChunk<Element>(sources, n_ranks, p.exchange.op, to, bytes);
    }
  }

  __device__ bool AwaitChunk(int producer, int chunk) const {
    const RankView& view = p.comm.view;
    const PairChunks& from = p.exchange.pair[producer].from;
    const RowRange range = from.range(chunk);
    const Stall stall{.peer = producer,
                      .first_unit = static_cast<int64_t>(p.exchange.first + range.begin),
                      .last_unit = static_cast<int64_t>(p.exchange.first + range.end) - 1};
    if (from.in_rounds()) {
      const int round = from.round_of(chunk);
      const auto supplied = [&] { return IsSupplied<DeviceMemory>(view, producer, epoch, round); };
      return Await(supplied, stall, &view.own().round[producer].supplied[round % 2], kRoundBits);
    }
    const auto arrived = [&] { return HasArrived<DeviceMemory>(view, producer, chunk, epoch); };
    return Await(arrived, stall, &view.own().watermark[producer].chunk[chunk]);
  }

  __device__ bool AwaitRoom(int consumer, int round) const {
    const RankView& view = p.comm.view;
    const auto room = [&] { return HasRoom<DeviceMemory>(view, consumer, epoch, round); };
    const Sequence* const slot = &view.own().round[consumer].taken[round % 2];
    return Await(room, {.peer = consumer, .acknowledgement = true}, slot, kRoundBits);
  }

  __device__ bool AwaitReader(int reader) const {
    const RankView& view = p.comm.view;
    const auto read = [&] { return HasAcknowledged<DeviceMemory>(view, reader, epoch); };
    return Await(read, {.peer = reader, .acknowledgement = true}, &view.own().acknowledgement[reader].epoch);
  }

  // The same for a word of rounds, or of an epoch.
  template <class Ready>
  __device__ bool Await(const Ready& ready, const Stall& stall, const Sequence* slot, int epoch_shift = 0) const {
    return AwaitSlot(p, epoch, ready, stall, [&] { return DeviceMemory::LoadRelaxed(slot) >> epoch_shift; });
  }

  __device__ uint32_t LoadWord(const std::byte* from, uint32_t bytes) const {
    const bool whole = bytes == 4 && reinterpret_cast<uintptr_t>(from) % 4 == 0;
    return whole ? *reinterpret_cast<const uint32_t*>(from) : LoadOddWord(from, bytes);
  }
  __device__ void StoreWord(std::byte* to, uint32_t word, uint32_t bytes) const {
    const bool whole = bytes == 4 && reinterpret_cast<uintptr_t>(to) % 4 == 0;
    if (whole) {
      *reinterpret_cast<uint32_t*>(to) = word;
    } else {
      StoreOddWord(to, word, bytes);
    }
  }
  __device__ uint64_t AwaitPacket(int producer, uint32_t packet, const uint64_t* place) const {
    return cuda::AwaitPacket(p, epoch, producer, packet, place);
  }
  __device__ std::byte* Arrivals() const {
    extern __shared__ uint4 arrivals[];
    return reinterpret_cast<std::byte*>(arrivals);
  }
};

template <template <class> class Plane, class Element>
__global__ __launch_bounds__(std::is_void_v<Element>
                                 ? kMostThreads
                                 : kThreads) void ExchangeKernelOf(const __grid_constant__ ExchangeParams p) {
  using Block = ThreadBlock<Element>;
  const Entered entered = EnterOperator(p.comm, p.entry, p.place);
  if (entered.verdict == Verdict::kGo) {
    const int teams = std::is_void_v<Element> && p.comm.host_staged ? kMostTeams : 1;
    const Block block{p, entered.epoch, TeamOf(teams)};
    if (std::is_same_v<Plane<Block>, PushPlane<Block>> && p.exchange.packets > 0) {
      const PacketPlane<Block> plane(block, p.comm.view, p.exchange, entered.epoch);
      const ExchangeSteps<Block, PacketPlane<Block>> steps(block, plane, p.comm.view, p.exchange);
      steps.RunByPackets(entered.ticket, gridDim.x, [&] { return ClaimTicket(p.comm); });
    } else {
      const Plane<Block> plane(block, p.comm.view, p.exchange, entered.epoch);
      const ExchangeSteps<Block, Plane<Block>> steps(block, plane, p.comm.view, p.exchange);
      const uint32_t ticket = entered.ticket * teams + (teams > 1 ? block.team.number - 1 : 0);
      steps.Run(ticket, p.comm.host_staged,
                [&](Direction direction) { return ClaimPiece(p.comm, p.place, direction, block.team); });
    }
  }
  LeaveOperator(p.comm, entered, p.place);
}

template <template <class> class Plane, class Element>
const void* KernelFor() {
  return reinterpret_cast<const void*>(&ExchangeKernelOf<Plane, Element>);
}

template <template <class> class Plane>
const void* KernelOn(const Exchange& exchange) {
  if (!exchange.reduces) return KernelFor<Plane, void>();
  switch (exchange.type) {
    case tcInt8:
      return KernelFor<Plane, Integer<int8_t>>();
    case tcUint8:
      return KernelFor<Plane, Integer<uint8_t>>();
    case tcInt32:
      return KernelFor<Plane, Integer<int32_t>>();
    case tcUint32:
      return KernelFor<Plane, Integer<uint32_t>>();
    case tcInt64:
      return KernelFor<Plane, Integer<int64_t>>();
    case tcUint64:
      return KernelFor<Plane, Integer<uint64_t>>();
    case tcFloat16:
      return KernelFor<Plane, Half<HalfUnit>>();
    case tcBfloat16:
      return KernelFor<Plane, Bf16<Bf16Unit>>();
    case tcFloat32:
      return KernelFor<Plane, Fp32>();
    default:
      return KernelFor<Plane, Fp64>();
  }
}

}  // namespace

const void* ExchangeKernel(const Exchange& exchange, tcPlane_t plane) {
  return Pushes(plane) ? KernelOn<PushPlane>(exchange) : KernelOn<PullPlane>(exchange);
}

}  // namespace tc::cuda
