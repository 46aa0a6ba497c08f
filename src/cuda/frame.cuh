// The frame of every kernel: enter an epoch together with all ranks, do the work, leave it. See host/epoch.h for the
// same on CPU threads.
#pragma once

#include "cuda/device_memory.cuh"
#include "cuda/params.h"
#include "order/moves.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"
#include "protocol/wait.h"
#include "protocol/watermark.h"

namespace tc::cuda {

// kOut: there is no epoch to enter: the communicator has ended, or this operator was refused in an earlier one.
enum class Verdict : uint32_t { kGo = 0, kRefused = 1, kOut = 2, kOverlaps = tc::kOverlaps };

// What a block knows once it has entered; the same for all its threads.
struct Entered {
  Sequence epoch;
  uint32_t ticket;
  Verdict verdict;
};

// A step at which a test may hold this block up for a random time.
__device__ inline void Dawdle(const DeviceComm& comm) {
  if (comm.jitter_ns == 0) return;
  uint32_t random = static_cast<uint32_t>(DeviceMemory::NowNs()) * 2654435761u ^ blockIdx.x * 40503u;
  random ^= random >> 15;
  __nanosleep(random % comm.jitter_ns);
}

// Ends the communicator: the first stall is kept, later operators return at their entry.
__device__ inline void EndWith(const DeviceComm& comm, tcResult_t code, const Stall& stall) {
  Report& report = *comm.report;
  if (!tc::ReportStall<DeviceMemory>(*comm.view.local, report.stall, code, stall)) return;
  // Not over what the host has said, which ended it first.
  if (DeviceMemory::LoadRelaxed(&report.error) == 0) {
    DeviceMemory::StoreReleaseSys(&report.error, static_cast<uint32_t>(code));
  }
}

__device__ inline void ReportStall(const DeviceComm& comm, WaitResult result, Stall stall) {
  tcResult_t code = tcTimeout;
  const int by = result == WaitResult::kAborted ? AbortedBy<DeviceMemory>(comm.view) : -1;
  if (by >= 0) {
    stall.peer = by;
    code = AbortCode(AbortWord<DeviceMemory>(comm.view, by));
  }
  EndWith(comm, code, stall);
}

// The same for an operator that ran at the same time as another of its communicator.
__device__ inline void ReportOverlap(const DeviceComm& comm, const OperatorShape& shape, Sequence epoch) {
  EndWith(comm, tcInvalidUsage, {.shape = shape, .epoch = epoch});
}

__device__ inline void ReportLongWait(const DeviceComm& comm, const OperatorShape& shape, Sequence epoch, int peer,
                                      uint64_t waited_ns) {
  LongWait& record = comm.report->long_wait[peer];
  record.op = shape.op;
  record.epoch = epoch;
  record.waited_ns = waited_ns;
  DeviceMemory::StoreReleaseSys(&record.told, DeviceMemory::LoadRelaxed(&record.told) + 1);
}

__device__ inline void ReportRefusal(const DeviceComm& comm, Sequence epoch, int peer, int32_t code) {
  Refusal& refusal = comm.report->refusal;
  const uint32_t reported = DeviceMemory::LoadRelaxed(&refusal.reported);
  if (reported != DeviceMemory::LoadAcquireSys(&refusal.collected)) return;  // an earlier one is not collected yet
  const EntryRecord& theirs = EntryOf(comm.view, comm.view.rank, peer, epoch);
  refusal.peer = peer;
  refusal.code = code;
  refusal.epoch = epoch;
  refusal.stream = comm.stream;
  refusal.in_graph = comm.launched == 0;
  const EntryHead head = ReadEntry<DeviceMemory>(comm.view, peer, epoch);
  refusal.first = ReadEntry<DeviceMemory>(comm.view, 0, epoch).shape;
  refusal.other = head.shape;
  for (size_t i = 0; head.rejected != tcSuccess && i < sizeof(refusal.sentence); ++i) {
    refusal.sentence[i] = theirs.sentence[i];
  }
  DeviceMemory::StoreReleaseSys(&refusal.reported, reported + 1);
}

// Shorter waits are not counted: they are the way of a signal, and a count under way would hold up the kernel's end.
inline constexpr uint64_t kShortWaitNs = 2'000;

// The first warp of the first block: one lane per peer publishes, waits and compares.
template <class Entry>
__device__ inline Verdict Meet(const DeviceComm& comm, const Entry& mine, Sequence epoch, bool first) {
  const RankView& view = comm.view;
  const int peer = threadIdx.x;
  const bool is_peer = peer < view.n_ranks;
  if (is_peer) PublishEntry<DeviceMemory>(view, peer, epoch, mine);
  WaitResult result = WaitResult::kReached;
  bool bare = true;
  if (is_peer) {
    const uint64_t start = DeviceMemory::NowNs();
    const auto entered = [&] { return HasEntered<DeviceMemory>(view, peer, epoch, &bare); };
    const auto tell = [&](uint64_t waited_ns) { ReportLongWait(comm, mine.shape, epoch, peer, waited_ns); };
    // In later epochs of the operator every rank is inside it already.
    const uint64_t limit_ns = first ? comm.entry_timeout_ns : comm.timeout_ns;
    result = WaitUntil<DeviceMemory>(entered, view, limit_ns, kLongWaitNs, tell);
    const uint64_t waited_ns = DeviceMemory::NowNs() - start;
    if (waited_ns >= kShortWaitNs) {
      DeviceMemory::CountRelaxedGpu(&view.local->tally.wait_ns[peer], waited_ns);
    }
  }
  if (result != WaitResult::kReached) {
    ReportStall(comm, result,
                {.peer = peer,
                 .shape = mine.shape,
                 .epoch = epoch,
                 .first_epoch = first,
                 .seen = EpochEntered<DeviceMemory>(view, peer, epoch)});
  }
  if (__any_sync(~0u, result != WaitResult::kReached)) return Verdict::kOut;
  if (__all_sync(~0u, bare)) return Verdict::kGo;  // everybody only meets, this rank too
  __syncwarp();                                    // what one lane has acquired, all may read
  const EntryHead head = ReadEntry<DeviceMemory>(view, is_peer ? peer : 0, epoch);
  const unsigned refused = __ballot_sync(~0u, is_peer && head.rejected != tcSuccess);
  const bool same = SameShape(head.shape, ReadEntry<DeviceMemory>(view, 0, epoch).shape);
  const unsigned differs = __ballot_sync(~0u, is_peer && !same);
  if (refused == 0 && differs == 0) return Verdict::kGo;
  const int guilty = __ffs(refused != 0 ? refused : differs) - 1;
  if (peer == guilty && mine.rejected == tcSuccess) {  // else this rank's caller knows
    ReportRefusal(comm, epoch, peer, refused != 0 ? head.rejected : tcInvalidUsage);
  }
  return Verdict::kRefused;
}

// Called first by all threads of every block, with an EntryRecord or BareEntry. The block with ticket 0 meets the peers
// for all of them.
template <class Entry>
__device__ inline Entered EnterOperator(const DeviceComm& comm, const Entry& mine, SlabPlace place) {
  __shared__ Entered entered;
  LocalBlock& local = *comm.view.local;
  if (threadIdx.x == 0) {
    Dawdle(comm);
    entered = {0, 1, Verdict::kOut};
    if (place.first || DeviceMemory::LoadRelaxed(&local.refused) == 0) {
      const uint32_t dead = DeviceMemory::LoadRelaxed(&local.dead);  // under way together with the arrival
      const Arrival arrival = Arrive<DeviceMemory>(local);
      entered = {arrival.epoch, arrival.ticket, dead == 0 ? Verdict::kGo : Verdict::kOut};
    }
  }
  __syncthreads();
  if (threadIdx.x >= 32) {
    // the first warp finds out
  } else if (entered.ticket == 0) {
    const bool out = entered.verdict == Verdict::kOut;
    const Verdict verdict = out ? Verdict::kOut : Meet(comm, mine, entered.epoch, place.first);
    __syncwarp();
    if (threadIdx.x == 0) {
      entered.verdict = verdict;
      if (gridDim.x > 1) PostVerdict<DeviceMemory>(local, entered.epoch, comm.call, static_cast<uint32_t>(verdict));
    }
  } else if (threadIdx.x == 0 && entered.verdict == Verdict::kGo) {
    // Its supplier, ticket 0 of this grid, is resident, and ends its own wait within the entry limit.
    uint32_t posted = static_cast<uint32_t>(Verdict::kOut);
    const auto known = [&] { return ReadVerdict<DeviceMemory>(local, entered.epoch, comm.call, &posted); };
    const WaitResult result = WaitUntil<DeviceMemory>(known, comm.view, UINT64_MAX);
    entered.verdict = static_cast<Verdict>(posted);
    if (result != WaitResult::kReached) {
      // Not silently: the others may finish, and then nobody advances the epoch for the next operator.
      ReportStall(comm, result, {.peer = 0, .shape = mine.shape, .epoch = entered.epoch});
      entered.verdict = Verdict::kOut;
    } else if (entered.verdict == Verdict::kOverlaps) {
      ReportOverlap(comm, mine.shape, entered.epoch);
    }
  }
  __syncthreads();
  return entered;
}

// Called last by all threads of every block, whatever the verdict. `gates`: how many the operator has opened.
__device__ inline void LeaveOperator(const DeviceComm& comm, const Entered& entered, SlabPlace place,
                                     uint64_t gates = 0) {
  __syncthreads();
  if (threadIdx.x != 0) return;
  LocalBlock& local = *comm.view.local;
  Dawdle(comm);
  if (entered.verdict < Verdict::kOut) {
    if (entered.ticket == 0 && !(place.first && place.last)) {
      DeviceMemory::StoreRelaxed(&local.refused, entered.verdict == Verdict::kRefused ? 1u : 0u);
    }
    const bool last = LeaveEpoch<DeviceMemory>(local, entered.epoch, gridDim.x, gates);
    if (last && place.last && entered.verdict == Verdict::kGo) DeviceMemory::CountRelaxedGpu(&local.tally.ops, 1);
  }
  if (comm.launched != 0) EndLaunch<DeviceMemory>(local, comm.launched, gridDim.x);
}

// Copies words from number `word` on, which steps through a block's threads, for as long as every thread has kUnroll of
// them: so many loads are under way before the first store, since host memory is far away. Returns the next `word`.
template <int kUnroll>
__device__ inline uint64_t CopyWords(uint4* to, const uint4* from, uint64_t word, uint64_t words) {
  for (; word + (kUnroll - 1) * kThreads < words; word += kUnroll * kThreads) {
    uint4 held[kUnroll];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) held[i] = from[word + i * kThreads];
#pragma unroll
    for (int i = 0; i < kUnroll; ++i) to[word + i * kThreads] = held[i];
  }
  return word;
}

