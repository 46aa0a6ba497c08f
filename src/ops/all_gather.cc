#include "base/data_type.h"
#include "ops/check.h"
#include "ops/collective.h"
#include "ops/issue.h"
#include "ops/operators.h"

namespace tc {
namespace {

Status Check(const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, const Communicator& comm) {
  TC_RETURN_IF_ERROR(CheckType(type));
  TC_RETURN_IF_ERROR(CheckBytes("recvbuff", sendcount, comm.n_ranks(), type));
  TC_RETURN_IF_ERROR(CheckBuffer("sendbuff", sendbuff, sendcount, type));
  TC_RETURN_IF_ERROR(CheckBuffer("recvbuff", recvbuff, sendcount, type));
  const size_t bytes = sendcount * ElementBytes(type);
  if (sendbuff != static_cast<std::byte*>(recvbuff) + comm.rank() * bytes &&
      Overlap(sendbuff, bytes, recvbuff, bytes * comm.n_ranks())) {
    return Error(tcInvalidArgument,
                 "sendbuff overlaps recvbuff but is not recvbuff + rank * sendcount, which would be in place");
  }
  return {};
}

}  // namespace

Status AllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, Communicator& comm,
                 tcStream_t stream) {
  CollectivePlan plan;
  Status checked = Check(sendbuff, recvbuff, sendcount, type, comm);
  if (checked.ok()) checked = PlanCollective(tcOpAllGather, type, sendcount, comm, &plan);
  return Issue(checked, plan.row,
               {.comm = comm,
                .stream = stream,
                .shape = {.op = tcOpAllGather, .type = type, .m = sendcount},
                .problem = AllGatherProblem{sendbuff, recvbuff, sendcount * ElementBytes(type)},
                .plane = plan.plane,
                .slab = plan.slab_bytes});
}

}  // namespace tc
