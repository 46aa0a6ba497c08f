// All-to-all, also with uneven blocks.
#include <algorithm>
#include <array>

#include "base/data_type.h"
#include "ops/check.h"
#include "ops/collective.h"
#include "ops/issue.h"
#include "ops/operators.h"
#include "plan/plan.h"

namespace tc {
namespace {

Status CheckApart(const AllToAllProblem& problem, const BufferBlocks& send, const BufferBlocks& recv, int n_ranks) {
  for (int rank = 0; rank < n_ranks; ++rank) {
    if (send.bytes[rank] == 0) continue;
    const auto* block = static_cast<const std::byte*>(problem.send) + send.place[rank];
    const int other = OverlappingBlock(problem.recv, recv, n_ranks, block, send.bytes[rank]);
    if (other < 0) continue;
    return Error(tcInvalidArgument,
                 "sendbuff's block for rank %d overlaps recvbuff's block of rank %d; there is no all-to-all in place",
                 rank, other);
  }
  return {};
}

// What is wrong with the buffers, or a complete problem.
Status CheckBuffers(const BufferBlocks& send, const BufferBlocks& recv, tcDataType_t type, int n_ranks,
                    AllToAllProblem* problem) {
  TC_RETURN_IF_ERROR(CheckBuffer("sendbuff", problem->send, send.total / ElementBytes(type), type));
  TC_RETURN_IF_ERROR(CheckBuffer("recvbuff", problem->recv, recv.total / ElementBytes(type), type));
  TC_RETURN_IF_ERROR(CheckApart(*problem, send, recv, n_ranks));
  problem->element_bytes = ElementBytes(type);
  std::copy_n(send.bytes, kMaxRanks, problem->blocks.sends);
  std::copy_n(send.place, kMaxRanks, problem->send_place);
  std::copy_n(recv.bytes, kMaxRanks, problem->blocks.expects);
  std::copy_n(recv.place, kMaxRanks, problem->blocks.place);
  return {};
}

}  // namespace

Status AllToAll(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, Communicator& comm,
                tcStream_t stream) {
  CollectivePlan plan;
  AllToAllProblem problem{.send = sendbuff, .recv = recvbuff};
  const auto check = [&]() -> Status {
    TC_RETURN_IF_ERROR(PlanCollective(tcOpAllToAll, type, count, comm, &plan));
    TC_RETURN_IF_ERROR(CheckBytes("recvbuff", count, comm.n_ranks(), type));
    std::array<size_t, kMaxRanks> counts;
    counts.fill(count);
    BufferBlocks blocks;
    TC_RETURN_IF_ERROR(MakeBlocks("count", counts.data(), "", nullptr, type, comm.n_ranks(), &blocks));
    return CheckBuffers(blocks, blocks, type, comm.n_ranks(), &problem);
  };
  const Status checked = check();
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = {.op = tcOpAllToAll, .type = type, .m = count},
                .problem = problem,
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

Status AllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                 const size_t* recvcounts, const size_t* rdispls, tcDataType_t type, Communicator& comm,
                 tcStream_t stream) {
  const int n_ranks = comm.n_ranks();
  CollectivePlan plan;
  AllToAllProblem problem{.send = sendbuff, .recv = recvbuff, .uneven = true};
  const auto check = [&]() -> Status {
    TC_RETURN_IF_ERROR(PlanCollective(tcOpAllToAllV, type, 0, comm, &plan));
    BufferBlocks send;
    BufferBlocks recv;
    TC_RETURN_IF_ERROR(MakeBlocks("sendcounts", sendcounts, "sdispls", sdispls, type, n_ranks, &send));
    TC_RETURN_IF_ERROR(MakeBlocks("recvcounts", recvcounts, "rdispls", rdispls, type, n_ranks, &recv));
    TC_RETURN_IF_ERROR(CheckDisjoint("recvcounts and rdispls", recv, n_ranks));
    const int rank = comm.rank();
    if (sendcounts[rank] != recvcounts[rank]) {
      return Error(tcInvalidArgument, "sendcounts[%d] is %zu, recvcounts[%d] is %zu: what this rank sends to itself",
                   rank, sendcounts[rank], rank, recvcounts[rank]);
    }
    return CheckBuffers(send, recv, type, n_ranks, &problem);
  };
  const Status checked = check();
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = {.op = tcOpAllToAllV, .type = type},
                .problem = problem,
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

}  // namespace tc
