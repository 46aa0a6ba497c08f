#include "host/epoch.h"

#include <utility>

#include "order/chunks.h"
#include "order/shape.h"
#include "protocol/cpu_memory.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"

namespace tc::host {
namespace {

Status AwaitEntries(const Epoch& epoch) {
  const RankView& view = epoch.comm.view();
  const CommSettings& settings = epoch.comm.settings();
  const auto limit = epoch.first ? settings.entry_timeout : settings.timeout;
  for (int step = 0; step + 1 < view.n_ranks; ++step) {
    const int peer = ArrivalSource(view.rank, step, view.n_ranks);
    const auto entered = [&] { return HasEntered<CpuMemory>(view, peer, epoch.number); };
    const auto decided = [&] { return entered() || HasLeft<CpuMemory>(view, peer); };
    const uint64_t start = CpuMemory::NowNs();
    const auto warn = [&](uint64_t waited) {
      epoch.comm.WarnOfWait(epoch.shape.op, epoch.number, peer, std::chrono::nanoseconds(waited));
    };
    WaitResult result = WaitUntil<CpuMemory>(decided, view, static_cast<uint64_t>(limit.count()),
                                             static_cast<uint64_t>(settings.entry_warning.count()), warn);
    epoch.comm.counters().wait_ns[peer] += CpuMemory::NowNs() - start;
    if (AbortedBy<CpuMemory>(view) >= 0 && !entered()) result = WaitResult::kAborted;  // it aborted before it left
    if (result == WaitResult::kReached && !entered()) {
      return epoch.comm.PeerHasLeft(epoch.shape.op, epoch.number, peer);
    }
    if (result != WaitResult::kReached) {
      const Sequence seen = EpochEntered<CpuMemory>(view, peer, epoch.number);
      return WaitError(epoch, result, limit,
                       Format("rank %d to %s (entry seen %llu, wanted %llu)", peer, EntryVerb(epoch.first),
                              static_cast<unsigned long long>(seen), static_cast<unsigned long long>(epoch.number)));
    }
  }
  return {};
}

// The lowest rank that refused its call or differs from rank 0 decides, so every rank fails with the same sentence.
Status CompareEntries(const Epoch& epoch) {
  const RankView& view = epoch.comm.view();
  const auto entry = [&](int peer) { return ReadEntry<CpuMemory>(view, peer, epoch.number); };
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    if (entry(peer).rejected == tcSuccess) continue;
    return RefusalError(entry(peer).shape, peer, entry(peer).rejected,
                        EntryOf(view, view.rank, peer, epoch.number).sentence);
  }
  for (int peer = 1; peer < view.n_ranks; ++peer) {
    if (SameShape(entry(0).shape, entry(peer).shape)) continue;
    return ShapeMismatch(entry(0).shape, peer, entry(peer).shape, epoch.number);
  }
  return {};
}

}  // namespace

const Destination& Epoch::destination(int peer) const {
  return EntryOf(comm.view(), comm.rank(), peer, number).destination;
}

std::string Title(const Epoch& epoch) { return epoch.comm.Title(epoch.shape.op, epoch.number); }

Status WaitError(const Epoch& epoch, WaitResult result, std::chrono::nanoseconds limit, const std::string& what) {
  if (result == WaitResult::kAborted) {
    const Status reason = epoch.comm.AbortReason(AbortedBy<CpuMemory>(epoch.comm.view()));
    return Error(reason.code(), "%s: %s", Title(epoch).c_str(), reason.sentence().c_str());
  }
  const auto seconds = std::chrono::duration<double>(limit).count();
  return Error(tcTimeout, "%s waited %g s for %s", Title(epoch).c_str(), seconds, what.c_str());
}

Status CheckDestinations(const Epoch& epoch, const Windows& windows) {
  for (int peer = 0; peer < epoch.comm.n_ranks(); ++peer) {
    const int64_t window = epoch.destination(peer).window;
    if (window < 0 || FindWindow(windows, window) != nullptr) continue;
    return Error(tcInvalidUsage,
                 "%s: rank %d receives into its window %lld, which this rank had not registered before this call; "
                 "registrations and operators must have the same order on all ranks",
                 Title(epoch).c_str(), peer, static_cast<long long>(window));
  }
  return {};
}

Status OnlyMeet(const Epoch& epoch) {
  LeaveMeeting<CpuMemory>(*epoch.comm.view().local, epoch.number);
  return {};
}

EpochEnd Epochs::Run(const EntryRecord& mine, FunctionRef<Status(const Epoch&)> body) {
  if (!comm_.fatal().ok()) return EpochEnd::kDead;
  const RankView& view = comm_.view();
  const Epoch epoch{comm_, mine.shape, EnterEpoch<CpuMemory>(*view.local), std::exchange(first_, false)};
  for (int peer = 0; peer < view.n_ranks; ++peer) PublishEntry<CpuMemory>(view, peer, epoch.number, mine);
  Status failed = AwaitEntries(epoch);
  Status refused;
  if (failed.ok()) {
    refused = CompareEntries(epoch);
    // The refusing rank itself has told its caller at once.
    if (!refused.ok() && mine.rejected == tcSuccess) comm_.FailOperator(refused, stream_);
    failed = refused.ok() ? body(epoch) : OnlyMeet(epoch);
  }
  if (!failed.ok()) {
    comm_.End(failed);
    return EpochEnd::kDead;
  }
  return refused.ok() ? EpochEnd::kDone : EpochEnd::kRefused;
}

}  // namespace tc::host
