#include <algorithm>

#include "base/data_type.h"
#include "host/backend.h"
#include "host/gather.h"
#include "host/operators.h"
#include "host/partials.h"
#include "order/shape.h"
#include "protocol/cpu_memory.h"
#include "protocol/epoch.h"

namespace tc::host {
namespace {

// Every rank reduces everything.
Status ReduceAll(const Epoch& epoch, const AllReduceProblem& problem, uint64_t area_bytes) {
  const RankView& view = epoch.comm.view();
  const auto* send = static_cast<const std::byte*>(problem.send);
  const uint64_t bytes = problem.count * ElementBytes(problem.type);
  Traffic traffic;
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    traffic.source[peer] = send;
    traffic.target[peer] = PartialArea(view, peer, area_bytes);
    traffic.to[peer].bytes = bytes;
    traffic.from[peer].bytes = bytes;
  }
  TC_RETURN_IF_ERROR(ExchangePartials(epoch, traffic,
                                      {.own = send,
                                       .result = static_cast<std::byte*>(problem.recv),
                                       .type = problem.type,
                                       .op = problem.op,
                                       .bytes = bytes,
                                       .area_bytes = area_bytes,
                                       .own_is_sent = true}));
  LeaveEpoch<CpuMemory>(*view.local, epoch.number, 1, 0);
  return {};
}

EpochEnd RunOneShot(Epochs& epochs, const EntryRecord& record, const AllReduceProblem& problem, uint64_t area_bytes) {
  return epochs.Run(record, [&](const Epoch& epoch) { return ReduceAll(epoch, problem, area_bytes); });
}

EpochEnd RunTwoShots(Communicator& comm, Epochs& epochs, const EntryRecord& record, const Windows& windows,
                     const AllReduceProblem& problem, uint64_t slab_bytes) {
  const Slices slices = CutSlices(problem, comm.rank(), comm.n_ranks());
  const size_t element = ElementBytes(problem.type);
  const uint64_t slab_elements = slab_bytes / element;
  EntryRecord gathering = record;
  gathering.destination = GatherDestination(windows, slices.gather);
  EpochEnd end = EpochEnd::kDone;
  for (uint64_t index = 0; index < SlabCount(slices.reduce.blocks, slab_elements); ++index) {
    const Slab of_elements = SlabAt(slices.reduce.blocks, slab_elements, index);
    const Slab of_bytes = SlabAt(slices.gather.blocks, slab_elements * element, index);
    end = epochs.Run(record,
                     [&](const Epoch& epoch) { return ReduceSlab(epoch, slices.reduce, of_elements, slab_bytes); });
    if (end != EpochEnd::kDone) return end;
    // Whoever has entered this epoch has sent all its partials and read all of its peers': both their workspace and,
    // in place, their recv may be written.
    end =
        epochs.Run(gathering, [&](const Epoch& epoch) { return GatherSlab(epoch, windows, slices.gather, of_bytes); });
    if (end != EpochEnd::kDone) return end;
  }
  return end;
}

}  // namespace

Status LaunchAllReduce(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllReduceProblem& problem, size_t slab_bytes) {
  const std::shared_ptr<const Windows> windows = comm.windows();
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm] {
    Epochs epochs(comm, stream);
    const EntryRecord record = EntryOfShape(shape);
    const EpochEnd end = problem.one_shot ? RunOneShot(epochs, record, problem, slab_bytes)
                                          : RunTwoShots(comm, epochs, record, *windows, problem, slab_bytes);
    if (end == EpochEnd::kDone) ++comm.counters().ops;
  });
}

}  // namespace tc::host
