// Operators that only meet, by one warp: barriers and refusals.
#include "cuda/frame.cuh"
#include "cuda/kernels.h"

namespace tc::cuda {
namespace {

template <class Entry>
__device__ void MeetOnly(const DeviceComm& comm, const Entry& mine) {
  const Entered entered = EnterOperator(comm, mine, SlabPlace{});
  if (threadIdx.x != 0) return;
  LocalBlock& local = *comm.view.local;
  if (entered.verdict < Verdict::kOut) LeaveMeeting<DeviceMemory>(local, entered.epoch);
  if (entered.verdict == Verdict::kGo) DeviceMemory::CountRelaxedGpu(&local.tally.ops, 1);
  if (comm.launched != 0) EndLaunch<DeviceMemory>(local, comm.launched, 1);
}

// Half the parameters of a refusal: a kernel's start takes longer the more it is handed.
__global__ __launch_bounds__(kMeetingThreads) void Barrier(const __grid_constant__ DeviceComm comm) {
  MeetOnly(comm, BareEntry{});
}

__global__ __launch_bounds__(kMeetingThreads) void Refuse(const __grid_constant__ RefusalParams p) {
  MeetOnly(p.comm, p.entry);
}

}  // namespace

const void* BarrierKernel() { return reinterpret_cast<const void*>(&Barrier); }
const void* RefusalKernel() { return reinterpret_cast<const void*>(&Refuse); }

}  // namespace tc::cuda
