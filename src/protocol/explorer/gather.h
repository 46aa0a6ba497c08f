// Scenarios of operators that push: all-gather (with election, or with moves claimed as in the kernels), barrier,
// broadcast, in any order.
#pragma once

#include <memory>
#include <vector>

#include "order/moves.h"
#include "protocol/election.h"
#include "protocol/explorer/block.h"
#include "protocol/explorer/explorer.h"

namespace tc::explorer {

enum class Kind {
  kBarrier,
  kGather,     // every block contributes to every chunk; the last announces it
  kClaimed,    // blocks claim chunks, as the kernels do
  kBothWays,   // the same where each direction has a counter of its own
  kBroadcast,  // from rank 0
};

struct Operation {
  Kind kind = Kind::kGather;
  int chunks = 2;
  int blocks = 2;  // of its grid
  bool operator==(const Operation&) const = default;
};

struct GatherOptions {
  int ranks = 2;
  std::vector<Operation> operations;
  Sequence start = 0;
  bool early = false;  // two staging halves, entered early (P8)
  Limits limits = Limits::kNever;
  bool freed = false;         // the last block frees what all have touched
  int absent = -1;            // a rank that never comes
  int aborter = -1;           // a rank on which somebody calls tcCommAbort, at any time
  bool one_resident = false;  // a grid's blocks run one after the other
  bool differ = false;        // rank 1 calls other operators
  bool overlap = false;       // nothing orders a rank's operators: each has blocks of its own
  Mutation mutation = Mutation::kNone;
};

// One word of data per (half, producer, chunk, part); a part is written by one block.
struct Staging {
  uint64_t* words[kMaxRanks] = {};
  uint32_t* elections[kMaxRanks] = {};  // per (consumer, chunk)
  uint64_t* left[kMaxRanks] = {};       // operators that a rank's block 0 has left
  StallReport* report[kMaxRanks] = {};
  uint64_t* touched[kMaxRanks] = {};
  uint64_t* call[kMaxRanks] = {};  // the operator whose first block came last
  int grid[kMaxRanks] = {};        // barrier: a kernel starts when the one before it has ended
  int ranks = 0;
  int chunks = 0;
  int parts = 0;

  uint64_t* Place(int rank, uint64_t half, int producer, int chunk, int part) const {
    return words[rank] + (((half * ranks + producer) * chunks + chunk) * parts + part);
  }
};

constexpr uint64_t Content(Sequence epoch, int producer, int chunk, int part) {
  return epoch * 1000 + static_cast<uint64_t>(producer * 100 + chunk * 10 + part);
}

// One block's part in the operators of a rank.
template <class Memory>
class GatherBlock {
 public:
  GatherBlock(const GatherOptions& options, const Staging& staging, const RankView& view, int index)
      : options_(options), staging_(staging), view_(view), index_(index) {}

  // A block of one operator alone.
  uint64_t RunOnly(uint64_t number) {
    number_ = number;
    RunOne(options_.operations[number]);
    return ending_;
  }

  uint64_t Run() {
    for (const Operation& operation : options_.operations) {
      Memory::Forget(ending_ << 8 | number_ << 1);
      if (index_ < operation.blocks) RunOne(operation);
      ++number_;
      Memory::SyncThreads(staging_.grid[view_.rank]);
    }
    if (Claims(options_.operations.back()) && index_ == 0 && ending_ == kFinished) {
      for (const uint32_t* counter : {&view_.local->moves, &view_.local->moves_in}) {
        if (Memory::LoadRelaxed(counter) != 0) Memory::Fail("a counter is left as it was");
      }
    }
    return ending_;
  }

 private:
  using B = Block<Memory>;

  static bool Claims(const Operation& operation) {
    return operation.kind == Kind::kClaimed || operation.kind == Kind::kBothWays;
  }

  void RunOne(Operation operation) {
    if (options_.differ && view_.rank == 1) operation.chunks = 1;
    B block(view_, index_, operation.blocks, options_.mutation);
    block.set_report(staging_.report[view_.rank]);
    if (options_.overlap) block.set_call(number_ + 1, staging_.call[view_.rank]);
    AwaitResidency(block);
    ++calls_;
    OperatorShape shape;
    shape.op = operation.kind == Kind::kBarrier ? tcOpBarrier : tcOpAllGather;
    if (operation.kind != Kind::kBarrier) shape.m = static_cast<uint64_t>(operation.kind) * 100 + operation.chunks;
    if (!block.Enter(shape, options_.early && operation.kind != Kind::kBarrier)) {
      ending_ = block.ending();
      if (ending_ == kRefusedCall && !options_.differ && !options_.overlap)
        Memory::Fail("refuses an operator that all ranks call alike");
      Leave(block, operation);
      return;
    }
    if (operation.kind == Kind::kGather) Gather(block, operation);
    if (Claims(operation)) GatherClaimed(block, operation);
    if (operation.kind == Kind::kBroadcast) Broadcast(block, operation);
    ending_ = block.ending();
    Leave(block, operation);
    if (options_.one_resident && index_ == 0) Memory::StoreReleaseGpu(staging_.left[view_.rank], number_ + 1);
  }

