// The operators of the host backend, as registry rows launch them. Each enqueues itself and returns.
#pragma once

#include "comm/communicator.h"
#include "order/problem.h"

namespace tc::host {

// A call that was refused takes its place among the operators, so that the peers fail with its sentence.
Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why);

Status LaunchBarrier(Communicator& comm, tcStream_t stream, const OperatorShape& shape);

// `slab_bytes` of every rank's block at a time.
Status LaunchAllGather(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllGatherProblem& problem, size_t slab_bytes);

Status LaunchAllGatherV(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                        const AllGatherVProblem& problem, size_t slab_bytes);

// `slab_bytes` of every block at a time.
Status LaunchReduceScatter(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const ReduceScatterProblem& problem, size_t slab_bytes);

// `slab_bytes` of every rank's slice at a time.
Status LaunchAllReduce(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllReduceProblem& problem, size_t slab_bytes);

// `slab_bytes` of every pair's block at a time.
Status LaunchAllToAll(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const AllToAllProblem& problem,
                      size_t slab_bytes);

// `slab_rows` of every rank's shard at a time.
Status LaunchAllGatherGemm(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const AllGatherGemmProblem& problem, uint64_t slab_rows);

}  // namespace tc::host
