// All-gather by push.
#include "cuda/frame.cuh"
#include "cuda/kernels.h"

namespace tc::cuda {
namespace {

__device__ inline uint64_t ChunkLength(const GatherParams& p, int chunk) {
  const uint64_t rest = p.bytes - chunk * p.chunk_bytes;
  return rest < p.chunk_bytes ? rest : p.chunk_bytes;
}

__device__ void PushChunk(const GatherParams& p, Sequence epoch, int consumer, int chunk) {
  const RankView& view = p.comm.view;
  const Destination destination = DestinationAt(p.comm, consumer, epoch);
  std::byte* block = destination.window < 0 ? view.workspace[consumer] + view.rank * p.staged_stride
                                            : p.comm.windows[destination.window].base[consumer] + destination.offset +
                                                  view.rank * p.stride + p.first;
  CopyBytes(block + chunk * p.chunk_bytes, p.send + chunk * p.chunk_bytes, ChunkLength(p, chunk));
  __syncthreads();  // all threads' stores, then one release that covers them (P4)
  if (threadIdx.x == 0) RaiseWatermark<DeviceMemory>(view, consumer, chunk, epoch);
}

__device__ void KeepChunk(const GatherParams& p, int chunk) {
  std::byte* own = p.recv + p.comm.view.rank * p.stride;
  if (own == p.send) return;  // in place
  CopyBytes(own + chunk * p.chunk_bytes, p.send + chunk * p.chunk_bytes, ChunkLength(p, chunk));
}

__device__ bool AwaitChunk(const GatherParams& p, Sequence epoch, int producer, int chunk) {
  __shared__ bool has_come;
  const RankView& view = p.comm.view;
  if (threadIdx.x == 0) {
    const auto arrived = [&] { return HasArrived<DeviceMemory>(view, producer, chunk, epoch); };
    const auto dead = [&] { return arrived() || DeviceMemory::LoadAcquireGpu(&view.local->dead) != 0; };
    const WaitResult result = WaitUntil<DeviceMemory>(dead, view, p.comm.timeout_ns);
    has_come = result == WaitResult::kReached && arrived();
    if (result != WaitResult::kReached) {
      const int64_t first = p.first + chunk * p.chunk_bytes;
      ReportStall(p.comm, result,
                  {.peer = producer,
                   .shape = p.entry.shape,
                   .epoch = epoch,
                   .first_unit = first,
                   .last_unit = first + static_cast<int64_t>(ChunkLength(p, chunk)) - 1,
                   .seen = DeviceMemory::LoadRelaxed(&view.own().watermark[producer].chunk[chunk])});
    }
  }
  __syncthreads();
  return has_come;
}

__device__ bool TakeArrival(const GatherParams& p, Sequence epoch, int producer, int chunk) {
  if (!AwaitChunk(p, epoch, producer, chunk)) return false;
  if (p.entry.destination.window >= 0) return true;  // it has come to where it belongs
  CopyBytes(p.recv + producer * p.stride + chunk * p.chunk_bytes,
            p.comm.view.workspace[p.comm.view.rank] + producer * p.staged_stride + chunk * p.chunk_bytes,
            ChunkLength(p, chunk));
  return true;
}

// False: nothing is left to do, or to wait for.
__device__ bool MoveNext(const GatherParams& p, const Entered& entered) {
  const RankView& view = p.comm.view;
  const Movement movement{.rank = view.rank, .n_ranks = view.n_ranks, .keeps_own = true, .takes_arrivals = true};
  const EqualChunks sent{ChunkCount(p.bytes, p.chunk_bytes)};
  const Move move = ClaimMove(p.comm, movement, entered.ticket, sent);
  switch (move.kind) {
    case MoveKind::kPush:
      PushChunk(p, entered.epoch, move.peer, move.chunk);
      return true;
    case MoveKind::kKeepOwn:
      KeepChunk(p, move.chunk);
      return true;
    case MoveKind::kArrival:
      return TakeArrival(p, entered.epoch, move.peer, move.chunk);
    default:
      return false;
  }
}

__global__ __launch_bounds__(kThreads) void AllGatherPush(const __grid_constant__ GatherParams p) {
  const Entered entered = EnterOperator(p.comm, p.entry, p.place);
  while (entered.verdict == Verdict::kGo && MoveNext(p, entered)) {
  }
  LeaveOperator(p.comm, entered, p.place);
}

}  // namespace

const void* AllGatherKernel() { return reinterpret_cast<const void*>(&AllGatherPush); }

}  // namespace tc::cuda
