#include <algorithm>
#include <cstring>

#include "host/backend.h"
#include "host/epoch.h"
#include "host/exchange.h"
#include "host/operators.h"
#include "order/shape.h"
#include "protocol/epoch.h"

namespace tc::host {
namespace {

// Bytes [first, first + bytes) of every rank's block.
Status GatherSlab(const Epoch& epoch, const Windows& windows, const AllGatherProblem& problem, size_t first,
                  size_t bytes) {
  TC_RETURN_IF_ERROR(CheckDestinations(epoch, windows));
  const RankView& view = epoch.comm.view();
  const Shards blocks = EvenShards(bytes * view.n_ranks, view.n_ranks);
  const size_t chunk_bytes = HostChunkBytes(bytes);
  const auto length = [&](int chunk) { return std::min(chunk_bytes, bytes - chunk * chunk_bytes); };
  const auto* send = static_cast<const std::byte*>(problem.send) + first;
  auto* recv = static_cast<std::byte*>(problem.recv);
  const auto place = [&](int producer) { return recv + producer * problem.bytes + first; };
  const bool staged = epoch.destination(view.rank).window < 0;

  if (bytes > 0 && place(view.rank) != send) std::memcpy(place(view.rank), send, bytes);
  const auto push = [&](int peer, int chunk) {
    const Destination& destination = epoch.destination(peer);
    std::byte* block = destination.window < 0 ? view.workspace[peer] + view.rank * bytes
                                              : FindWindow(windows, destination.window)->base[peer] +
                                                    destination.offset + view.rank * problem.bytes + first;
    std::memcpy(block + chunk * chunk_bytes, send + chunk * chunk_bytes, length(chunk));
    epoch.comm.counters().bytes_sent += length(chunk);
  };
  const auto arrived = [&](int producer, int chunk) {
    epoch.comm.counters().bytes_received += length(chunk);
    if (!staged) return;
    std::memcpy(place(producer) + chunk * chunk_bytes,
                view.workspace[view.rank] + producer * bytes + chunk * chunk_bytes, length(chunk));
  };
  const auto name = [&](int, int chunk) {
    return Format("bytes %zu-%zu", first + chunk * chunk_bytes, first + chunk * chunk_bytes + length(chunk) - 1);
  };
  TC_RETURN_IF_ERROR(ExchangeChunks(epoch, {blocks, chunk_bytes}, push, arrived, name));
  LeaveEpoch<CpuMemory>(view.own().local, epoch.number, 1, 0);
  return {};
}

}  // namespace

Status LaunchAllGather(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                       const AllGatherProblem& problem, size_t slab_bytes) {
  const std::shared_ptr<const Windows> windows = comm.windows();
  EntryRecord record = EntryOfShape(shape);
  record.destination = Communicator::Locate(*windows, problem.recv, problem.bytes * comm.n_ranks());
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm] {
    size_t first = 0;
    do {
      const size_t bytes = std::min(slab_bytes, problem.bytes - first);
      const auto body = [&](const Epoch& epoch) { return GatherSlab(epoch, *windows, problem, first, bytes); };
      if (RunEpoch(comm, record, body) != EpochEnd::kDone) return;
      first += bytes;
    } while (first < problem.bytes);
    ++comm.counters().ops;
  });
}

}  // namespace tc::host