  // The last block of a launch is the last to touch this rank's memory, however the operator ended: whoever waits for
  // it may free that memory.
  void Leave(B& block, const Operation& operation) {
    if (operation.kind == Kind::kBarrier && operation.blocks == 1) {
      block.LeaveMeeting();
    } else {
      block.Leave();
    }
    if (!options_.freed) return;
    uint64_t* const touched = staging_.touched[view_.rank];
    WriteData<Memory>(&touched[index_], number_);
    if (!block.End()) return;
    for (int index = 0; index < block.blocks(); ++index) WriteData<Memory>(&touched[index], ~number_);
  }

  void AwaitResidency(B& block) {
    if (!options_.one_resident || index_ == 0) return;
    const uint64_t* left = staging_.left[view_.rank];
    block.Await(
        "a free SM", [=, this] { return Memory::LoadAcquireGpu(left) > number_; }, UINT64_MAX);
  }

  uint64_t Half(const B& block) const {
    if (!options_.early || options_.mutation == Mutation::kOneBuffer) return 0;
    return options_.mutation == Mutation::kParityPerBlock ? calls_ % 2 : block.epoch() % 2;
  }

  void WriteParts(const B& block, int consumer, int chunk, int first, int stride) {
    for (int part = first; part < staging_.parts; part += stride) {
      WriteData<Memory>(staging_.Place(consumer, Half(block), view_.rank, chunk, part),
                        Content(block.epoch(), view_.rank, chunk, part));
    }
  }

  void Raise(const B& block, int consumer, int chunk) {
    if (options_.mutation == Mutation::kTwoRanksOneSlot) {
      Signal<Memory>(&view_.control[consumer]->watermark[consumer].chunk[chunk], block.epoch());
    } else {
      RaiseWatermark<Memory>(view_, consumer, chunk, block.epoch());
    }
    if (options_.mutation == Mutation::kCoarseChunkEarly) RaiseWatermark<Memory>(view_, consumer, 1, block.epoch());
  }

  void Contribute(const B& block, int consumer, int chunk) {
    const auto elected = [&] {
      uint32_t* counter = &staging_.elections[view_.rank][consumer * staging_.chunks + chunk];
      return options_.mutation == Mutation::kNoElection ||
             Elect<Memory>(counter, static_cast<uint32_t>(block.blocks()));
    };
    if (options_.mutation == Mutation::kSignalBeforeData) {
      if (elected()) Raise(block, consumer, chunk);
      WriteParts(block, consumer, chunk, block.index(), block.blocks());
    } else {
      WriteParts(block, consumer, chunk, block.index(), block.blocks());
      if (elected()) Raise(block, consumer, chunk);
    }
  }

  bool Take(B& block, int producer, int chunk, int signaller) {
    if (!block.AwaitChunk(signaller, chunk)) return false;
    for (int part = 0; part < staging_.parts; ++part) {
      const uint64_t seen = ReadData<Memory>(staging_.Place(view_.rank, Half(block), producer, chunk, part));
      if (seen != Content(block.epoch(), producer, chunk, part)) Memory::Fail("reads data of another epoch or place");
    }
    if (options_.mutation == Mutation::kSlotReset) {
      Memory::StoreRelaxed(&view_.own().watermark[signaller].chunk[chunk], Sequence{0});
    }
    return true;
  }

  bool Gather(B& block, const Operation& operation) {
    for (int step = 0; step + 1 < view_.n_ranks; ++step) {
      const int consumer = PushDestination(view_.rank, step, view_.n_ranks);
      for (int chunk = 0; chunk < operation.chunks; ++chunk) Contribute(block, consumer, chunk);
    }
    Memory::Forget(block.epoch() << 12 | number_ << 1 | 1);
    for (int step = 0; step + 1 < view_.n_ranks; ++step) {
      const int producer = ArrivalSource(view_.rank, step, view_.n_ranks);
      for (int chunk = block.index(); chunk < operation.chunks; chunk += block.blocks()) {
        if (!Take(block, producer, chunk, producer)) return false;
      }
    }
    return true;
  }

  // The pieces as the kernels claim them.
  bool GatherClaimed(B& block, const Operation& operation) {
    const Movement movement{.rank = view_.rank, .n_ranks = view_.n_ranks, .keeps_own = false, .takes_arrivals = true};
    const EqualChunks sent{operation.chunks};
    const bool both_ways = operation.kind == Kind::kBothWays;
    const auto claim = [&](Direction direction) {
      uint32_t& counter = direction == Direction::kOut ? block.local().moves : block.local().moves_in;
      return static_cast<int>(Memory::AddRelaxedGpu(&counter, uint32_t{1}));
    };
    for (;;) {
      Memory::Forget(block.epoch() << 12 | (both_ways ? block.ticket() + 1 : 0) << 8 | number_ << 1 | 1);
      const Move move = both_ways ? NextBothWays(movement, block.ticket(), sent, claim)
                                  : MoveAt(movement, claim(Direction::kOut), sent);
      if (move.kind == MoveKind::kNone) return true;
      if (move.kind == MoveKind::kPush) {
        WriteParts(block, move.peer, move.chunk, 0, 1);
        Raise(block, move.peer, move.chunk);
      } else if (!Take(block, move.peer, move.chunk, move.peer)) {
        return false;
      }
    }
  }

