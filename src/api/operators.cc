// Collectives and fused GEMMs.
#include "ops/operators.h"

#include "api/export.h"
#include "api/structs.h"

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

namespace {

tcResult_t NotBuiltYet(const char* function, tcOp_t op, tcComm_t comm, tcStream_t stream) {
  return WithComm(function, comm, [&](Communicator& found) { return NotBuilt(op, found, stream); });
}

}  // namespace

TC_EXPORT(tcResult_t, tcBarrier, (tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcBarrier", comm, [&](Communicator& found) { return Barrier(found, stream); });
}

TC_EXPORT(tcResult_t, tcAllGather,
          (const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, tcComm_t comm,
           tcStream_t stream)) {
  return WithComm("tcAllGather", comm,
                  [&](Communicator& found) { return AllGather(sendbuff, recvbuff, sendcount, type, found, stream); });
}

TC_EXPORT(tcResult_t, tcReduceScatter,
          (const void* sendbuff, void* recvbuff, size_t recvcount, tcDataType_t type, tcRedOp_t op, tcComm_t comm,
           tcStream_t stream)) {
  return WithComm("tcReduceScatter", comm, [&](Communicator& found) {
    return ReduceScatter(sendbuff, recvbuff, recvcount, type, op, found, stream);
  });
}

TC_EXPORT(tcResult_t, tcAllReduce,
          (const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcRedOp_t op, tcComm_t comm,
           tcStream_t stream)) {
  return WithComm("tcAllReduce", comm,
                  [&](Communicator& found) { return AllReduce(sendbuff, recvbuff, count, type, op, found, stream); });
}

TC_EXPORT(tcResult_t, tcBroadcast,
          (const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, int root, tcComm_t comm,
           tcStream_t stream)) {
  return WithComm("tcBroadcast", comm,
                  [&](Communicator& found) { return Broadcast(sendbuff, recvbuff, count, type, root, found, stream); });
}

TC_EXPORT(tcResult_t, tcAllToAll,
          (const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcAllToAll", comm,
                  [&](Communicator& found) { return AllToAll(sendbuff, recvbuff, count, type, found, stream); });
}

TC_EXPORT(tcResult_t, tcAllGatherV,
          (const void* sendbuff, void* recvbuff, const size_t* recvcounts, const size_t* displs, tcDataType_t type,
           tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcAllGatherV", comm, [&](Communicator& found) {
    return AllGatherV(sendbuff, recvbuff, recvcounts, displs, type, found, stream);
  });
}

TC_EXPORT(tcResult_t, tcReduceScatterV,
          (const void* sendbuff, void* recvbuff, const size_t* recvcounts, tcDataType_t type, tcRedOp_t op,
           tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcReduceScatterV", comm, [&](Communicator& found) {
    return ReduceScatterV(sendbuff, recvbuff, recvcounts, type, op, found, stream);
  });
}

TC_EXPORT(tcResult_t, tcAllToAllV,
          (const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
           const size_t* recvcounts, const size_t* rdispls, tcDataType_t type, tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcAllToAllV", comm, [&](Communicator& found) {
    return AllToAllV(sendbuff, sendcounts, sdispls, recvbuff, recvcounts, rdispls, type, found, stream);
  });
}

TC_EXPORT(tcResult_t, tcFusedAllGatherGemm,
          (const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
           const tcGemmConfig_t* config, tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcFusedAllGatherGemm", comm, [&](Communicator& found) {
    tcGemmConfig_t complete = DefaultGemmConfig();
    TC_RETURN_IF_ERROR(ReadStruct("config", config, &complete));
    return FusedAllGatherGemm(a, b, c, m, n, k, type, complete, found, stream);
  });
}

TC_EXPORT(tcResult_t, tcFusedGemmReduceScatter,
          (const void*, const void*, void*, size_t, size_t, size_t, tcDataType_t, const tcGemmConfig_t*, tcComm_t comm,
           tcStream_t stream)) {
  return NotBuiltYet("tcFusedGemmReduceScatter", tcOpGemmReduceScatter, comm, stream);
}

TC_EXPORT(tcResult_t, tcFusedGemmAllReduce,
          (const void*, const void*, void*, size_t, size_t, size_t, tcDataType_t, const tcGemmConfig_t*, tcComm_t comm,
           tcStream_t stream)) {
  return NotBuiltYet("tcFusedGemmAllReduce", tcOpGemmAllReduce, comm, stream);
}
