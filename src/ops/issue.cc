#include "ops/issue.h"

#include "plan/plan.h"

namespace tc {

Status Issue(const Status& checked, const KernelRow* row, const Launch& launch) {
  TC_RETURN_IF_ERROR(launch.comm.Usable());
  Status refused = checked;
  if (refused.ok()) {
    refused = row->launch(launch);
    if (refused.ok()) return {};
  }
  // On the communicator's own stream: the caller's may be what was wrong.
  const KernelRow* refusal = nullptr;
  TC_RETURN_IF_ERROR(ChooseKernel(kOpRefusal, tcInt8, tcPlaneAuto, launch.comm.backend().name(), &refusal));
  TC_RETURN_IF_ERROR(
      refusal->launch({.comm = launch.comm, .stream = nullptr, .shape = launch.shape, .problem = refused, .slab = 0}));
  return refused;
}

}  // namespace tc
