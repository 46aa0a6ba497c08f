// Plain collectives: an epoch each for every slab.
#include <algorithm>
#include <array>
#include <span>

#include "base/data_type.h"
#include "cuda/backend.h"
#include "cuda/kernels.h"
#include "cuda/operators.h"
#include "order/exchange.h"
#include "planes/copy_engine.h"

namespace tc::cuda {
namespace {

// The epochs of one operator.
class Exchanges {
 public:
  Exchanges(Communicator& comm, tcStream_t stream, const OperatorShape& shape, tcPlane_t plane)
      : backend_(static_cast<CudaBackend&>(comm.backend())), comm_(comm), stream_(stream), plane_(plane) {
    params_.comm = backend_.KernelView(comm);
    params_.entry.shape = shape;
  }

  tcPlane_t plane() const { return plane_; }
  bool pushes() const { return Pushes(plane_); }

  // Where peers may store, or load, the data of the next epochs: the buffer, if it is registered. A copy engine gets
  // addresses from the host, which does not know those.
  void Name(const void* buffer, uint64_t bytes) {
    if (plane_ == tcPlaneCopyEngine) return NameNothing();
    params_.entry.destination = Communicator::Locate(*comm_.windows(), buffer, bytes);
  }
  // What a rank tells of its blocks, none of which may be larger than the same number of bytes everywhere.
  void Tell(const ExchangedBlocks& blocks, uint64_t most_bytes) {
    params_.entry.blocks = blocks;
    params_.entry.shape.k = most_bytes;
  }
  void NameNothing() { params_.entry.destination = {}; }

  Status Launch(const Exchange& exchange, SlabPlace place) {
    params_.exchange = exchange;
    if (plane_ == tcPlanePush && params_.entry.shape.op != tcOpAllToAllV) {
      GoByPackets(&params_.exchange, comm_.n_ranks());
    }
    params_.place = place;
    params_.comm.sends = params_.comm.receives = 0;
    for (int peer = 0; peer < comm_.n_ranks(); ++peer) {
      if (peer == comm_.rank()) continue;
      params_.comm.sends += exchange.pair[peer].to.bytes;
      params_.comm.receives += exchange.pair[peer].from.bytes;
    }
    // A lone rank fetches nothing.
    if (plane_ == tcPlaneCopyEngine && comm_.n_ranks() > 1) return LaunchAroundCopies();
    return backend_.Launch(stream_, GridFor(params_.exchange), params_);
  }

 private:
  Status LaunchAroundCopies() {
    const RankView& view = comm_.view();
    const FetchedExchange parts = InThreeParts(params_.exchange, view.workspace[view.rank],
                                               comm_.settings().workspace_bytes, view.rank, view.n_ranks);
    std::array<CopyOnDevice, kMaxRanks> copies;
    for (int i = 0; i < parts.fetches; ++i) {
      const Fetch& fetch = parts.fetch[i];
      copies[i] = {view.workspace[view.rank] + fetch.to, view.workspace[fetch.producer] + fetch.from, fetch.bytes};
    }
    ExchangeParams opening = params_;
    opening.exchange = parts.opening;
    opening.place.part = Part::kOpening;
    params_.exchange = parts.closing;
    params_.place.part = Part::kClosing;
    return backend_.Launch(stream_, GridFor(parts.opening), opening,
                           std::span(copies).first(static_cast<size_t>(parts.fetches)), GridFor(parts.closing),
                           params_);
  }

  Grid GridFor(const Exchange& exchange) const {
    int64_t pieces = 0;  // at most
    for (int peer = 0; peer < comm_.n_ranks(); ++peer) {
      pieces += exchange.pair[peer].to.count + exchange.pair[peer].from.count;
    }
    const int usual = plane_ == tcPlaneHostStaged ? kMostHostStagedBlocks : kMostGatherBlocks;
    const int wanted = comm_.settings().comm_sms > 0 ? comm_.settings().comm_sms : usual;
    const int most = std::min(wanted, backend_.MostBlocks());
    if (exchange.packets > 0) pieces = UnitCount(exchange);
    return {
        .kernel = ExchangeKernel(exchange, plane_),
        .blocks = static_cast<int>(std::clamp<int64_t>(pieces, 1, most)),
        .threads = plane_ == tcPlaneHostStaged && !exchange.reduces ? kMostThreads : kThreads,
        .shared_bytes = exchange.packets > 0 && exchange.reduces ? static_cast<int>(UnitBytes(comm_.n_ranks())) : 0};
  }

