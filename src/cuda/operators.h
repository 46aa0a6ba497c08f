// The operators of the CUDA backend, as registry rows launch them. See host/operators.h.
#pragma once

#include "comm/communicator.h"
#include "order/problem.h"

namespace tc::cuda {

Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why);

Status LaunchBarrier(Communicator& comm, tcStream_t stream);

// Plain collectives, on any plane. `slab_bytes`: see host/operators.h.
Status LaunchAllGather(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllGatherProblem& problem, size_t slab_bytes, tcPlane_t plane);

Status LaunchAllGatherV(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                        const AllGatherVProblem& problem, size_t slab_bytes, tcPlane_t plane);

Status LaunchReduceScatter(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const ReduceScatterProblem& problem, size_t slab_bytes, tcPlane_t plane);

Status LaunchAllReduce(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllReduceProblem& problem, size_t slab_bytes, tcPlane_t plane);

Status LaunchAllToAll(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const AllToAllProblem& problem,
                      size_t slab_bytes, tcPlane_t plane);

// movers: blocks that move rows; 0: the default.
Status LaunchAllGatherGemm(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const AllGatherGemmProblem& problem, uint64_t slab_rows, tcPlane_t plane, int movers);

}  // namespace tc::cuda
