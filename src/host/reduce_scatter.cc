#include <algorithm>
#include <array>

#include "base/data_type.h"
#include "host/backend.h"
#include "host/operators.h"
#include "host/partials.h"
#include "host/reduce.h"
#include "order/shape.h"
#include "protocol/cpu_memory.h"
#include "protocol/epoch.h"

namespace tc::host {

Status ExchangePartials(const Epoch& epoch, const Traffic& traffic, const Reduction& reduction) {
  const RankView& view = epoch.comm.view();
  const auto reduce = [&](const RowRange& range) {
    std::array<const std::byte*, kMaxRanks> sources{};
    for (int source = 0; source < view.n_ranks; ++source) {
      const std::byte* partial =
          source == view.rank ? reduction.own : view.workspace[view.rank] + source * reduction.area_bytes;
      sources[source] = partial + range.begin;
    }
    Reduce(reduction.type, reduction.op, sources.data(), view.n_ranks, reduction.result + range.begin,
           (range.end - range.begin) / ElementBytes(reduction.type));
  };
  // A result that takes the place of what is still to be pushed has to wait.
  const bool at_end = view.n_ranks == 1 || (reduction.own_is_sent && reduction.own == reduction.result);
  const PairSignals chunks{reduction.bytes};
  std::array<int, kMaxChunks> partials{};  // that have come, of each chunk
  TC_RETURN_IF_ERROR(ExchangeBytes(epoch, traffic, [&](int, const RowRange& range) {
    const bool complete = ++partials[range.begin / chunks.chunk_bytes()] == view.n_ranks - 1;
    if (complete && !at_end) reduce(range);
  }));
  if (at_end && reduction.bytes > 0) reduce({0, reduction.bytes});
  return {};
}

Status ReduceSlab(const Epoch& epoch, const ReduceScatterProblem& problem, const Slab& slab, uint64_t slab_bytes) {
  const RankView& view = epoch.comm.view();
  const size_t element = ElementBytes(problem.type);
  const auto* send = static_cast<const std::byte*>(problem.send);
  const uint64_t skipped = (slab.first[view.rank] - problem.blocks.begin[view.rank]) * element;
  const uint64_t own_bytes = slab.packed.rows(view.rank) * element;
  Traffic traffic;
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    traffic.source[peer] = send + slab.first[peer] * element;
    traffic.target[peer] = PartialArea(view, peer, slab_bytes);
    traffic.to[peer].bytes = slab.packed.rows(peer) * element;
    traffic.from[peer].bytes = own_bytes;
  }
  traffic.first = skipped;
  TC_RETURN_IF_ERROR(ExchangePartials(epoch, traffic,
                                      {.own = send + slab.first[view.rank] * element,
                                       .result = static_cast<std::byte*>(problem.recv) + skipped,
                                       .type = problem.type,
                                       .op = problem.op,
                                       .bytes = own_bytes,
                                       .area_bytes = slab_bytes}));
  LeaveEpoch<CpuMemory>(*view.local, epoch.number, 1, 0);
  return {};
}

Status LaunchReduceScatter(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const ReduceScatterProblem& problem, size_t slab_bytes) {
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm] {
    const EntryRecord record = EntryOfShape(shape);
    const uint64_t slab_elements = slab_bytes / ElementBytes(problem.type);
    Epochs epochs(comm, stream);
    const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.blocks, slab_elements), 1);
    for (uint64_t index = 0; index < slabs; ++index) {
      const Slab slab = SlabAt(problem.blocks, slab_elements, index);
      const auto body = [&](const Epoch& epoch) { return ReduceSlab(epoch, problem, slab, slab_bytes); };
      if (epochs.Run(record, body) != EpochEnd::kDone) return;
    }
    ++comm.counters().ops;
  });
}

}  // namespace tc::host
