// The operators as the API calls them: check, plan, launch. An error of the check is also posted to the peers, which
// fail with its sentence.
#pragma once

#include <string>

#include "comm/communicator.h"
#include "tc.h"

namespace tc {

Status Barrier(Communicator& comm, tcStream_t stream);

Status AllGather(const void* sendbuff, void* recvbuff, size_t sendcount, tcDataType_t type, Communicator& comm,
                 tcStream_t stream);

Status ReduceScatter(const void* sendbuff, void* recvbuff, size_t recvcount, tcDataType_t type, tcRedOp_t op,
                     Communicator& comm, tcStream_t stream);

Status AllReduce(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, tcRedOp_t op,
                 Communicator& comm, tcStream_t stream);

Status Broadcast(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, int root, Communicator& comm,
                 tcStream_t stream);

Status AllToAll(const void* sendbuff, void* recvbuff, size_t count, tcDataType_t type, Communicator& comm,
                tcStream_t stream);

// The arrays of counts are read before these return.
Status AllGatherV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, const size_t* displs,
                  tcDataType_t type, Communicator& comm, tcStream_t stream);

Status ReduceScatterV(const void* sendbuff, void* recvbuff, const size_t* recvcounts, tcDataType_t type, tcRedOp_t op,
                      Communicator& comm, tcStream_t stream);

Status AllToAllV(const void* sendbuff, const size_t* sendcounts, const size_t* sdispls, void* recvbuff,
                 const size_t* recvcounts, const size_t* rdispls, tcDataType_t type, Communicator& comm,
                 tcStream_t stream);

// What OperatorSupported asks of a collective.
Status CollectiveSupported(const Communicator& comm, const tcOpDesc_t& desc);

// `config` is complete: defaults are filled in, its size is this library's.
Status FusedAllGatherGemm(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                          const tcGemmConfig_t& config, Communicator& comm, tcStream_t stream);

// An operator that no backend has yet.
Status NotBuilt(tcOp_t op, Communicator& comm, tcStream_t stream);

// Whether the operator could be launched, were its pointers good.
Status OperatorSupported(const Communicator& comm, const tcOpDesc_t& desc);

// JSON: what would be launched, and why.
Status ExplainOperator(const Communicator& comm, const tcOpDesc_t& desc, std::string* json);

}  // namespace tc
