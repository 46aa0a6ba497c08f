// The step of a reduction over ranks that operators share: partials come into the workspace, one area for each source,
// and are reduced in the order of the ranks.
#pragma once

#include "host/exchange.h"
#include "order/problem.h"

namespace tc::host {

// What one rank reduces in an epoch.
struct Reduction {
  const std::byte* own = nullptr;  // this rank's partial
  std::byte* result = nullptr;     // may be `own`
  tcDataType_t type = tcFloat32;
  tcRedOp_t op = tcSum;
  uint64_t bytes = 0;
  uint64_t area_bytes = 0;   // from one source's area to the next
  bool own_is_sent = false;  // peers want what `own` holds, too
};

// Where this rank's partials go on `peer`.
inline std::byte* PartialArea(const RankView& view, int peer, uint64_t area_bytes) {
  return view.workspace[peer] + view.rank * area_bytes;
}

// Exchanges partials, `bytes` from every source, and reduces each chunk as soon as it has come from all.
Status ExchangePartials(const Epoch& epoch, const Traffic& traffic, const Reduction& reduction);

// The body of an epoch that reduces one slab of the blocks.
Status ReduceSlab(const Epoch& epoch, const ReduceScatterProblem& problem, const Slab& slab, uint64_t slab_bytes);

}  // namespace tc::host
