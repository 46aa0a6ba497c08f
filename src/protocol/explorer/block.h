// What every simulated block (CTA) does, written as the kernels in src/cuda and the operators in src/host do it, with
// the same protocol headers.
#pragma once

#include <cstdint>
#include <string>

#include "protocol/abort.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"
#include "protocol/explorer/model_memory.h"
#include "protocol/explorer/mutation.h"
#include "protocol/packet.h"
#include "protocol/stall.h"
#include "protocol/wait.h"
#include "protocol/watermark.h"

namespace tc::explorer {

inline constexpr uint64_t kLimitNs = 1'000'000;

// A thread's last word. The first two are verdicts as well.
enum Ending : uint64_t { kRefusedCall = 1, kGaveUp = 2, kFinished = 3 };

template <class Memory>
class Block {
 public:
  Block(const RankView& view, int index, int blocks, Mutation mutation)
      : view_(view), local_(*view.local), index_(index), blocks_(blocks), mutation_(mutation) {}

  // Enters the next epoch. The block with ticket 0 meets the peers, the others wait for its verdict. `early`: only
  // until all have entered the epoch before, which is enough to write this epoch's half of a staging buffer (P8).
  // False: given up, or refused.
  bool Enter(const OperatorShape& shape, bool early = false) {
    const Arrival arrival = Arrive<Memory>(local_);
    epoch_ = mutation_ == Mutation::kEpochFromLaunch ? 1 : arrival.epoch;
    ticket_ = arrival.ticket;
    if (mutation_ == Mutation::kRoleByIndex) ticket_ = static_cast<uint32_t>(blocks_ - 1 - index_);
    const bool dead = Memory::LoadRelaxed(&local_.dead) != 0;
    if (ticket_ == 0) {
      if (mutation_ != Mutation::kScrubAfterEntry) Scrub();
      const uint32_t verdict = dead ? uint32_t{kGaveUp} : early ? MeetEarly(shape) : Meet(shape);
      if (mutation_ == Mutation::kScrubAfterEntry) Scrub();
      if (blocks_ > 1 && call_seen_ != nullptr) WriteData<Memory>(call_seen_, call_);
      if (blocks_ > 1) PostVerdict<Memory>(local_, epoch_, Call(), verdict);
      ending_ = verdict;
    } else if (dead) {
      ending_ = kGaveUp;
    } else {
      uint32_t posted = 0;
      const auto known = [&] { return ReadVerdict<Memory>(local_, epoch_, Call(), &posted); };
      const WaitResult result = Await("the verdict", known, UINT64_MAX);
      ending_ = posted;
      // Also here the rank must be marked dead: else its next operator starts in the middle of this one's epoch.
      if (result != WaitResult::kReached) {
        ending_ = kGaveUp;
        if (mutation_ != Mutation::kGivesUpSilently) GiveUp(result, -1);
      } else if (posted == kOverlaps) {
        GiveUp(WaitResult::kTimedOut, -1);  // as the host does when it learns of it: peers are told
      } else if (posted == 0 && call_seen_ != nullptr && ReadData<Memory>(call_seen_) != call_) {
        Memory::Fail("joins an operator that is not its own");
      }
    }
    entered_ = ending_ == 0 || ending_ == kRefusedCall;
    return ending_ == 0;
  }

  // The same in a later kernel of an operator whose first one has entered and not left.
  bool Resume() {
    uint32_t found = kGaveUp;
    const bool open = ResumeEpoch<Memory>(local_, Call(), &epoch_, &found);
    ending_ = open ? found : uint64_t{kGaveUp};
    if (open && found == kOverlaps) GiveUp(WaitResult::kTimedOut, -1);
    entered_ = ending_ == 0 || ending_ == kRefusedCall;
    return ending_ == 0;
  }

  // A bounded wait; `what` is what it waits for.
  template <class Ready>
  WaitResult Await(const std::string& what, const Ready& ready, uint64_t limit_ns = kLimitNs) {
    Memory::BeginWait(what);
    if (mutation_ == Mutation::kUnboundedWait) {
      for (unsigned spins = 0; !ready(); ++spins) Memory::Backoff(spins);
      return WaitResult::kReached;
    }
    if (mutation_ == Mutation::kNoTimeLimit) limit_ns = UINT64_MAX;
    return WaitUntil<Memory>(ready, view_, limit_ns);
  }