  bool Broadcast(B& block, const Operation& operation) {
    const bool relayed = options_.mutation == Mutation::kFlagThroughThirdRank;
    for (int chunk = 0; chunk < operation.chunks; ++chunk) {
      if (view_.rank == 0) {
        for (int consumer = 1; consumer < view_.n_ranks; ++consumer) {
          WriteParts(block, consumer, chunk, 0, 1);
          if (!relayed) Raise(block, consumer, chunk);
        }
        if (relayed) Raise(block, 1, chunk);
        continue;
      }
      if (!Take(block, 0, chunk, relayed ? view_.rank - 1 : 0)) return false;
      if (relayed && view_.rank + 1 < view_.n_ranks) Raise(block, view_.rank + 1, chunk);
    }
    return true;
  }

  const GatherOptions& options_;
  const Staging& staging_;
  RankView view_;
  int index_;
  uint64_t number_ = 0;
  uint64_t calls_ = 0;
  uint64_t ending_ = kFinished;
};

// The host thread that reads a rank's stall record.
template <class Memory>
uint64_t ReadStall(const RankView& view, const StallReport* report, int absent) {
  Block<Memory> host(view, 0, 1, Mutation::kNone);
  if (host.Await(
          "a stall record", [=] { return HasStalled<Memory>(*report); }, UINT64_MAX) != WaitResult::kReached) {
    return kGaveUp;
  }
  const bool timed_out = Memory::LoadRelaxed(&report->code) == static_cast<uint32_t>(tcTimeout);
  const int peer = ReadData<Memory>(&report->stall).peer;
  if (timed_out ? peer != absent : peer < 0) Memory::Fail("the stall record names another rank");
  return kFinished;
}

template <class Memory>
World GatherWorld(const GatherOptions& options) {
  World world(options.ranks, options.limits);
  auto staging = std::make_shared<Staging>();
  int blocks = 1;
  staging->ranks = options.ranks;
  staging->parts = 1;
  for (const Operation& operation : options.operations) {
    blocks = std::max(blocks, operation.blocks);
    staging->chunks = std::max(staging->chunks, operation.chunks);
    if (operation.kind == Kind::kGather) staging->parts = std::max(staging->parts, operation.blocks);
  }
  for (int rank = 0; rank < options.ranks; ++rank) {
    world.AddControl(rank, options.start);
    const size_t chunks = static_cast<size_t>(options.ranks) * staging->chunks;
    staging->words[rank] = world.NewArray<uint64_t>(rank, "staging", 2 * chunks * staging->parts);
    staging->elections[rank] = world.NewArray<uint32_t>(rank, "elections", chunks);
    staging->left[rank] = world.NewArray<uint64_t>(rank, "left", 1);
    staging->report[rank] = world.NewArray<StallReport>(rank, "report", 1);
    staging->touched[rank] = world.NewArray<uint64_t>(rank, "touched", blocks);
    staging->call[rank] = world.NewArray<uint64_t>(rank, "call", 1);
    staging->grid[rank] = world.AddBarrier(blocks);
  }
  const auto shared = std::make_shared<const GatherOptions>(options);
  for (int rank = 0; rank < options.ranks; ++rank) {
    const RankView view = world.view(rank);
    if (rank == options.aborter) {
      world.AddThread(rank, "aborting thread", [=]() -> uint64_t {
        PublishAbort<Memory>(view);
        return kFinished;
      });
    }
    if (rank == options.absent) continue;
    for (size_t number = 0; options.overlap && number < options.operations.size(); ++number) {
      for (int index = 0; index < options.operations[number].blocks; ++index) {
        world.AddThread(rank, "operator " + std::to_string(number) + " block " + std::to_string(index),
                        [=] { return GatherBlock<Memory>(*shared, *staging, view, index).RunOnly(number); });
      }
    }
    if (options.overlap) continue;
    for (int index = 0; index < blocks; ++index) {
      world.AddThread(rank, "block " + std::to_string(index),
                      [=] { return GatherBlock<Memory>(*shared, *staging, view, index).Run(); });
    }
    if (options.absent >= 0) {
      world.AddThread(rank, "host thread",
                      [=, report = staging->report[rank]] { return ReadStall<Memory>(view, report, shared->absent); });
    }
  }
  return world;
}

}  // namespace tc::explorer
