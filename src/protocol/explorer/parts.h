// Scenarios of single parts of the protocol: gates, credits, bulk copies, a CTA of two threads, the end of a
// mapping.
#pragma once

#include <algorithm>

#include "order/chunks.h"
#include "protocol/credit.h"
#include "protocol/election.h"
#include "protocol/explorer/block.h"
#include "protocol/explorer/explorer.h"
#include "protocol/gate.h"

namespace tc::explorer {

struct PartOptions {
  Sequence start = 0;
  int epochs = 2;
  Mutation mutation = Mutation::kNone;
};

// All-gather + GEMM of 2 x 100 rows: ticket 0 moves and opens gates, the others compute behind them. The first gate
// holds rows of both ranks, the second one padding.
template <class Memory>
class GateBlock {
 public:
  static constexpr uint64_t kRows = 100;  // of a rank
  static constexpr uint64_t kBlocks = 2;  // of rows
  static constexpr int kChunks = 2;       // of a rank
  static constexpr int kThreads = 2;

  GateBlock(const PartOptions& options, const RankView& view, int index, uint64_t* const* staged, int grid)
      : options_(options), view_(view), block_(view, index, kThreads, options.mutation), staged_(staged), grid_(grid) {}

  uint64_t Run() {
    for (int number = 0; number < options_.epochs; ++number) {
      Memory::Forget(number);
      if (!block_.Enter({})) return block_.ending();
      if (block_.ticket() == 0 && !Move()) return block_.ending();
      if (!Compute()) return block_.ending();
      block_.Leave(kBlocks);
      Memory::SyncThreads(grid_);
    }
    return kFinished;
  }

 private:
  uint64_t Begin(int producer, int chunk) const { return producer * kRows + chunk * kSmallestChunkRows; }
  uint64_t End(int producer, int chunk) const {
    return std::min(Begin(producer, chunk) + kSmallestChunkRows, (producer + 1) * kRows);
  }
  uint64_t Content(int producer, int chunk) const { return block_.epoch() * 10 + producer * 2 + chunk; }

  bool Move() {
    LocalBlock& local = block_.local();
    const int peer = 1 - view_.rank;
    if (options_.mutation != Mutation::kNoPadding) OpenGates<Memory>(local, 2 * kRows, kBlocks * kGateRows);
    OpenGates<Memory>(local, view_.rank * kRows, (view_.rank + 1) * kRows);
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      WriteData<Memory>(&staged_[peer][view_.rank * kChunks + chunk], Content(view_.rank, chunk));
      RaiseWatermark<Memory>(view_, peer, chunk, block_.epoch());
    }
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      const bool early = options_.mutation == Mutation::kGateBeforeWatermark;
      if (early) OpenGates<Memory>(local, Begin(peer, chunk), End(peer, chunk));
      if (!block_.AwaitChunk(peer, chunk)) return false;
      if (!early) OpenGates<Memory>(local, Begin(peer, chunk), End(peer, chunk));
    }
    return true;
  }

  bool Compute() {
    for (;;) {
      Memory::Forget(block_.epoch() << 8 | 0x80);
      const uint64_t tile = ClaimTile<Memory>(block_.local());
      if (tile >= kBlocks) return true;
      const auto open = [&] { return GateIsOpen<Memory>(block_.local(), tile); };
      if (block_.Await("gate " + std::to_string(tile), open, UINT64_MAX) != WaitResult::kReached) return false;
      const int peer = 1 - view_.rank;
      for (int chunk = 0; chunk < kChunks; ++chunk) {
        if (Begin(peer, chunk) / kGateRows > tile || (End(peer, chunk) - 1) / kGateRows < tile) continue;
        const uint64_t seen = ReadData<Memory>(&staged_[view_.rank][peer * kChunks + chunk]);
        if (seen != Content(peer, chunk)) Memory::Fail("computes with rows of another epoch");
      }
    }
  }

  const PartOptions& options_;
  RankView view_;
  Block<Memory> block_;
  uint64_t* const* staged_;
  int grid_;
};

struct Pointers {
  uint64_t* of[kMaxRanks] = {};
};

template <class Memory>
World GateWorld(const PartOptions& options) {
  World world(2);
  Pointers staged;
  for (int rank = 0; rank < 2; ++rank) {
    world.AddControl(rank, options.start);
    staged.of[rank] = world.NewArray<uint64_t>(rank, "staging", 4);
  }
  for (int rank = 0; rank < 2; ++rank) {
    const int grid = world.AddBarrier(GateBlock<Memory>::kThreads);
    for (int index = 0; index < GateBlock<Memory>::kThreads; ++index) {
      world.AddThread(rank, "block " + std::to_string(index), [=, view = world.view(rank)] {
        return GateBlock<Memory>(options, view, index, staged.of, grid).Run();
      });
    }
  }
  return world;
}

