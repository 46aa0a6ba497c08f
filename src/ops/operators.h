// The operators as the API calls them: check, plan, launch. An error of the check is also posted to the peers, which
// fail with its sentence.
#pragma once

#include "comm/communicator.h"
#include "tc.h"

namespace tc {

Status Barrier(Communicator& comm, tcStream_t stream);

Status AllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, Communicator& comm,
                 tcStream_t stream);

// `config` is complete: defaults are filled in, its size is this library's.
Status FusedAllGatherGemm(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                          const tcGemmConfig_t& config, Communicator& comm, tcStream_t stream);

// An operator that no backend has yet.
Status NotBuilt(tcOp_t op, Communicator& comm, tcStream_t stream);

// Whether the operator could be launched, were its pointers good.
Status OperatorSupported(const Communicator& comm, const tcOpDesc_t& desc);

}  // namespace tc