  // Waits for a chunk, or until another block of this rank has given up.
  bool AwaitChunk(int producer, int chunk) {
    const auto arrived = [&] { return Arrived(producer, chunk); };
    return AwaitSlot("rank " + std::to_string(producer) + "'s chunk " + std::to_string(chunk), producer, arrived);
  }

  // The same for whatever `peer` says in a slot.
  template <class Ready>
  bool AwaitSlot(const std::string& what, int peer, const Ready& ready) {
    const auto ready_or_dead = [&] { return ready() || Memory::LoadAcquireGpu(&local_.dead) != 0; };
    const WaitResult result = Await(what, ready_or_dead);
    if (result == WaitResult::kReached && ready()) return true;
    GiveUp(result, peer);
    return false;
  }

  // Nothing more is published but the abort words.
  void GiveUp(WaitResult result, int peer) {
    ending_ = kGaveUp;
    if (report_ != nullptr) {
      const tcResult_t code = result == WaitResult::kAborted ? tcAborted : tcTimeout;
      Stall stall;
      stall.peer = result == WaitResult::kAborted ? AbortedBy<Memory>(view_) : peer;
      stall.epoch = epoch_;
      if (mutation_ == Mutation::kStallCodeBeforeRecord) {
        if (Memory::AddAcqRelGpu(&local_.dead, uint32_t{1}) != 0) return;
        Memory::StoreReleaseSys(&report_->code, static_cast<uint32_t>(code));
        WriteData<Memory>(&report_->stall, stall);
      } else {
        ReportStall<Memory>(local_, *report_, code, stall);
      }
    } else {
      Memory::AddAcqRelGpu(&local_.dead, uint32_t{1});
    }
    if (result == WaitResult::kTimedOut) PublishAbort<Memory>(view_);
  }

  bool Leave(uint64_t gates = 0) {
    const auto blocks = static_cast<uint32_t>(blocks_);
    if (!entered_) return false;
    if (mutation_ == Mutation::kCountersNotZeroed) {
      if (Memory::AddAcqRelGpu(&local_.finished, uint32_t{1}) + 1 == blocks) {
        Memory::StoreRelaxed(&local_.finished, uint32_t{0});
        Memory::StoreReleaseGpu(&local_.arrivals, epoch_ << kArrivalBits);
      }
      return true;
    }
    if (mutation_ == Mutation::kFirstBlockAdvancesEpoch) {
      Memory::StoreReleaseGpu(&local_.arrivals, epoch_ << kArrivalBits);
    }
    return LeaveEpoch<Memory>(local_, epoch_, blocks, mutation_ == Mutation::kGatesNotZeroed ? 0 : gates);
  }

  // The same after an operator that only meets, of one block.
  void LeaveMeeting() {
    if (entered_) tc::LeaveMeeting<Memory>(local_, epoch_);
  }

  // Whether this was the last block of its launch.
  bool End() {
    if (mutation_ == Mutation::kOutsideUncounted && !entered_) return true;
    return EndLaunch<Memory>(local_, epoch_, static_cast<uint32_t>(blocks_));
  }

  // Where peers may read or store, as its entry says.
  void set_destination(const Destination& destination) { destination_ = destination; }
  // Of packets that each peer writes here.
  void set_packets(int packets) { packets_ = packets; }
  void set_report(StallReport* report) { report_ = report; }
  // Which operator this is, and where the first block of one writes it down.
  void set_call(uint64_t call, uint64_t* seen) {
    call_ = call;
    call_seen_ = seen;
  }
  const RankView& view() const { return view_; }
  LocalBlock& local() const { return local_; }
  Sequence epoch() const { return epoch_; }
  int index() const { return index_; }
  int blocks() const { return blocks_; }
  int rank() const { return view_.rank; }
  uint32_t ticket() const { return ticket_; }
  Mutation mutation() const { return mutation_; }
  uint64_t ending() const { return ending_ == 0 ? uint64_t{kFinished} : ending_; }

