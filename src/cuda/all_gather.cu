// All-gather by push, and the operators that only meet.
#include "cuda/frame.cuh"
#include "cuda/kernels.h"
#include "order/chunks.h"

namespace tc::cuda {
namespace {

__device__ inline uint64_t ChunkLength(const GatherParams& p, int chunk) {
  const uint64_t rest = p.bytes - chunk * p.chunk_bytes;
  return rest < p.chunk_bytes ? rest : p.chunk_bytes;
}

__device__ void PushChunk(const GatherParams& p, Sequence epoch, int consumer, int chunk) {
  const RankView& view = p.comm.view;
  const Destination& destination = EntryOf(view, view.rank, consumer, epoch).destination;
  std::byte* block = destination.window < 0 ? view.workspace[consumer] + view.rank * p.staged_stride
                                            : p.comm.windows[destination.window].base[consumer] + destination.offset +
                                                  view.rank * p.stride + p.first;
  CopyBytes(block + chunk * p.chunk_bytes, p.send + chunk * p.chunk_bytes, ChunkLength(p, chunk));
  __syncthreads();  // all threads' stores, then one release that covers them (P4)
  if (threadIdx.x == 0) RaiseWatermark<DeviceMemory>(view, consumer, chunk, epoch);
}

__device__ bool AwaitChunk(const GatherParams& p, Sequence epoch, int producer, int chunk) {
  __shared__ bool has_come;
  const RankView& view = p.comm.view;
  if (threadIdx.x == 0) {
    const auto arrived = [&] { return HasArrived<DeviceMemory>(view, producer, chunk, epoch); };
    const auto dead = [&] { return arrived() || DeviceMemory::LoadAcquireGpu(&view.own().local.dead) != 0; };
    const WaitResult result = WaitUntil<DeviceMemory>(dead, view, p.comm.timeout_ns);
    has_come = result == WaitResult::kReached && arrived();
    if (result != WaitResult::kReached) {
      const int64_t first = p.first + chunk * p.chunk_bytes;
      ReportStall(p.comm, result, p.entry.shape, epoch, producer, first, first + ChunkLength(p, chunk) - 1,
                  DeviceMemory::LoadRelaxed(&view.own().from.watermark[producer].chunk[chunk]));
    }
  }
  __syncthreads();
  return has_come;
}

// Pushes first, then what waits; see Moves in all_gather_gemm.cu.
__global__ __launch_bounds__(kThreads) void AllGatherPush(const __grid_constant__ GatherParams p) {
  const RankView& view = p.comm.view;
  const Entered entered = EnterOperator(p.comm, p.entry, p.place);
  const int chunks = ChunkCount(p.bytes, p.chunk_bytes);
  const int pushes = chunks * (view.n_ranks - 1);
  while (entered.verdict == Verdict::kGo) {
    int move = static_cast<int>(ClaimMove(view.own().local));
    if (move < pushes) {
      PushChunk(p, entered.epoch, PushDestination(view.rank, move / chunks, view.n_ranks), move % chunks);
    } else if ((move -= pushes) < chunks) {
      std::byte* own = p.recv + view.rank * p.stride;
      if (own != p.send) CopyBytes(own + move * p.chunk_bytes, p.send + move * p.chunk_bytes, ChunkLength(p, move));
    } else if ((move -= chunks) < pushes) {
      const int producer = ArrivalSource(view.rank, move / chunks, view.n_ranks);
      const int chunk = move % chunks;
      if (!AwaitChunk(p, entered.epoch, producer, chunk)) break;
      if (p.entry.destination.window >= 0) continue;
      CopyBytes(p.recv + producer * p.stride + chunk * p.chunk_bytes,
                view.workspace[view.rank] + producer * p.staged_stride + chunk * p.chunk_bytes, ChunkLength(p, chunk));
    } else {
      break;
    }
  }
  LeaveOperator(p.comm, entered, p.place);
}

__global__ __launch_bounds__(32) void MeetOnly(const __grid_constant__ MeetParams p) {
  const Entered entered = EnterOperator(p.comm, p.entry, SlabPlace{});
  LeaveOperator(p.comm, entered, SlabPlace{});
}

}  // namespace

const void* AllGatherKernel() { return reinterpret_cast<const void*>(&AllGatherPush); }
const void* MeetKernel() { return reinterpret_cast<const void*>(&MeetOnly); }

}  // namespace tc::cuda
