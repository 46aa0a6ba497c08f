// The kernels there are: one row each, data that the planner chooses from.
#pragma once

#include <cstdint>
#include <variant>
#include <vector>

#include "comm/communicator.h"
#include "order/problem.h"

namespace tc {

// A call that was refused; it runs as an operator of its own, see host/operators.h.
inline constexpr tcOp_t kOpRefusal = -1;

// One launch of a row.
struct Launch {
  Communicator& comm;
  tcStream_t stream;
  OperatorShape shape;
  std::variant<std::monostate, Status, AllGatherProblem, AllGatherVProblem, ReduceScatterProblem, AllReduceProblem,
               AllToAllProblem, AllGatherGemmProblem>
      problem;
  tcPlane_t plane = tcPlanePush;  // one of the row's
  uint64_t slab = 0;              // what fits the workspace at a time: bytes of a block, rows of a shard
  int movers = 0;                 // SMs that move data; 0: the kernel's default
};

struct KernelRow {
  const char* name;
  tcOp_t op;
  const char* backend;  // Backend::name()
  uint32_t types;       // bit t: does tcDataType_t t
  uint32_t planes;      // bit p: runs on tcPlane_t p; all of them: moves no data
  Status (*launch)(const Launch& launch);
};

const std::vector<KernelRow>& Registry();

}  // namespace tc