// Copies by all threads of a block, in 16-byte words where both ends allow it.
__device__ inline void CopyBytes(std::byte* to, const std::byte* from, uint64_t bytes) {
  const auto misalignment = (reinterpret_cast<uintptr_t>(to) | reinterpret_cast<uintptr_t>(from)) % 16;
  uint64_t done = 0;
  if (misalignment == 0) {
    const uint64_t words = bytes / 16;
    auto* const to_words = reinterpret_cast<uint4*>(to);
    const auto* const from_words = reinterpret_cast<const uint4*>(from);
    uint64_t word = CopyWords<16>(to_words, from_words, threadIdx.x, words);
    word = CopyWords<4>(to_words, from_words, word, words);
    CopyWords<1>(to_words, from_words, word, words);
    done = words * 16;
  } else if (misalignment % 4 == 0) {
    const uint64_t words = bytes / 4;
    for (uint64_t word = threadIdx.x; word < words; word += kThreads) {
      reinterpret_cast<uint32_t*>(to)[word] = reinterpret_cast<const uint32_t*>(from)[word];
    }
    done = words * 4;
  }
  for (uint64_t at = done + threadIdx.x; at < bytes; at += kThreads) to[at] = from[at];
}

// The same for rows that lie `to_pitch` and `from_pitch` bytes apart.
__device__ inline void CopyRows(std::byte* to, uint64_t to_pitch, const std::byte* from, uint64_t from_pitch,
                                uint64_t row_bytes, uint64_t rows) {
  if (to_pitch == row_bytes && from_pitch == row_bytes) {
    CopyBytes(to, from, row_bytes * rows);
    return;
  }
  for (uint64_t row = 0; row < rows; ++row) CopyBytes(to + row * to_pitch, from + row * from_pitch, row_bytes);
}

