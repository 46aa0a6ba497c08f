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
          (const void*, void*, size_t, tcDataType_t, tcRedOp_t, tcComm_t comm, tcStream_t stream)) {
  return NotBuiltYet("tcReduceScatter", tcOpReduceScatter, comm, stream);
}

TC_EXPORT(tcResult_t, tcAllReduce,
          (const void*, void*, size_t, tcDataType_t, tcRedOp_t, tcComm_t comm, tcStream_t stream)) {
  return NotBuiltYet("tcAllReduce", tcOpAllReduce, comm, stream);
}

TC_EXPORT(tcResult_t, tcBroadcast, (const void*, void*, size_t, tcDataType_t, int, tcComm_t comm, tcStream_t stream)) {
  return NotBuiltYet("tcBroadcast", tcOpBroadcast, comm, stream);
}

TC_EXPORT(tcResult_t, tcAllToAll, (const void*, void*, size_t, tcDataType_t, tcComm_t comm, tcStream_t stream)) {
  return NotBuiltYet("tcAllToAll", tcOpAllToAll, comm, stream);
}

TC_EXPORT(tcResult_t, tcAllGatherV,
          (const void*, void*, const size_t*, const size_t*, tcDataType_t, tcComm_t comm, tcStream_t stream)) {
  return NotBuiltYet("tcAllGatherV", tcOpAllGatherV, comm, stream);
}

TC_EXPORT(tcResult_t, tcReduceScatterV,
          (const void*, void*, const size_t*, tcDataType_t, tcRedOp_t, tcComm_t comm, tcStream_t stream)) {
  return NotBuiltYet("tcReduceScatterV", tcOpReduceScatterV, comm, stream);
}

TC_EXPORT(tcResult_t, tcAllToAllV,
          (const void*, const size_t*, const size_t*, void*, const size_t*, const size_t*, tcDataType_t, tcComm_t comm,
           tcStream_t stream)) {
  return NotBuiltYet("tcAllToAllV", tcOpAllToAllV, comm, stream);
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
