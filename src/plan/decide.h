// Which kernel an operator of a communicator is launched with, on which plane and how many SMs: the planner's choice
// among the kernels there are, where neither the caller nor the environment says it.
#pragma once

#include <string>
#include <vector>

#include "comm/communicator.h"
#include "plan/planner.h"
#include "registry/registry.h"

namespace tc {

struct Decision {
  const KernelRow* row = nullptr;
  tcPlane_t plane = tcPlanePush;
  int comm_sms = 0;  // 0: the kernel's own choice
};

// Of `shape` counts what describes the operator itself; `asked` is its caller's plane. The same on every rank. By the
// built-in model it is push, as ever: only figures of this machine decide otherwise. A plane that failed its
// verification is tcUnsupported.
Status Decide(const PlanRequest& shape, tcPlane_t asked, const Communicator& comm, Decision* decision);

// Blocks of an operator whose sizes are not the same on all ranks, or not known.
constexpr uint64_t kNominalBlockBytes = uint64_t{1} << 20;

// What the planner may choose from: rows that do the operator in this type on this backend. Host memory is a plane of
// its own: of a communicator that has it at all, and of no other.
std::vector<PlannedKernel> BuiltKernels(const std::vector<KernelRow>& rows, tcOp_t op, tcDataType_t type,
                                        const std::string& backend, bool host_staged, const std::string& arch);

// The first candidate that runs in one of those kernels; plane auto: there is none.
Communicator::PlaneChoice ChoiceOf(const Plan& plan);

// JSON: the plan, and what is launched. `asked_sms`: the caller's.
Status Explain(const PlanRequest& shape, tcPlane_t asked, int asked_sms, const Communicator& comm, std::string* json);

}  // namespace tc
