#include "ops/collective.h"

#include "base/data_type.h"
#include "ops/check.h"
#include "ops/operators.h"
#include "plan/plan.h"

namespace tc {

Status PlanCollective(tcOp_t op, tcDataType_t type, const Communicator& comm, CollectivePlan* plan) {
  TC_RETURN_IF_ERROR(CheckType(type));
  TC_RETURN_IF_ERROR(ChooseKernel(op, type, tcPlaneAuto, comm.backend().name(), &plan->row));
  return ChooseSlabBytes(comm.settings().workspace_bytes, comm.n_ranks(), &plan->slab_bytes);
}

Status MakeBlocks(const char* counts_name, const size_t* counts, const size_t* displs, tcDataType_t type, int n_ranks,
                  BufferBlocks* blocks) {
  if (counts == nullptr) return Error(tcInvalidArgument, "%s is NULL", counts_name);
  const size_t element = ElementBytes(type);
  for (int rank = 0; rank < n_ranks; ++rank) {
    uint64_t end = 0;
    uint64_t& bytes = blocks->bytes[rank];
    uint64_t& place = blocks->place[rank];
    place = blocks->total;
    if (__builtin_mul_overflow(counts[rank], element, &bytes) ||
        (displs != nullptr && __builtin_mul_overflow(displs[rank], element, &place)) ||
        __builtin_add_overflow(place, bytes, &end) || end > static_cast<uint64_t>(INT64_MAX) ||
        __builtin_add_overflow(blocks->total, bytes, &blocks->total) ||
        blocks->total > static_cast<uint64_t>(INT64_MAX)) {
      return Error(tcInvalidArgument, "%s[%d] is %zu: the buffer would end beyond what an address can reach",
                   counts_name, rank, counts[rank]);
    }
    if (bytes == 0) place = 0;
  }
  return {};
}

Status CheckDisjoint(const char* names, const BufferBlocks& blocks, int n_ranks) {
  const auto end = [&](int rank) { return blocks.place[rank] + blocks.bytes[rank]; };
  for (int rank = 1; rank < n_ranks; ++rank) {
    for (int other = 0; other < rank; ++other) {
      if (blocks.bytes[rank] == 0 || blocks.bytes[other] == 0) continue;
      if (blocks.place[rank] >= end(other) || blocks.place[other] >= end(rank)) continue;
      return Error(tcInvalidArgument, "%s let the blocks of ranks %d and %d overlap", names, other, rank);
    }
  }
  return {};
}

int OverlappingBlock(const void* buffer, const BufferBlocks& blocks, int n_ranks, const void* ptr, uint64_t bytes) {
  for (int rank = 0; rank < n_ranks; ++rank) {
    if (blocks.bytes[rank] == 0) continue;
    if (Overlap(static_cast<const std::byte*>(buffer) + blocks.place[rank], blocks.bytes[rank], ptr, bytes))
      return rank;
  }
  return -1;
}

Status CollectiveSupported(const Communicator& comm, const tcOpDesc_t& desc) {
  CollectivePlan plan;
  TC_RETURN_IF_ERROR(PlanCollective(desc.op, desc.type, comm, &plan));
  if (IsReduction(desc.op)) TC_RETURN_IF_ERROR(CheckReduction(desc.redOp));
  if (desc.op == tcOpBroadcast) TC_RETURN_IF_ERROR(CheckRoot(desc.root, comm.n_ranks()));
  return CheckBytes("a buffer", desc.count, comm.n_ranks(), desc.type);
}

}  // namespace tc