// A ring of two places from rank 0 to rank 1.
template <class Memory>
World CreditWorld(const PartOptions& options) {
  constexpr uint64_t kPlaces = 2;
  World world(2);
  for (int rank = 0; rank < 2; ++rank) world.AddControl(rank, 0);
  uint64_t* ring = world.NewArray<uint64_t>(1, "ring", kPlaces);
  Sequence* sent = world.NewArray<Sequence>(1, "sent", 1, options.start);
  Sequence* credit = world.NewArray<Sequence>(0, "credit", 1, options.start);
  const Sequence end = options.start + 5;
  world.AddThread(0, "producer", [=, view = world.view(0)] {
    Block<Memory> block(view, 0, 1, options.mutation);
    for (Sequence piece = options.start; piece < end; ++piece) {
      const auto has_credit = [&] { return HasCredit<Memory>(credit, piece, kPlaces); };
      if (options.mutation != Mutation::kNoCredit) block.Await("credit for piece " + std::to_string(piece), has_credit);
      WriteData<Memory>(&ring[piece % kPlaces], piece * 10);
      Signal<Memory>(sent, piece + 1);
    }
    return kFinished;
  });
  world.AddThread(1, "consumer", [=, view = world.view(1)] {
    Block<Memory> block(view, 0, 1, options.mutation);
    for (Sequence piece = options.start; piece < end; ++piece) {
      block.Await("piece " + std::to_string(piece), [&] { return Reached<Memory>(sent, piece + 1); });
      if (ReadData<Memory>(&ring[piece % kPlaces]) != piece * 10) Memory::Fail("takes another piece");
      ReturnCredit<Memory>(credit, piece + 1);
    }
    return kFinished;
  });
  return world;
}

// Rank 0 sends rank 1 a chunk by TMA, rank 1 reads it by TMA. `engine`: a copy engine instead, between a kernel that
// meets and one that publishes.
template <class Memory>
World BulkWorld(const PartOptions& options, bool engine) {
  World world(2);
  for (int rank = 0; rank < 2; ++rank) world.AddControl(rank, options.start);
  uint64_t* staged = world.NewArray<uint64_t>(1, "staging", 1);
  world.AddThread(0, engine ? "stream" : "block", [=, view = world.view(0)] {
    Block<Memory> block(view, 0, 1, options.mutation);
    for (int number = 0; number < options.epochs; ++number) {
      Memory::Forget(number);
      if (!block.Enter({})) return block.ending();
      Memory::AsyncWrite(staged, block.epoch());
      if (options.mutation == Mutation::kWaitGroupRead) {
        Memory::AsyncWaitGroupRead();
      } else if (options.mutation != Mutation::kPublisherBesideCopy) {
        Memory::AsyncWaitGroup();  // of a copy engine: the order of the stream
      }
      RaiseWatermark<Memory>(view, 1, 0, block.epoch());
      Memory::AsyncWaitGroup();
      block.Leave();
    }
    return block.ending();
  });
  world.AddThread(1, "block", [=, view = world.view(1)] {
    Block<Memory> block(view, 0, 1, options.mutation);
    for (int number = 0; number < options.epochs; ++number) {
      Memory::Forget(number);
      if (!block.Enter({}) || !block.AwaitChunk(0, 0)) return block.ending();
      if (options.mutation != Mutation::kNoProxyFence) Memory::ProxyFence();
      if (Memory::AsyncRead(staged) != block.epoch()) Memory::Fail("reads data of another epoch");
      block.Leave();
    }
    return block.ending();
  });
  return world;
}

