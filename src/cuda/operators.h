// The operators of the CUDA backend, as registry rows launch them. See host/operators.h.
#pragma once

#include "comm/communicator.h"
#include "order/problem.h"

namespace tc::cuda {

Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why);

Status LaunchBarrier(Communicator& comm, tcStream_t stream);

Status LaunchAllGather(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllGatherProblem& problem, size_t slab_bytes);

// movers: blocks that move rows; 0: the default.
Status LaunchAllGatherGemm(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const AllGatherGemmProblem& problem, uint64_t slab_rows, int movers);

}  // namespace tc::cuda
