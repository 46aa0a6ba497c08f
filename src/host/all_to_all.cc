#include <algorithm>
#include <array>
#include <cstring>

#include "host/backend.h"
#include "host/exchange.h"
#include "host/operators.h"
#include "order/problem.h"
#include "order/shape.h"
#include "protocol/cpu_memory.h"
#include "protocol/epoch.h"

namespace tc::host {
namespace {

using AllBlocks = std::array<ExchangedBlocks, kMaxRanks>;

// The body of an epoch in which every rank tells every other its blocks.
Status ExchangeBlocks(const Epoch& epoch, AllBlocks& blocks) {
  const RankView& view = epoch.comm.view();
  ChunkCounts one;
  one.to.fill(1);
  one.from.fill(1);
  const auto send = [&](int peer, int) {
    std::memcpy(view.workspace[peer] + view.rank * sizeof(ExchangedBlocks), &blocks[view.rank],
                sizeof(ExchangedBlocks));
  };
  const auto arrived = [&](int producer, int) {
    std::memcpy(&blocks[producer], view.workspace[view.rank] + producer * sizeof(ExchangedBlocks),
                sizeof(ExchangedBlocks));
  };
  const auto name = [](int, int) { return std::string("counts"); };
  TC_RETURN_IF_ERROR(ExchangeChunks(epoch, one, send, arrived, name));
  LeaveEpoch<CpuMemory>(*view.local, epoch.number, 1, 0);
  return {};
}

// The first pair that disagrees decides, so every rank fails with the same sentence.
Status CompareBlocks(const AllBlocks& blocks, int n_ranks, size_t element_bytes) {
  for (int from = 0; from < n_ranks; ++from) {
    for (int to = 0; to < n_ranks; ++to) {
      const uint64_t sent = blocks[from].sends[to];
      const uint64_t expected = blocks[to].expects[from];
      if (sent == expected) continue;
      return PairMismatch(from, to, sent / element_bytes, expected / element_bytes);
    }
  }
  return {};
}

uint64_t LargestBlock(const AllBlocks& blocks, int n_ranks) {
  uint64_t most = 0;
  for (int rank = 0; rank < n_ranks; ++rank) {
    most = std::max(most, *std::max_element(blocks[rank].sends, blocks[rank].sends + n_ranks));
  }
  return most;
}

// One epoch, which moves [skipped, skipped + slab_bytes) of every pair's block.
Status MoveSlab(const Epoch& epoch, const Windows& windows, const AllToAllProblem& problem, const AllBlocks& blocks,
                uint64_t skipped, uint64_t slab_bytes) {
  TC_RETURN_IF_ERROR(CheckDestinations(epoch, windows));
  const RankView& view = epoch.comm.view();
  const auto left = [&](uint64_t block) { return std::min(slab_bytes, block - std::min(block, skipped)); };
  const auto* send = static_cast<const std::byte*>(problem.send);
  auto* recv = static_cast<std::byte*>(problem.recv);
  const auto place = [&](int producer) { return recv + problem.blocks.place[producer] + skipped; };

  if (const uint64_t own = left(problem.blocks.sends[view.rank]); own > 0) {
    std::memcpy(place(view.rank), send + problem.send_place[view.rank] + skipped, own);
  }
  Traffic traffic;
  traffic.first = skipped;
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    const Destination& destination = epoch.destination(peer);
    traffic.to[peer].bytes = left(problem.blocks.sends[peer]);
    traffic.from[peer].bytes = left(problem.blocks.expects[peer]);
    if (traffic.to[peer].bytes == 0) continue;
    traffic.source[peer] = send + problem.send_place[peer] + skipped;
    traffic.target[peer] = destination.window < 0
                               ? view.workspace[peer] + view.rank * slab_bytes
                               : InWindow(windows, destination, peer) + blocks[peer].place[view.rank] + skipped;
  }
  const bool staged = epoch.destination(view.rank).window < 0;
  TC_RETURN_IF_ERROR(ExchangeBytes(epoch, traffic, [&](int producer, const RowRange& range) {
    if (!staged) return;
    std::memcpy(place(producer) + range.begin, view.workspace[view.rank] + producer * slab_bytes + range.begin,
                range.end - range.begin);
  }));
  LeaveEpoch<CpuMemory>(*view.local, epoch.number, 1, 0);
  return {};
}

// Where peers may store their blocks, once they know the places.
Destination DestinationOf(const Windows& windows, const AllToAllProblem& problem, int n_ranks) {
  uint64_t extent = 0;
  for (int rank = 0; rank < n_ranks; ++rank) {
    extent = std::max(extent, problem.blocks.place[rank] + problem.blocks.expects[rank]);
  }
  return Communicator::Locate(windows, problem.recv, extent);
}

void Run(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Windows& windows,
         const AllToAllProblem& problem, uint64_t slab_bytes) {
  Epochs epochs(comm, stream);
  AllBlocks blocks{};
  blocks[comm.rank()] = problem.blocks;
  EntryRecord record = EntryOfShape(shape);
  if (problem.uneven) {
    const auto tell = [&](const Epoch& epoch) { return ExchangeBlocks(epoch, blocks); };
    if (epochs.Run(record, tell) != EpochEnd::kDone) return;
    const Status agreed = CompareBlocks(blocks, comm.n_ranks(), problem.element_bytes);
    if (!agreed.ok()) return comm.FailOperator(agreed, stream);
  } else {
    std::fill(blocks.begin(), blocks.end(), blocks[comm.rank()]);  // all are alike
  }
  record.destination = DestinationOf(windows, problem, comm.n_ranks());
  const uint64_t most = LargestBlock(blocks, comm.n_ranks());
  const uint64_t slabs = std::max<uint64_t>(most / slab_bytes + (most % slab_bytes != 0), 1);
  for (uint64_t index = 0; index < slabs; ++index) {
    const auto move = [&](const Epoch& epoch) {
      return MoveSlab(epoch, windows, problem, blocks, index * slab_bytes, slab_bytes);
    };
    if (epochs.Run(record, move) != EpochEnd::kDone) return;
  }
  ++comm.counters().ops;
}

}  // namespace

Status LaunchAllToAll(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const AllToAllProblem& problem,
                      size_t slab_bytes) {
  const std::shared_ptr<const Windows> windows = comm.windows();
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm] {
    Run(comm, stream, shape, *windows, problem, slab_bytes);
  });
}

}  // namespace tc::host