// What next() says in one thread, for all threads of the block; UINT32_MAX, more than there is of anything, when the
// communicator has ended.
template <class Next>
__device__ inline uint32_t Claim(const DeviceComm& comm, const Next& next) {
  __shared__ uint32_t claimed;
  __syncthreads();
  if (threadIdx.x == 0) {
    Dawdle(comm);
    const bool dead = DeviceMemory::LoadRelaxed(&comm.view.local->dead) != 0;
    const uint32_t mine = next();
    claimed = dead ? UINT32_MAX : mine;
  }
  __syncthreads();
  return claimed;
}

// The next number of a counter of pieces; more than there are when the communicator has ended.
__device__ inline int ClaimPiece(const DeviceComm& comm, uint32_t* counter) {
  const uint32_t claimed = Claim(comm, [=] { return DeviceMemory::AddRelaxedGpu(counter, 1u); });
  return static_cast<int>(claimed < INT32_MAX ? claimed : INT32_MAX);
}

// The next piece of this operator's movement that no block has claimed, for the block with this ticket. Through host
// memory every byte crosses PCIe twice, so half of the blocks begin with what comes in, and both directions are busy.
template <class Sent>
__device__ inline Move ClaimMove(const DeviceComm& comm, const Movement& movement, uint32_t ticket, const Sent& sent) {
  LocalBlock& local = *comm.view.local;
  if (!comm.host_staged) return MoveAt(movement, ClaimPiece(comm, &local.moves), sent);
  return NextBothWays(movement, ticket, sent, [&](Direction direction) {
    return ClaimPiece(comm, direction == Direction::kOut ? &local.moves : &local.moves_in);
  });
}

// Where rank `consumer` wants this rank's data in this epoch.
__device__ inline Destination DestinationAt(const DeviceComm& comm, int consumer, Sequence epoch) {
  // Known without a look, which would be a PCIe round trip.
  if (comm.host_staged) return {};
  return EntryOf(comm.view, comm.view.rank, consumer, epoch).destination;
}

}  // namespace tc::cuda