  bool Arrived(int producer, int chunk) const {
    const Sequence* slot = &view_.own().watermark[producer].chunk[chunk];
    if (mutation_ == Mutation::kPollsThePeer) slot = &view_.control[producer]->watermark[view_.rank].chunk[chunk];
    if (mutation_ == Mutation::kWaitsForEqual) return Memory::LoadAcquireSys(slot) == epoch_;
    if (mutation_ == Mutation::kPollsThePeer) return Reached<Memory>(slot, epoch_);
    return HasArrived<Memory>(view_, producer, chunk, epoch_);
  }

 private:
  uint64_t Call() const { return mutation_ == Mutation::kCallsNotTold ? 0 : call_; }

  void Scrub() {
    if (packets_ == 0 || !ScrubIsDue(epoch_) || mutation_ == Mutation::kNoScrub) return;
    ScrubPackets<Memory>(view_, epoch_, packets_);
  }

  // 0: go on. All have left epoch - 1, and with it all that lay in this epoch's half, once all have entered it.
  uint32_t MeetEarly(const OperatorShape& shape) {
    for (int peer = 0; peer < view_.n_ranks && mutation_ != Mutation::kNoEntryWait; ++peer) {
      const auto entered = [&] { return HasEntered<Memory>(view_, peer, epoch_ - 1); };
      const WaitResult result = Await("rank " + std::to_string(peer) + " to enter the epoch before", entered);
      if (result == WaitResult::kReached) continue;
      GiveUp(result, peer);
      return kGaveUp;
    }
    EntryRecord mine{};
    mine.shape = shape;
    mine.destination = destination_;
    for (int peer = 0; peer < view_.n_ranks; ++peer) Publish(peer, mine);
    return 0;
  }
  // 0: go on.
  uint32_t Meet(const OperatorShape& shape) {
    EntryRecord mine{};
    mine.shape = shape;
    mine.destination = destination_;
    for (int peer = 0; peer < view_.n_ranks; ++peer) Publish(peer, mine);
    if (mutation_ == Mutation::kNoEntryWait) return 0;
    for (int peer = 0; peer < view_.n_ranks; ++peer) {
      const auto entered = [&] { return Entered(peer); };
      const WaitResult result = Await("rank " + std::to_string(peer) + " to enter", entered);
      if (result == WaitResult::kReached) continue;
      GiveUp(result, peer);
      if (mutation_ == Mutation::kSignalsAfterGivingUp) return 0;
      return kGaveUp;
    }
    if (mutation_ == Mutation::kNoComparison) return 0;
    for (int peer = 0; peer < view_.n_ranks; ++peer) {
      if (!SameShape(Shape(peer), shape)) return kRefusedCall;
    }
    return 0;
  }
  EntryRecord& Record(int reader, int writer) const {
    return EntryOf(view_, reader, writer, mutation_ == Mutation::kOneEntryRecord ? 0 : epoch_);
  }
  void Publish(int peer, const EntryRecord& mine) {
    if (mutation_ == Mutation::kBareEntryNotMarked && SameShape(mine.shape, BareShape())) {
      return Signal<Memory>(&Record(peer, view_.rank).entered, EntryWord(epoch_, false));
    }
    if (mutation_ != Mutation::kOneEntryRecord) return PublishEntry<Memory>(view_, peer, epoch_, mine);
    WriteData<Memory>(&Record(peer, view_.rank).shape, mine.shape);
    Signal<Memory>(&Record(peer, view_.rank).entered, EntryWord(epoch_, false));
  }
  bool Entered(int peer) const {
    if (mutation_ != Mutation::kOneEntryRecord) return HasEntered<Memory>(view_, peer, epoch_);
    return Reached<Memory>(&Record(view_.rank, peer).entered, EntryWord(epoch_, false));
  }
  OperatorShape Shape(int peer) const {
    if (mutation_ == Mutation::kOneEntryRecord) return ReadData<Memory>(&Record(view_.rank, peer).shape);
    return ReadEntry<Memory>(view_, peer, epoch_).shape;
  }

  RankView view_;
  LocalBlock& local_;
  int index_;
  int blocks_;
  Mutation mutation_;
  Destination destination_;
  int packets_ = 0;
  StallReport* report_ = nullptr;
  uint64_t call_ = 0;
  uint64_t* call_seen_ = nullptr;
  Sequence epoch_ = 0;
  uint32_t ticket_ = 0;
  bool entered_ = false;
  uint64_t ending_ = 0;
};

}  // namespace tc::explorer