  CudaBackend& backend_;
  Communicator& comm_;
  const tcStream_t stream_;
  const tcPlane_t plane_;
  ExchangeParams params_{};
};

// Peers know where their blocks go only when they lie as they do everywhere.
void NameGathered(Exchanges& exchanges, const AllGatherVProblem& problem, int rank) {
  if (!exchanges.pushes()) return exchanges.Name(problem.send, problem.blocks.rows(rank));
  if (problem.packed) return exchanges.Name(problem.recv, problem.blocks.total());
  exchanges.NameNothing();
}

// Peers load partials from where they lie; they never store them there.
void NamePartials(Exchanges& exchanges, const ReduceScatterProblem& problem) {
  if (exchanges.pushes()) return exchanges.NameNothing();
  exchanges.Name(problem.send, problem.blocks.total() * ElementBytes(problem.type));
}

Status RunTwoShots(Exchanges& exchanges, const Communicator& comm, const AllReduceProblem& problem,
                   uint64_t slab_bytes) {
  const Slices slices = CutSlices(problem, comm.rank(), comm.n_ranks());
  const size_t element = ElementBytes(problem.type);
  const uint64_t slab_elements = slab_bytes / element;
  const uint64_t slabs = SlabCount(slices.reduce.blocks, slab_elements);
  for (uint64_t index = 0; index < slabs; ++index) {
    const Slab of_elements = SlabAt(slices.reduce.blocks, slab_elements, index);
    const Slab of_bytes = SlabAt(slices.gather.blocks, slab_elements * element, index);
    NamePartials(exchanges, slices.reduce);
    TC_RETURN_IF_ERROR(exchanges.Launch(ScatterExchange(slices.reduce, of_elements, comm.rank(), exchanges.plane()),
                                        {.first = index == 0, .last = false}));
    // Whoever has entered this epoch has moved all its partials and read all of its peers': both their workspace and,
    // in place, their recv may be written.
    NameGathered(exchanges, slices.gather, comm.rank());
    TC_RETURN_IF_ERROR(exchanges.Launch(GatherExchange(slices.gather, of_bytes, comm.rank(), exchanges.plane()),
                                        {.first = false, .last = index + 1 == slabs}));
  }
  return {};
}

}  // namespace

Status LaunchAllGatherV(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                        const AllGatherVProblem& problem, size_t slab_bytes, tcPlane_t plane) {
  Exchanges exchanges(comm, stream, shape, plane);
  NameGathered(exchanges, problem, comm.rank());
  const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.blocks, slab_bytes), 1);
  for (uint64_t index = 0; index < slabs; ++index) {
    const Slab slab = SlabAt(problem.blocks, slab_bytes, index);
    TC_RETURN_IF_ERROR(exchanges.Launch(GatherExchange(problem, slab, comm.rank(), plane),
                                        {.first = index == 0, .last = index + 1 == slabs}));
  }
  return {};
}

Status LaunchAllGather(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllGatherProblem& problem, size_t slab_bytes, tcPlane_t plane) {
  return LaunchAllGatherV(comm, stream, shape, EvenBlocks(problem, comm.n_ranks()), slab_bytes, plane);
}

Status LaunchReduceScatter(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const ReduceScatterProblem& problem, size_t slab_bytes, tcPlane_t plane) {
  Exchanges exchanges(comm, stream, shape, plane);
  NamePartials(exchanges, problem);
  const uint64_t slab_elements = slab_bytes / ElementBytes(problem.type);
  const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.blocks, slab_elements), 1);
  for (uint64_t index = 0; index < slabs; ++index) {
    const Slab slab = SlabAt(problem.blocks, slab_elements, index);
    TC_RETURN_IF_ERROR(exchanges.Launch(ScatterExchange(problem, slab, comm.rank(), plane),
                                        {.first = index == 0, .last = index + 1 == slabs}));
  }
  return {};
}

Status LaunchAllReduce(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllReduceProblem& problem, size_t slab_bytes, tcPlane_t plane) {
  Exchanges exchanges(comm, stream, shape, plane);
  if (!problem.one_shot) return RunTwoShots(exchanges, comm, problem, slab_bytes);
  return exchanges.Launch(OneShotExchange(problem, comm.rank(), comm.n_ranks(), plane), {});
}

Status LaunchAllToAll(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const AllToAllProblem& problem,
                      size_t slab_bytes, tcPlane_t plane) {
  Exchanges exchanges(comm, stream, shape, plane);
  if (problem.uneven) {
    // One epoch, whatever the counts are: no host knows whether others have larger blocks. What comes is staged, since
    // peers do not know where it belongs.
    exchanges.Tell(problem.blocks, comm.n_ranks() > 1 ? MostInRounds(slab_bytes, plane) : UINT64_MAX);
    return exchanges.Launch(UnevenExchange(problem, slab_bytes, comm.rank(), comm.n_ranks(), plane), {});
  }
  const uint64_t block = problem.blocks.sends[0];  // as large as all others
  exchanges.Name(exchanges.pushes() ? problem.recv : problem.send, block * comm.n_ranks());
  const uint64_t slabs = std::max<uint64_t>(block / slab_bytes + (block % slab_bytes != 0), 1);
  for (uint64_t index = 0; index < slabs; ++index) {
    TC_RETURN_IF_ERROR(
        exchanges.Launch(AllToAllExchange(problem, index * slab_bytes, slab_bytes, comm.rank(), comm.n_ranks(), plane),
                         {.first = index == 0, .last = index + 1 == slabs}));
  }
  return {};
}

}  // namespace tc::cuda
