#include "ops/collective.h"

#include "base/data_type.h"
#include "ops/check.h"
#include "ops/operators.h"
#include "plan/decide.h"
#include "plan/plan.h"

namespace tc {

Status PlanCollective(tcOp_t op, tcDataType_t type, uint64_t count, const Communicator& comm, CollectivePlan* plan) {
  TC_RETURN_IF_ERROR(CheckType(type));
  PlanRequest shape;
  shape.op = op;
  shape.type = type;
  shape.count = count != 0 ? count : kNominalBlockBytes / ElementBytes(type);
  Decision decision;
  TC_RETURN_IF_ERROR(Decide(shape, tcPlaneAuto, comm, &decision));
  plan->row = decision.row;
  plan->plane = decision.plane;
  plan->staging_bytes = StagingBytes(comm.settings().workspace_bytes, plan->plane);
  if (op == tcOpAllToAllV) {  // the ranks' accounts of their blocks go through the workspace
    uint64_t fitting = 0;
    TC_RETURN_IF_ERROR(ChooseSlab(plan->staging_bytes, comm.n_ranks(), sizeof(ExchangedBlocks), &fitting));
  }
  return ChooseSlabBytes(plan->staging_bytes, comm.n_ranks(), &plan->slab_bytes);
}

Status MakeBlocks(const char* counts_name, const size_t* counts, const char* displs_name, const size_t* displs,
                  tcDataType_t type, int n_ranks, BufferBlocks* blocks) {
  if (counts == nullptr) return Error(tcInvalidArgument, "%s is NULL", counts_name);
  const size_t element = ElementBytes(type);
  const auto too_far = [&](const char* name, int rank, size_t value) {
    return Error(tcInvalidArgument, "%s[%d] is %zu: the buffer would end beyond what an address can reach", name, rank,
                 value);
  };
  for (int rank = 0; rank < n_ranks; ++rank) {
    if (counts[rank] == 0) continue;  // its place may be anything
    uint64_t& bytes = blocks->bytes[rank];
    uint64_t& place = blocks->place[rank];
    place = blocks->total;
    if (__builtin_mul_overflow(counts[rank], element, &bytes) || bytes > kMostBytes) {
      return too_far(counts_name, rank, counts[rank]);
    }
    if (displs != nullptr && (__builtin_mul_overflow(displs[rank], element, &place) || place > kMostBytes - bytes)) {
      return too_far(displs_name, rank, displs[rank]);
    }
    blocks->total += bytes;
    if (blocks->total > kMostBytes) return too_far(counts_name, rank, counts[rank]);
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
  TC_RETURN_IF_ERROR(PlanCollective(desc.op, desc.type, desc.count, comm, &plan));
  if (IsReduction(desc.op)) TC_RETURN_IF_ERROR(CheckReduction(desc.redOp));
  if (desc.op == tcOpBroadcast) TC_RETURN_IF_ERROR(CheckRoot(desc.root, comm.n_ranks()));
  const bool one_buffer = desc.op == tcOpAllReduce || desc.op == tcOpBroadcast;
  return CheckBytes("a buffer", desc.count, one_buffer ? 1 : comm.n_ranks(), desc.type);
}

}  // namespace tc