// A CTA of two threads on each rank: both write, thread 0 signals; thread 0 waits, both read.
template <class Memory>
World CtaWorld(const PartOptions& options) {
  constexpr int kThreads = 2;
  World world(2);
  Pointers staged;
  for (int rank = 0; rank < 2; ++rank) {
    world.AddControl(rank, options.start);
    staged.of[rank] = world.NewArray<uint64_t>(rank, "staging", kThreads);
  }
  for (int rank = 0; rank < 2; ++rank) {
    const int cta = world.AddBarrier(kThreads);
    auto* shared = world.NewArray<Sequence>(rank, "shared epoch", 1);
    for (int thread = 0; thread < kThreads; ++thread) {
      world.AddThread(rank, "thread " + std::to_string(thread), [=, view = world.view(rank)] {
        const int peer = 1 - view.rank;
        Block<Memory> block(view, 0, 1, options.mutation);
        for (int number = 0; number < options.epochs; ++number) {
          Memory::Forget(number);
          if (thread == 0) {
            block.Enter({});
            WriteData<Memory>(shared, block.epoch());
          }
          Memory::SyncThreads(cta);
          const Sequence epoch = ReadData<Memory>(shared);
          WriteData<Memory>(&staged.of[peer][thread], epoch * 10 + thread);
          if (options.mutation != Mutation::kNoCtaBarrier) Memory::SyncThreads(cta);
          if (thread == 0) {
            RaiseWatermark<Memory>(view, peer, 0, epoch);
            block.AwaitChunk(peer, 0);
          }
          Memory::SyncThreads(cta);
          if (ReadData<Memory>(&staged.of[view.rank][thread]) != epoch * 10 + thread) {
            Memory::Fail("reads data of another epoch");
          }
          Memory::SyncThreads(cta);
          if (thread == 0) block.Leave();
        }
        return kFinished;
      });
    }
  }
  return world;
}

// Two blocks of rank 1 write into a window of rank 0, then rank 1 lets go of its mapping and says so; rank 0 frees the
// window once it has heard. Two communicators of rank 0's process share the window: the last one frees it (P16).
template <class Memory>
World MappingWorld(const PartOptions& options) {
  constexpr int kUsers = 2;
  World world(2);
  for (int rank = 0; rank < 2; ++rank) world.AddControl(rank, 0);
  uint64_t* window = world.NewArray<uint64_t>(0, "window", kUsers);
  Sequence* acknowledged = world.NewArray<Sequence>(0, "acknowledged", 1);
  uint32_t* drained = world.NewArray<uint32_t>(1, "drained", 1);
  uint32_t* users = world.NewArray<uint32_t>(0, "users that are done", 1);
  for (int index = 0; index < kUsers; ++index) {
    world.AddThread(1, "block " + std::to_string(index), [=] {
      if (options.mutation == Mutation::kAcknowledgeBeforeDrain && index == 0) {
        Signal<Memory>(acknowledged, 1);
      }
      WriteData<Memory>(&window[index], uint64_t{7});
      if (Elect<Memory>(drained, kUsers)) Signal<Memory>(acknowledged, 1);
      return kFinished;
    });
    world.AddThread(0, "communicator " + std::to_string(index), [=, view = world.view(0)] {
      Block<Memory> block(view, 0, 1, options.mutation);
      const auto heard = [&] { return Reached<Memory>(acknowledged, 1); };
      if (options.mutation != Mutation::kUnmapBeforeAcknowledge) block.Await("the peer's acknowledgement", heard);
      if (options.mutation == Mutation::kUncountedMapping || Elect<Memory>(users, kUsers)) {
        for (int word = 0; word < kUsers; ++word) WriteData<Memory>(&window[word], ~uint64_t{0});  // freed
      }
      return kFinished;
    });
  }
  return world;
}

// Rank 1 takes part in one operator and destroys its communicator in good order; rank 0 calls one more.
template <class Memory>
World GoodbyeWorld(const PartOptions& options) {
  World world(2);
  for (int rank = 0; rank < 2; ++rank) world.AddControl(rank, options.start);
  world.AddThread(0, "thread", [=, view = world.view(0)]() -> uint64_t {
    Block<Memory> block(view, 0, 1, options.mutation);
    for (Sequence epoch = options.start + 1; epoch <= options.start + 2; ++epoch) {
      PublishEntry<Memory>(view, 1, epoch, EntryRecord{});
      const auto entered = [&] { return HasEntered<Memory>(view, 1, epoch); };
      bool saw_leave = false;
      const auto decided = [&] {
        if (entered()) return true;
        saw_leave = HasLeft<Memory>(view, 1);
        return saw_leave;
      };
      block.Await("rank 1 to enter or leave", decided);
      const bool gone = options.mutation == Mutation::kLeavingWins ? saw_leave : !entered();
      if (gone != (epoch == options.start + 2)) Memory::Fail("takes a rank that has entered for one that has left");
    }
    return kFinished;
  });
  world.AddThread(1, "thread", [=, view = world.view(1)]() -> uint64_t {
    Block<Memory> block(view, 0, 1, options.mutation);
    PublishEntry<Memory>(view, 0, options.start + 1, EntryRecord{});
    block.Await("rank 0 to enter", [&] { return HasEntered<Memory>(view, 0, options.start + 1); });
    Memory::StoreReleaseSys(&view.abort[0]->from[1].left, uint32_t{1});
    return kFinished;
  });
  return world;
}

}  // namespace tc::explorer
