// For builds without CUDA: ranks are never placed on GPUs, so nothing here but the answer to that is ever reached.
#include "device.h"

namespace tc::perf {

bool IsBuiltForGpus() { return false; }

nlohmann::json UseDevice(Rank& rank, int) { rank.Fail("this build has no CUDA backend"); }

std::unique_ptr<GemmCase> MakeDeviceCase(const GemmOptions&, const GemmShape&, const Inputs&,
                                         Communicator& communicator) {
  communicator.Owner().Fail("this build has no CUDA backend");
}

}  // namespace tc::perf
