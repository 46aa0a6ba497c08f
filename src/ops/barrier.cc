#include "ops/issue.h"
#include "ops/operators.h"
#include "plan/plan.h"

namespace tc {

Status Barrier(Communicator& comm, tcStream_t stream) {
  const KernelRow* row = nullptr;
  const Status checked = ChooseKernel(tcOpBarrier, tcInt8, tcPlaneAuto, comm.backend().name(), &row);
  return Issue(checked, row, {.comm = comm, .stream = stream, .shape = {.op = tcOpBarrier}, .problem = {}, .slab = 0});
}

Status NotBuilt(tcOp_t op, Communicator& comm, tcStream_t stream) {
  const KernelRow* row = nullptr;
  const Status missing = ChooseKernel(op, tcFloat32, tcPlaneAuto, comm.backend().name(), &row);
  return Issue(missing, row, {.comm = comm, .stream = stream, .shape = {.op = op}, .problem = {}, .slab = 0});
}

}  // namespace tc
