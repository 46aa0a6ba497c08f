#include "cuda/frame.cuh"
#include "wait_bounds_kernels.h"

namespace tc::perf {
namespace {

using cuda::DeviceMemory;

// Meet of src/cuda/frame.cuh, less what a barrier does after the wait: one lane a peer publishes a bare entry and waits
// for the peer's.
template <Waiting kWaiting>
__global__ __launch_bounds__(32) void MeetOnce(const __grid_constant__ cuda::DeviceComm comm) {
  const RankView& view = comm.view;
  LocalBlock& local = *view.local;
  const int peer = static_cast<int>(threadIdx.x);
  Sequence epoch = 0;
  if (peer == 0 && DeviceMemory::LoadRelaxed(&local.dead) == 0) epoch = Arrive<DeviceMemory>(local).epoch;
  epoch = __shfl_sync(~0u, epoch, 0);
  if (epoch == 0) return;  // an earlier one has stalled
  if (peer < view.n_ranks) {
    PublishEntry<DeviceMemory>(view, peer, epoch, BareEntry{});
    const auto entered = [&] { return HasEntered<DeviceMemory>(view, peer, epoch); };
    if constexpr (kWaiting == Waiting::kBounded) {
      const auto tell = [&](uint64_t waited_ns) { cuda::ReportLongWait(comm, BareShape(), epoch, peer, waited_ns); };
      const WaitResult result = WaitUntil<DeviceMemory>(entered, view, comm.entry_timeout_ns, cuda::kLongWaitNs, tell);
      if (result != WaitResult::kReached) {
        const Sequence seen = EpochEntered<DeviceMemory>(view, peer, epoch);
        cuda::ReportStall(comm, result, {.peer = peer, .shape = BareShape(), .epoch = epoch, .seen = seen});
      }
    } else {
      while (!entered()) {
      }
    }
  }
  __syncwarp();
  if (peer == 0) LeaveMeeting<DeviceMemory>(local, epoch);
}

using Kernel = void (*)(cuda::DeviceComm);

Kernel KernelOf(Waiting waiting) {
  return waiting == Waiting::kBounded ? &MeetOnce<Waiting::kBounded> : &MeetOnce<Waiting::kBare>;
}

}  // namespace

cudaError_t LoadMeetings() {
  for (const Waiting waiting : {Waiting::kBounded, Waiting::kBare}) {
    cudaFuncAttributes attributes;
    const cudaError_t result = cudaFuncGetAttributes(&attributes, KernelOf(waiting));
    if (result != cudaSuccess) return result;
  }
  return cudaSuccess;
}

cudaError_t EnqueueMeeting(Waiting waiting, const cuda::DeviceComm& comm, cudaStream_t stream) {
  KernelOf(waiting)<<<1, 32, 0, stream>>>(comm);
  return cudaGetLastError();
}

}  // namespace tc::perf
