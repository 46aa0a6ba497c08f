// The push plane of the host backend: this rank's chunks go to every peer, every peer's chunks come here, watermarks
// say how far. One thread does both, so that a rank which still sends already lets its consumers go on.
#pragma once

#include <array>

#include "host/epoch.h"
#include "order/signals.h"
#include "protocol/cpu_memory.h"
#include "protocol/wait.h"
#include "protocol/watermark.h"

namespace tc::host {

// send(peer, chunk) copies a chunk of this rank's into the peer's memory; arrived(producer, chunk) is told of one that
// lies here; name(producer, chunk) says for a message what it is ("rows 128-191").
template <class Send, class Arrived, class Name>
Status ExchangeChunks(const Epoch& epoch, const GatherSignals& signals, const Send& send, const Arrived& arrived,
                      const Name& name) {
  const RankView& view = epoch.comm.view();
  std::array<int, kMaxRanks> next{};  // the first chunk of each producer that has not arrived

  // Takes what has come, in the order of its consumption; true when there was something.
  const auto take = [&] {
    bool any = false;
    for (int step = 0; step + 1 < view.n_ranks; ++step) {
      const int producer = ArrivalSource(view.rank, step, view.n_ranks);
      while (next[producer] < signals.chunks(producer) &&
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
      if (next[producer] < signals.chunks(producer)) return producer;
    }
    return -1;
  };

  for (int step = 0; step + 1 < view.n_ranks; ++step) {
    const int consumer = PushDestination(view.rank, step, view.n_ranks);
    for (int chunk = 0; chunk < signals.chunks(view.rank); ++chunk) {
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
      const Sequence seen = CpuMemory::LoadRelaxed(&view.own().from.watermark[producer].chunk[next[producer]]);
      return WaitError(
          epoch, result, limit,
          Format("rank %d's %s (watermark seen %llu, wanted %llu)", producer, name(producer, next[producer]).c_str(),
                 static_cast<unsigned long long>(seen), static_cast<unsigned long long>(epoch.number)));
    }
  }
  return {};
}

}  // namespace tc::host
