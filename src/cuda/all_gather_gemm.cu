// All-gather + GEMM in one kernel: blocks that move rows push this rank's shard to the peers and keep what the caller
// wants gathered; all others compute tiles as soon as the rows of a tile have come; movers join them when they are
// done. Where rows come to host memory, or wait in a peer's, movers bring them to the device once and open gates, for
// each is read by many tiles. Around a copy engine's copies it is two launches: one stages, the other computes.
#include "cuda/fma_gemm.cuh"
#include "cuda/frame.cuh"
#include "cuda/kernels.h"
#include "cuda/mma_gemm.cuh"
#include "order/signals.h"
#include "order/tiles.h"
#include "protocol/acknowledgement.h"
#include "protocol/election.h"
#include "protocol/gate.h"

namespace tc::cuda {
namespace {

constexpr int kTileRows = 128;

// Where packed rows lie: in the caller's a, in a peer's memory, here behind a watermark, in c.
struct Places {
  const GatherGemmParams& p;
  const RankView& view;
  const WindowBases* windows;

  __device__ explicit Places(const GatherGemmParams& params)
      : p(params), view(params.comm.view), windows(params.comm.windows) {}

  // Packed row -> row of the whole.
  __device__ uint64_t Whole(uint64_t row, int owner) const {
    return row - p.slab.packed.begin[owner] + p.slab.first[owner];
  }
  __device__ const std::byte* OwnRow(uint64_t row) const {
    const uint64_t in_shard = Whole(row, view.rank) - p.problem.shards.begin[view.rank];
    return static_cast<const std::byte*>(p.problem.a) + in_shard * p.problem.lda * (p.row_bytes / p.problem.k);
  }
  __device__ std::byte* GatheredRow(uint64_t row, int owner) const {
    return static_cast<std::byte*>(p.problem.gathered) + Whole(row, owner) * p.row_bytes;
  }
  __device__ std::byte* StagedRow(int rank, uint64_t row) const { return view.workspace[rank] + row * p.staged_pitch; }
  // Where movers find a peer's chunk, and the bytes from one row to the next.
  __device__ const std::byte* SourceRow(uint64_t row, int owner, const Destination& source) const {
    if (p.sending != Sending::kAtOnce) return StagedRow(view.rank, row);
    if (source.window < 0) return StagedRow(owner, row);
    return windows[source.window].base[owner] + source.offset +
           (Whole(row, owner) - p.problem.shards.begin[owner]) * p.row_bytes;
  }
  __device__ uint64_t SourcePitch(const Destination& source) const {
    return p.sending == Sending::kAtOnce && source.window >= 0 ? p.row_bytes : p.staged_pitch;
  }
  // Where tiles find a peer's row.
  __device__ const std::byte* ArrivedRow(uint64_t row, int owner) const {
    if (p.lands) return LandedRow(row, owner);
    return p.entry.destination.window < 0 ? StagedRow(view.rank, row) : GatheredRow(row, owner);
  }
  // Where it is brought to, and the bytes from one such row to the next.
  __device__ std::byte* LandedRow(uint64_t row, int owner) const {
    if (p.problem.gathered != nullptr) return GatheredRow(row, owner);
    return view.landing != nullptr ? view.landing + row * p.staged_pitch : StagedRow(view.rank, row);
  }
  __device__ uint64_t LandedPitch() const { return p.problem.gathered != nullptr ? p.row_bytes : p.staged_pitch; }
};

__device__ inline GatherSignals SignalsOf(const GatherGemmParams& p) { return {p.slab.packed, p.chunk_rows}; }

// Waits in one thread until a chunk of `producer` has come.
__device__ inline bool AwaitChunk(const GatherGemmParams& p, Sequence epoch, int producer, int chunk) {
  const RankView& view = p.comm.view;
  const auto arrived = [&] { return HasArrived<DeviceMemory>(view, producer, chunk, epoch); };
  const auto dead = [&] { return arrived() || DeviceMemory::LoadAcquireGpu(&view.local->dead) != 0; };
  const WaitResult result = WaitUntil<DeviceMemory>(dead, view, p.comm.timeout_ns);
  if (result == WaitResult::kReached) return arrived();
  const int64_t shift =
      static_cast<int64_t>(p.slab.first[producer]) - static_cast<int64_t>(p.slab.packed.begin[producer]);
  const RowRange rows = SignalsOf(p).rows(producer, chunk);
  ReportStall(p.comm, result,
              {.peer = producer,
               .shape = p.entry.shape,
               .epoch = epoch,
               .first_unit = static_cast<int64_t>(rows.begin) + shift,
               .last_unit = static_cast<int64_t>(rows.end) + shift - 1,
               .seen = DeviceMemory::LoadRelaxed(&view.own().watermark[producer].chunk[chunk])});
  return false;
}

__device__ void PushChunk(const GatherGemmParams& p, Sequence epoch, int consumer, int chunk) {
  const Places places(p);
  const RankView& view = p.comm.view;
  const auto [begin, end] = SignalsOf(p).rows(view.rank, chunk);
  const uint64_t rows = end - begin;
  const uint64_t from_pitch = p.problem.lda * (p.row_bytes / p.problem.k);
  const Destination destination = DestinationAt(p.comm, consumer, epoch);
  if (destination.window < 0) {
    CopyRows(places.StagedRow(consumer, begin), p.staged_pitch, places.OwnRow(begin), from_pitch, p.row_bytes, rows);
  } else {
    std::byte* to = p.comm.windows[destination.window].base[consumer] + destination.offset +
                    places.Whole(begin, view.rank) * p.row_bytes;
    CopyRows(to, p.row_bytes, places.OwnRow(begin), from_pitch, p.row_bytes, rows);
  }
  __syncthreads();  // all threads' stores, then one release that covers them (P4)
  if (threadIdx.x == 0) RaiseWatermark<DeviceMemory>(view, consumer, chunk, epoch);
}

// Whether peers load this rank's rows from its caller's a.
__device__ inline bool IsRead(const GatherGemmParams& p) {
  return p.sending == Sending::kAtOnce && p.entry.destination.window >= 0;
}

// Lets all peers load a chunk.
__device__ void ShareChunk(const GatherGemmParams& p, Sequence epoch, int chunk) {
  const Places places(p);
  const RankView& view = p.comm.view;
  const auto [begin, end] = SignalsOf(p).rows(view.rank, chunk);
  if (!IsRead(p)) {
    CopyRows(places.StagedRow(view.rank, begin), p.staged_pitch, places.OwnRow(begin),
             p.problem.lda * (p.row_bytes / p.problem.k), p.row_bytes, end - begin);
  }
  __syncthreads();  // all threads' stores, then one release that covers them (P4)
  const int peer = static_cast<int>(threadIdx.x);
  if (peer < view.n_ranks && peer != view.rank) RaiseWatermark<DeviceMemory>(view, peer, chunk, epoch);
}

// Waits until all peers have read this rank's a. False: the communicator has ended.
__device__ bool AwaitReaders(const GatherGemmParams& p, Sequence epoch) {
  const RankView& view = p.comm.view;
  const int reader = static_cast<int>(threadIdx.x);
  bool fine = true;
  if (reader < view.n_ranks && reader != view.rank && p.slab.packed.rows(view.rank) > 0) {
    const auto read = [&] { return HasAcknowledged<DeviceMemory>(view, reader, epoch); };
    const auto over = [&] { return read() || DeviceMemory::LoadAcquireGpu(&view.local->dead) != 0; };
    const WaitResult result = WaitUntil<DeviceMemory>(over, view, p.comm.timeout_ns);
    fine = result == WaitResult::kReached && read();
    if (result != WaitResult::kReached) {
      ReportStall(p.comm, result,
                  {.peer = reader,
                   .shape = p.entry.shape,
                   .epoch = epoch,
                   .acknowledgement = true,
                   .seen = DeviceMemory::LoadRelaxed(&view.own().acknowledgement[reader].epoch)});
    }
  }
  return __syncthreads_and(fine ? 1 : 0) != 0;
}

// Whether rows come to the workspace first and are brought on from there.
__device__ inline bool CopiesArrivals(const GatherGemmParams& p) {
  return p.lands || (p.problem.gathered != nullptr && p.entry.destination.window < 0);
}

// Counts rows that need not come into their gates. By all threads of a block.
__device__ void OpenGatesOf(LocalBlock& local, RowRange rows) {
  for (uint64_t gate = rows.begin / kGateRows + threadIdx.x; gate * kGateRows < rows.end; gate += kThreads) {
    const uint64_t begin = gate * kGateRows;
    const uint64_t end = begin + kGateRows;
    OpenGates<DeviceMemory>(local, begin > rows.begin ? begin : rows.begin, end < rows.end ? end : rows.end);
  }
}

// This rank's own rows, which tiles read from a, and the padding.
__device__ void OpenOwnGates(const GatherGemmParams& p) {
  const Shards& packed = p.slab.packed;
  OpenGatesOf(*p.comm.view.local, {packed.begin[p.comm.view.rank], packed.begin[p.comm.view.rank + 1]});
  OpenGatesOf(*p.comm.view.local, SignalsOf(p).padding());
}

__device__ void KeepChunk(const GatherGemmParams& p, int chunk) {
  const Places places(p);
  const int rank = p.comm.view.rank;
  const auto [begin, end] = SignalsOf(p).rows(rank, chunk);
  if (places.GatheredRow(begin, rank) == places.OwnRow(begin)) return;  // in place
  CopyRows(places.GatheredRow(begin, rank), p.row_bytes, places.OwnRow(begin),
           p.problem.lda * (p.row_bytes / p.problem.k), p.row_bytes, end - begin);
}

__device__ bool TakeArrival(const GatherGemmParams& p, Sequence epoch, int producer, int chunk) {
  __shared__ bool has_come;
  const Places places(p);
  const RankView& view = p.comm.view;
  if (threadIdx.x == 0) has_come = AwaitChunk(p, epoch, producer, chunk);
  __syncthreads();
  if (!has_come || !CopiesArrivals(p)) return has_come;
  const auto [begin, end] = SignalsOf(p).rows(producer, chunk);
  const Destination source = p.sending == Sending::kAtOnce ? DestinationAt(p.comm, producer, epoch) : Destination{};
  CopyRows(places.LandedRow(begin, producer), places.LandedPitch(), places.SourceRow(begin, producer, source),
           places.SourcePitch(source), p.row_bytes, end - begin);
  if (!p.lands) return true;
  __syncthreads();  // all threads' loads and stores, then releases that cover them (P4)
  if (threadIdx.x != 0) return true;
  OpenGates<DeviceMemory>(*view.local, begin, end);
  const auto chunks = static_cast<uint32_t>(SignalsOf(p).chunks(producer));
  if (source.window >= 0 && Elect<DeviceMemory>(&view.local->taken[producer], chunks)) {
    Acknowledge<DeviceMemory>(view, producer, epoch);
  }
  return true;
}

// False: nothing is left to do, or to wait for.
__device__ bool MoveNext(const GatherGemmParams& p, const Entered& entered) {
  const RankView& view = p.comm.view;
  const bool tiles_wait = p.col_blocks > 0 && (p.problem.stages & kStageCompute) != 0;
  const Movement movement{.rank = view.rank,
                          .n_ranks = view.n_ranks,
                          .keeps_own = p.problem.gathered != nullptr,
                          .takes_arrivals = CopiesArrivals(p) || !tiles_wait,  // somebody must wait for them
                          .sending = p.sending,
                          .is_read = IsRead(p)};
  const Move move = ClaimMove(p.comm, p.place, movement, entered.ticket, SignalsOf(p));
  switch (move.kind) {
    case MoveKind::kShare:
      ShareChunk(p, entered.epoch, move.chunk);
      return true;
    case MoveKind::kPush:
      PushChunk(p, entered.epoch, move.peer, move.chunk);
      if (move.kept >= 0) KeepChunk(p, move.kept);
      return true;
    case MoveKind::kKeepOwn:
      KeepChunk(p, move.chunk);
      return true;
    case MoveKind::kArrival:
      return TakeArrival(p, entered.epoch, move.peer, move.chunk);
    case MoveKind::kReaders:
      return AwaitReaders(p, entered.epoch);
    default:
      return false;
  }
}

// The first warp: one lane per chunk that rows [begin, end) need. False: the communicator has ended.
__device__ bool AwaitRows(const GatherGemmParams& p, Sequence epoch, uint64_t begin, uint64_t end) {
  const RankView& view = p.comm.view;
  bool fine = true;
  int lane = 0;  // chunks go to lanes in turn
  for (int owner = 0; owner < view.n_ranks; ++owner) {
    if (owner == view.rank) continue;
    const ChunkRange needed = SignalsOf(p).needed_chunks(owner, begin, end);
    for (int chunk = needed.begin; chunk < needed.end; ++chunk, lane = (lane + 1) % 32) {
      if (threadIdx.x == lane && fine) fine = AwaitChunk(p, epoch, owner, chunk);
    }
  }
  return __all_sync(~0u, fine);
}

// In one thread: until this grid's movers have brought all rows of a tile. They open every gate, or end the
// communicator within their own time limits, so this wait needs none. False: the communicator has ended.
__device__ bool AwaitGate(const GatherGemmParams& p, Sequence epoch, uint64_t gate) {
  const RankView& view = p.comm.view;
  const auto open = [&] { return GateIsOpen<DeviceMemory>(*view.local, gate); };
  const auto dead = [&] { return open() || DeviceMemory::LoadAcquireGpu(&view.local->dead) != 0; };
  const WaitResult result = WaitUntil<DeviceMemory>(dead, view, UINT64_MAX);
  if (result == WaitResult::kReached) return open();
  ReportStall(p.comm, result, {.peer = view.rank, .shape = p.entry.shape, .epoch = epoch});
  return false;
}

template <class Element>
__device__ inline void StoreOne(void* c, uint64_t at, float value);
template <>
__device__ inline void StoreOne<float>(void* c, uint64_t at, float value) {
  static_cast<float*>(c)[at] = value;
}
template <>
__device__ inline void StoreOne<__half>(void* c, uint64_t at, float value) {
  static_cast<__half*>(c)[at] = __float2half_rn(value);
}
template <>
__device__ inline void StoreOne<__nv_bfloat16>(void* c, uint64_t at, float value) {
  static_cast<__nv_bfloat16*>(c)[at] = __float2bfloat16_rn(value);
}

template <class Gemm>
__device__ void ComputeTiles(const GatherGemmParams& p, Sequence epoch, char* shared) {
  using Element = typename Gemm::Element;
  __shared__ const Element* a_rows[kTileRows];
  __shared__ uint64_t c_rows[kTileRows];
  __shared__ bool go;
  static_assert(Gemm::kTileM == kTileRows);
  const RankView& view = p.comm.view;
  LocalBlock& local = *view.local;
  const Places places(p);
  const uint64_t total = p.slab.packed.total();
  const AllGatherGemmProblem& problem = p.problem;
  const bool wide_out = problem.out_type == tcFloat32;
  for (;;) {
    const uint32_t claimed = Claim(p.comm, [&] { return ClaimTile<DeviceMemory>(local); });
    if (claimed >= p.row_blocks * p.col_blocks) return;
    const Tile tile =
        AllGatherTile(claimed, p.row_blocks, p.col_blocks, p.slab.packed.begin[view.rank], uint64_t{kTileRows});
    const uint64_t begin = tile.row_block * kTileRows;
    const uint64_t end = begin + kTileRows < total ? begin + kTileRows : total;
    if ((problem.stages & kStageMove) == 0) {
      if (threadIdx.x == 0) go = true;
    } else if (p.lands) {
      if (threadIdx.x == 0) go = AwaitGate(p, epoch, tile.row_block);
    } else if (threadIdx.x < 32) {
      const bool fine = AwaitRows(p, epoch, begin, end);
      if (threadIdx.x == 0) go = fine;
    }
    if (threadIdx.x < kTileRows) {
      const uint64_t row = begin + threadIdx.x;
      const int owner = row < end ? p.slab.owner(row) : view.rank;
      const std::byte* from = owner == view.rank ? places.OwnRow(row) : places.ArrivedRow(row, owner);
      a_rows[threadIdx.x] = row < end ? reinterpret_cast<const Element*>(from) : nullptr;
      c_rows[threadIdx.x] = row < end ? places.Whole(row, owner) * problem.ldc : 0;
    }
    __syncthreads();  // also carries the waiters' acquires to all threads
    if (!go) return;
    const auto a_row = [&](int i) { return a_rows[i]; };
    const auto store = [&](int i, uint64_t j, float v0, float v1) {
      if (a_rows[i] == nullptr) return;
      const float values[2] = {v0 * problem.alpha, v1 * problem.alpha};
#pragma unroll
      for (int e = 0; e < 2; ++e) {
        if (j + e >= problem.n) continue;
        if (wide_out) {
          StoreOne<float>(problem.c, c_rows[i] + j + e, values[e]);
        } else {
          StoreOne<Element>(problem.c, c_rows[i] + j + e, values[e]);
        }
      }
    };
    Gemm::Compute(shared, a_row, static_cast<const Element*>(problem.b), problem.ldb, problem.n, problem.k,
                  tile.col_block * Gemm::kTileN, store);
  }
}

template <class Gemm>
__global__ __launch_bounds__(kThreads, 1) void AllGatherGemmKernelOf(const __grid_constant__ GatherGemmParams p) {
  extern __shared__ __align__(128) char shared[];
  static_assert(Gemm::kThreads == kThreads);
  const Entered entered = EnterOperator(p.comm, p.entry, p.place);
  if (entered.verdict == Verdict::kGo) {
    if (entered.ticket < p.movers && (p.problem.stages & kStageMove) != 0) {
      if (entered.ticket == 0 && p.lands) OpenOwnGates(p);
      while (MoveNext(p, entered)) {
      }
    }
    if ((p.problem.stages & kStageCompute) != 0) ComputeTiles<Gemm>(p, entered.epoch, shared);
  }
  LeaveOperator(p.comm, entered, p.place, p.lands ? p.row_blocks : 0);
}

template <class Gemm>
constexpr GemmKernel KernelOf() {
  return {reinterpret_cast<const void*>(&AllGatherGemmKernelOf<Gemm>), Gemm::kSharedBytes, Gemm::kTileM, Gemm::kTileN};
}

}  // namespace

GemmKernel AllGatherGemmKernel(tcDataType_t type, tcBLayout_t layout) {
  const bool kn = layout == tcBLayoutKN;
  switch (type) {
    case tcFloat32:
      return kn ? KernelOf<FmaGemm<true>>() : KernelOf<FmaGemm<false>>();
    case tcFloat16:
      return kn ? KernelOf<MmaGemm<__half, true>>() : KernelOf<MmaGemm<__half, false>>();
    default:
      return kn ? KernelOf<MmaGemm<__nv_bfloat16, true>>() : KernelOf<MmaGemm<__nv_bfloat16, false>>();
  }
}

}  // namespace tc::cuda
