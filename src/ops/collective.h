// What the checks of collectives share.
#pragma once

#include "comm/communicator.h"
#include "registry/registry.h"

namespace tc {

struct CollectivePlan {
  const KernelRow* row = nullptr;
  tcPlane_t plane = tcPlanePush;
  uint64_t staging_bytes = 0;  // of the workspace
  uint64_t slab_bytes = 0;     // of every rank's block
};

// The type, the kernel, the plane and the slab: the same on every rank. `count`: elements, as the operator takes them;
// 0: not the same on all ranks, or not known.
Status PlanCollective(tcOp_t op, tcDataType_t type, uint64_t count, const Communicator& comm, CollectivePlan* plan);

// Blocks of a buffer, one for each rank, in bytes.
struct BufferBlocks {
  uint64_t bytes[kMaxRanks] = {};
  uint64_t place[kMaxRanks] = {};  // where each starts; 0 for an empty one
  uint64_t total = 0;
};

// From the caller's arrays, in elements; displs NULL: one block behind the other. tcInvalidArgument when there are no
// counts, or when they reach further than an address.
Status MakeBlocks(const char* counts_name, const size_t* counts, const char* displs_name, const size_t* displs,
                  tcDataType_t type, int n_ranks, BufferBlocks* blocks);

// tcInvalidArgument when two blocks share a byte; `names` are those of the arrays.
Status CheckDisjoint(const char* names, const BufferBlocks& blocks, int n_ranks);

// The first block of a buffer that shares a byte with [ptr, ptr + bytes); -1: none.
int OverlappingBlock(const void* buffer, const BufferBlocks& blocks, int n_ranks, const void* ptr, uint64_t bytes);

}  // namespace tc
