// For builds without CUDA: ranks are never placed on GPUs, so nothing here but the answer to that is ever reached.
#include "barrier_case.h"
#include "device.h"
#include "gemm_case.h"

namespace tc::perf {
namespace {

[[noreturn]] void Refuse(Rank& rank) { rank.Fail("this build has no CUDA backend"); }

}  // namespace

bool IsBuiltForGpus() { return false; }

nlohmann::json UseDevice(Rank& rank, int) { Refuse(rank); }

std::unique_ptr<GemmCase> MakeDeviceCase(const GemmOptions&, const GemmShape&, const Inputs&,
                                         Communicator& communicator) {
  Refuse(communicator.Owner());
}

std::unique_ptr<BarrierCase> MakeDeviceBarrierCase(const CommonOptions&, RollCall&, Communicator& communicator) {
  Refuse(communicator.Owner());
}

}  // namespace tc::perf
