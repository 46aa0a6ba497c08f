#include <algorithm>
#include <cstring>

#include "host/backend.h"
#include "host/gather.h"
#include "host/operators.h"
#include "order/shape.h"
#include "protocol/cpu_memory.h"
#include "protocol/epoch.h"

namespace tc::host {

Destination GatherDestination(const Windows& windows, const AllGatherVProblem& problem) {
  // Peers know where their blocks go only when they lie as they do everywhere.
  return problem.packed ? Communicator::Locate(windows, problem.recv, problem.blocks.total()) : Destination{};
}

Status GatherSlab(const Epoch& epoch, const Windows& windows, const AllGatherVProblem& problem, const Slab& slab) {
  TC_RETURN_IF_ERROR(CheckDestinations(epoch, windows));
  const RankView& view = epoch.comm.view();
  const auto skipped = [&](int rank) { return slab.first[rank] - problem.blocks.begin[rank]; };
  const auto place = [&](int rank) {
    return static_cast<std::byte*>(problem.recv) + problem.place[rank] + skipped(rank);
  };
  const auto* send = static_cast<const std::byte*>(problem.send) + skipped(view.rank);
  const uint64_t own = slab.packed.rows(view.rank);
  if (own > 0 && place(view.rank) != send) std::memcpy(place(view.rank), send, own);

  Traffic traffic;
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    const Destination& destination = epoch.destination(peer);
    traffic.source[peer] = send;
    traffic.target[peer] = destination.window < 0 ? view.workspace[peer] + slab.packed.begin[view.rank]
                                                  : InWindow(windows, destination, peer) + slab.first[view.rank];
    traffic.to[peer].bytes = own;
    traffic.from[peer].bytes = slab.packed.rows(peer);
    traffic.first = std::max(traffic.first, skipped(peer));
  }
  const bool staged = epoch.destination(view.rank).window < 0;
  TC_RETURN_IF_ERROR(ExchangeBytes(epoch, traffic, [&](int producer, const RowRange& range) {
    if (!staged) return;
    std::memcpy(place(producer) + range.begin, view.workspace[view.rank] + slab.packed.begin[producer] + range.begin,
                range.end - range.begin);
  }));
  LeaveEpoch<CpuMemory>(*view.local, epoch.number, 1, 0);
  return {};
}

Status LaunchAllGatherV(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                        const AllGatherVProblem& problem, size_t slab_bytes) {
  const std::shared_ptr<const Windows> windows = comm.windows();
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm] {
    Epochs epochs(comm, stream);
    EntryRecord record = EntryOfShape(shape);
    record.destination = GatherDestination(*windows, problem);
    const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.blocks, slab_bytes), 1);
    for (uint64_t index = 0; index < slabs; ++index) {
      const Slab slab = SlabAt(problem.blocks, slab_bytes, index);
      const auto body = [&](const Epoch& epoch) { return GatherSlab(epoch, *windows, problem, slab); };
      if (epochs.Run(record, body) != EpochEnd::kDone) return;
    }
    ++comm.counters().ops;
  });
}

Status LaunchAllGather(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllGatherProblem& problem, size_t slab_bytes) {
  return LaunchAllGatherV(comm, stream, shape, EvenBlocks(problem, comm.n_ranks()), slab_bytes);
}

}  // namespace tc::host
