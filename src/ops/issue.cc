#include "ops/issue.h"

#include "base/no_throw.h"
#include "plan/plan.h"

namespace tc {

Status Issue(const Status& checked, const KernelRow* row, const Launch& launch) {
  TC_RETURN_IF_ERROR(launch.comm.Usable());
  const Status refused = checked.ok() ? NoThrow([&] { return row->launch(launch); }) : checked;
  if (refused.ok()) return {};
  if (!LeavesUsable(refused.code())) {  // half launched, perhaps: nobody may wait for the rest
    launch.comm.End(refused);
    return refused;
  }
  const KernelRow* refusal = nullptr;
  TC_RETURN_IF_ERROR(ChooseKernel(kOpRefusal, tcInt8, tcPlaneAuto, launch.comm.backend().name(), &refusal));
  const auto post = [&](tcStream_t stream) {
    return refusal->launch({.comm = launch.comm, .stream = stream, .shape = launch.shape, .problem = refused});
  };
  if (post(launch.stream).ok()) return refused;
  tcStream_t own = nullptr;  // the caller's may be what was wrong
  TC_RETURN_IF_ERROR(launch.comm.backend().OwnStream(&own));
  TC_RETURN_IF_ERROR(post(own));
  return refused;
}

}  // namespace tc
