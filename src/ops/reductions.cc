// Reduce-scatter, also with uneven blocks, and all-reduce.
#include <array>

#include "base/data_type.h"
#include "ops/check.h"
#include "ops/collective.h"
#include "ops/issue.h"
#include "ops/operators.h"
#include "order/shape.h"
#include "plan/plan.h"

namespace tc {
namespace {

// `detail`: the digest of what else must agree.
OperatorShape ReductionShape(tcOp_t op, tcDataType_t type, tcRedOp_t reduction, size_t count,
                             uint64_t detail = kEmptyDigest) {
  const auto number = static_cast<uint64_t>(reduction);
  return {.op = op, .type = type, .m = count, .n = number, .detail = Digest(detail, number)};
}

Status CheckScatter(const ReduceScatterProblem& problem, const BufferBlocks& blocks, int rank) {
  const size_t element = ElementBytes(problem.type);
  const uint64_t own = blocks.bytes[rank];
  TC_RETURN_IF_ERROR(CheckBuffer("sendbuff", problem.send, blocks.total / element, problem.type));
  TC_RETURN_IF_ERROR(CheckBuffer("recvbuff", problem.recv, own / element, problem.type));
  if (own > 0 && problem.recv != static_cast<const std::byte*>(problem.send) + blocks.place[rank] &&
      Overlap(problem.send, blocks.total, problem.recv, own)) {
    return Error(tcInvalidArgument,
                 "recvbuff overlaps sendbuff but is not this rank's block of it, which would be in place");
  }
  return {};
}

// `counts`: elements of each rank's block; NULL is the caller's mistake.
Status Scatter(tcOp_t op, const size_t* counts, ReduceScatterProblem problem, Communicator& comm, tcStream_t stream) {
  const bool even = op == tcOpReduceScatter;
  CollectivePlan plan;
  BufferBlocks blocks;
  const auto check = [&]() -> Status {
    TC_RETURN_IF_ERROR(PlanCollective(op, problem.type, even ? counts[0] : 0, comm, &plan));
    TC_RETURN_IF_ERROR(CheckReduction(problem.op));
    if (even) TC_RETURN_IF_ERROR(CheckBytes("sendbuff", counts[0], comm.n_ranks(), problem.type));
    TC_RETURN_IF_ERROR(MakeBlocks("recvcounts", counts, "", nullptr, problem.type, comm.n_ranks(), &blocks));
    problem.blocks = GivenShards(counts, comm.n_ranks());
    return CheckScatter(problem, blocks, comm.rank());
  };
  const Status checked = check();
  const size_t count = even ? counts[0] : problem.blocks.total();
  const uint64_t detail = even ? kEmptyDigest : ShardDigest(problem.blocks);
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = ReductionShape(op, problem.type, problem.op, count, detail),
                .problem = problem,
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

}  // namespace

Status ReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tcDataType_t type, tcRedOp_t op,
                     Communicator& comm, tcStream_t stream) {
  std::array<size_t, kMaxRanks> counts;
  counts.fill(recvcount);
  return Scatter(tcOpReduceScatter, counts.data(), {.send = sendbuff, .recv = recvbuff, .type = type, .op = op}, comm,
                 stream);
}

Status ReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, tcDataType_t type, tcRedOp_t op,
                      Communicator& comm, tcStream_t stream) {
  return Scatter(tcOpReduceScatterV, recvcounts, {.send = sendbuff, .recv = recvbuff, .type = type, .op = op}, comm,
                 stream);
}

Status AllReduce(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcRedOp_t op,
                 Communicator& comm, tcStream_t stream) {
  CollectivePlan plan;
  AllReduceProblem problem{.send = sendbuff, .recv = recvbuff, .count = count, .type = type, .op = op};
  const auto check = [&]() -> Status {
    TC_RETURN_IF_ERROR(PlanCollective(tcOpAllReduce, type, count, comm, &plan));
    TC_RETURN_IF_ERROR(CheckReduction(op));
    TC_RETURN_IF_ERROR(CheckBytes("recvbuff", count, 1, type));
    TC_RETURN_IF_ERROR(CheckBuffer("sendbuff", sendbuff, count, type));
    TC_RETURN_IF_ERROR(CheckBuffer("recvbuff", recvbuff, count, type));
    const size_t bytes = count * ElementBytes(type);
    if (sendbuff != recvbuff && Overlap(sendbuff, bytes, recvbuff, bytes)) {
      return Error(tcInvalidArgument, "sendbuff overlaps recvbuff but is not recvbuff, which would be in place");
    }
    problem.one_shot = ReducesInOneShot(bytes, comm.n_ranks(), plan.staging_bytes);
    return {};
  };
  const Status checked = check();
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = ReductionShape(tcOpAllReduce, type, op, count),
                .problem = problem,
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

}  // namespace tc
