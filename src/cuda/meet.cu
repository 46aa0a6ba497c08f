// Operators that only meet, by one warp: barriers and refusals.
#include "cuda/frame.cuh"
#include "cuda/kernels.h"
#include "cuda/ptx/launch.cuh"

namespace tc::cuda {
namespace {

// One warp, one block: what a barrier does lies between two other kernels of its stream, so every instruction counts.
template <class Entry>
__device__ void MeetOnly(const DeviceComm& comm, const Entry& mine) {
  Entered entered{};
  if (threadIdx.x == 0) entered = ArriveAt(comm);
  entered.epoch = __shfl_sync(~0u, entered.epoch, 0);
  entered.ticket = __shfl_sync(~0u, entered.ticket, 0);
  entered.verdict = static_cast<Verdict>(__shfl_sync(~0u, static_cast<uint32_t>(entered.verdict), 0));
  if (entered.verdict == Verdict::kGo && entered.ticket == 0) entered.verdict = Meet(comm, mine, entered.epoch, true);
  ptx::AllowNextLaunch();  // all ranks are here, and what is left is this rank's own
  if (threadIdx.x != 0) return;
  if (entered.verdict == Verdict::kGo && entered.ticket != 0) {
    entered.verdict = AwaitVerdict(comm, mine.shape, entered.epoch);
  }
  LocalBlock& local = *comm.view.local;
  if (entered.verdict < Verdict::kOut) LeaveMeeting<DeviceMemory>(local, entered.epoch);
  if (entered.verdict == Verdict::kGo) DeviceMemory::CountRelaxedGpu(&local.tally.ops, 1);
  if (comm.launched != 0) EndLaunch<DeviceMemory>(local, comm.launched, 1);
}

// Half the parameters of a refusal: a kernel's start takes longer the more it is handed.
__global__ __launch_bounds__(kMeetingThreads) void Barrier(const __grid_constant__ DeviceComm comm) {
  ptx::AwaitPreviousLaunch();
  MeetOnly(comm, BareEntry{});
}

__global__ __launch_bounds__(kMeetingThreads) void Refuse(const __grid_constant__ RefusalParams p) {
  MeetOnly(p.comm, p.entry);
}

}  // namespace

const void* BarrierKernel() { return reinterpret_cast<const void*>(&Barrier); }
const void* RefusalKernel() { return reinterpret_cast<const void*>(&Refuse); }

}  // namespace tc::cuda
