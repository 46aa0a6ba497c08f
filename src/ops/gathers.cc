// Operators whose blocks go to the same place everywhere, in other shapes than all-gather's: uneven blocks, and one
// rank's alone.
#include <algorithm>

#include "base/data_type.h"
#include "ops/check.h"
#include "ops/collective.h"
#include "ops/issue.h"
#include "ops/operators.h"
#include "order/shape.h"
#include "plan/plan.h"

namespace tc {

Status AllGatherV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, const size_t* displs,
                  tcDataType_t type, Communicator& comm, tcStream_t stream) {
  const int n_ranks = comm.n_ranks();
  CollectivePlan plan;
  Shards counts;  // in elements
  AllGatherVProblem problem{.send = sendbuff, .recv = recvbuff};
  const auto check = [&]() -> Status {
    TC_RETURN_IF_ERROR(PlanCollective(tcOpAllGatherV, type, 0, comm, &plan));
    BufferBlocks blocks;
    TC_RETURN_IF_ERROR(MakeBlocks("recvcounts", recvcounts, "displs", displs, type, n_ranks, &blocks));
    TC_RETURN_IF_ERROR(CheckDisjoint("recvcounts and displs", blocks, n_ranks));
    const uint64_t own = blocks.bytes[comm.rank()];
    TC_RETURN_IF_ERROR(CheckBuffer("sendbuff", sendbuff, own / ElementBytes(type), type));
    TC_RETURN_IF_ERROR(CheckBuffer("recvbuff", recvbuff, blocks.total / ElementBytes(type), type));
    const bool in_place = sendbuff == static_cast<std::byte*>(recvbuff) + blocks.place[comm.rank()];
    if (const int rank = OverlappingBlock(recvbuff, blocks, n_ranks, sendbuff, own); rank >= 0 && !in_place) {
      return Error(tcInvalidArgument,
                   "sendbuff overlaps the block of rank %d in recvbuff but is not this rank's own block, which would "
                   "be in place",
                   rank);
    }
    counts = GivenShards(recvcounts, n_ranks);
    problem.blocks = InUnits(counts, ElementBytes(type));
    std::copy_n(blocks.place, n_ranks, problem.place);
    for (int rank = 0; rank < n_ranks; ++rank) {
      if (blocks.bytes[rank] > 0 && blocks.place[rank] != problem.blocks.begin[rank]) problem.packed = false;
    }
    return {};
  };
  const Status checked = check();
  const OperatorShape shape{.op = tcOpAllGatherV, .type = type, .m = counts.total(), .detail = ShardDigest(counts)};
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = shape,
                .problem = problem,
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

Status Broadcast(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, int root, Communicator& comm,
                 tcStream_t stream) {
  const int n_ranks = comm.n_ranks();
  CollectivePlan plan;
  AllGatherVProblem problem{.send = sendbuff, .recv = recvbuff, .blocks = {.n_ranks = n_ranks}};
  const auto check = [&]() -> Status {
    TC_RETURN_IF_ERROR(PlanCollective(tcOpBroadcast, type, count, comm, &plan));
    TC_RETURN_IF_ERROR(CheckRoot(root, n_ranks));
    TC_RETURN_IF_ERROR(CheckBytes("recvbuff", count, 1, type));
    TC_RETURN_IF_ERROR(CheckBuffer("recvbuff", recvbuff, count, type));
    const uint64_t bytes = count * ElementBytes(type);
    if (comm.rank() == root) {
      TC_RETURN_IF_ERROR(CheckBuffer("sendbuff", sendbuff, count, type));
      if (sendbuff != recvbuff && Overlap(sendbuff, bytes, recvbuff, bytes)) {
        return Error(tcInvalidArgument, "sendbuff overlaps recvbuff but is not recvbuff, which would be in place");
      }
    }
    std::fill(problem.blocks.begin + root + 1, problem.blocks.begin + n_ranks + 1, bytes);
    if (n_ranks > 1) plan.slab_bytes *= n_ranks;  // the only block has the whole workspace
    return {};
  };
  const Status checked = check();
  const auto number = static_cast<uint64_t>(root);
  const OperatorShape shape{
      .op = tcOpBroadcast, .type = type, .m = count, .n = number, .detail = Digest(kEmptyDigest, number)};
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = shape,
                .problem = problem,
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

}  // namespace tc
