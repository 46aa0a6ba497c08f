// The push plane of the host backend: this rank's chunks go to every peer, every peer's chunks come here, watermarks
// say how far. One thread does both, so that a rank which still sends already lets its consumers go on.
#pragma once

#include <array>
#include <cstring>

#include "host/epoch.h"
#include "order/signals.h"
#include "protocol/cpu_memory.h"
#include "protocol/wait.h"
#include "protocol/watermark.h"

namespace tc::host {

// The chunks that a rank sends to each consumer and awaits of each producer.
struct ChunkCounts {
  std::array<int, kMaxRanks> to{};
  std::array<int, kMaxRanks> from{};
};

inline ChunkCounts CountChunks(const GatherSignals& signals, int rank) {
  ChunkCounts counts;
  counts.to.fill(signals.chunks(rank));
  for (int peer = 0; peer < signals.packed.n_ranks; ++peer) counts.from[peer] = signals.chunks(peer);
  return counts;
}

// send(peer, chunk) copies a chunk of this rank's into the peer's memory; arrived(producer, chunk) is told of one that
// lies here; name(producer, chunk) says for a message what it is ("rows 128-191").
template <class Send, class Arrived, class Name>
Status ExchangeChunks(const Epoch& epoch, const ChunkCounts& counts, const Send& send, const Arrived& arrived,
                      const Name& name) {
  const RankView& view = epoch.comm.view();
  std::array<int, kMaxRanks> next{};  // the first chunk of each producer that has not arrived

  // Takes what has come, in the order of its consumption; true when there was something.
  const auto take = [&] {
    bool any = false;
    for (int step = 0; step + 1 < view.n_ranks; ++step) {
      const int producer = ArrivalSource(view.rank, step, view.n_ranks);
      while (next[producer] < counts.from[producer] &&
             HasArrived<CpuMemory>(view, producer, next[producer], epoch.number)) {
        arrived(producer, next[producer]++);
        any = true;
      }
    }
    return any;
  };
  // The producer that is waited for next; -1 when all has come.
  const auto missing = [&] {
    for (int step = 0; step + 1 < view.n_ranks; ++step) {
      const int producer = ArrivalSource(view.rank, step, view.n_ranks);
      if (next[producer] < counts.from[producer]) return producer;
    }
    return -1;
  };

  for (int step = 0; step + 1 < view.n_ranks; ++step) {
    const int consumer = PushDestination(view.rank, step, view.n_ranks);
    for (int chunk = 0; chunk < counts.to[consumer]; ++chunk) {
      send(consumer, chunk);
      RaiseWatermark<CpuMemory>(view, consumer, chunk, epoch.number);
      take();
    }
  }
  const auto limit = epoch.comm.settings().timeout;
  for (int producer = missing(); producer >= 0; producer = missing()) {
    const uint64_t start = CpuMemory::NowNs();
    const WaitResult result = WaitUntil<CpuMemory>(take, view, static_cast<uint64_t>(limit.count()));
    epoch.comm.counters().wait_ns[producer] += CpuMemory::NowNs() - start;
    if (result != WaitResult::kReached) {
      const Sequence seen = CpuMemory::LoadRelaxed(&view.own().watermark[producer].chunk[next[producer]]);
      return WaitError(
          epoch, result, limit,
          Format("rank %d's %s (watermark seen %llu, wanted %llu)", producer, name(producer, next[producer]).c_str(),
                 static_cast<unsigned long long>(seen), static_cast<unsigned long long>(epoch.number)));
    }
  }
  return {};
}

// What a rank sends to each consumer and receives from each producer in one epoch, in bytes. Its own elements are not
// looked at.
struct Traffic {
  std::array<const std::byte*, kMaxRanks> source{};
  std::array<std::byte*, kMaxRanks> target{};  // in the consumer's memory
  std::array<PairSignals, kMaxRanks> to{};
  std::array<PairSignals, kMaxRanks> from{};
  uint64_t first = 0;  // bytes of each pair's data that earlier epochs have moved: for messages
};

// arrived(producer, range) is told of bytes that lie here.
template <class Arrived>
Status ExchangeBytes(const Epoch& epoch, const Traffic& traffic, const Arrived& arrived) {
  ChunkCounts counts;
  for (int peer = 0; peer < epoch.comm.n_ranks(); ++peer) {
    counts.to[peer] = traffic.to[peer].chunks();
    counts.from[peer] = traffic.from[peer].chunks();
  }
  const auto send = [&](int peer, int chunk) {
    const RowRange range = traffic.to[peer].range(chunk);
    std::memcpy(traffic.target[peer] + range.begin, traffic.source[peer] + range.begin, range.end - range.begin);
    epoch.comm.counters().bytes_sent += range.end - range.begin;
  };
  const auto take = [&](int producer, int chunk) {
    const RowRange range = traffic.from[producer].range(chunk);
    epoch.comm.counters().bytes_received += range.end - range.begin;
    arrived(producer, range);
  };
  const auto name = [&](int producer, int chunk) {
    const RowRange range = traffic.from[producer].range(chunk);
    return Format("bytes %llu-%llu", static_cast<unsigned long long>(traffic.first + range.begin),
                  static_cast<unsigned long long>(traffic.first + range.end - 1));
  };
  return ExchangeChunks(epoch, counts, send, take, name);
}

// Where a destination that lies in a window lies in this rank's address space.
inline std::byte* InWindow(const Windows& windows, const Destination& destination, int peer) {
  return FindWindow(windows, destination.window)->base[peer] + destination.offset;
}

}  // namespace tc::host
