// Scenarios of an operator whose data a copy engine fetches: a kernel that meets the peers, stages and waits for what
// they have staged; copies; a kernel that hands out what has come, and ends the epoch.
#pragma once

#include <memory>
#include <string>

#include "protocol/explorer/block.h"
#include "protocol/explorer/explorer.h"

namespace tc::explorer {

struct CopiesOptions {
  int epochs = 2;
  Sequence start = 0;
  bool differ = false;  // in the first operator the ranks' shapes do
  Limits limits = Limits::kNever;
  int aborter = -1;  // a rank on which somebody calls tcCommAbort, at any time
  Mutation mutation = Mutation::kNone;
};

struct CopiesBuffers {
  static constexpr int kBlocks = 2;  // of each kernel; each has a word of its own to move
  uint64_t* staged[2] = {};          // in a rank's workspace
  uint64_t* fetched[2] = {};         // in another part of it
  uint64_t* recv[2] = {};            // the callers'
  int stream[2] = {};                // barrier: what is in a stream starts when what was before has ended
};

template <class Memory>
class CopiesRank {
 public:
  CopiesRank(const CopiesOptions& options, const CopiesBuffers& buffers, const RankView& view)
      : options_(options), buffers_(buffers), view_(view) {}

  // A block of both kernels.
  uint64_t RunBlock(int index) {
    uint64_t ending = kFinished;
    for (int number = 0; number < options_.epochs; ++number) {
      Memory::Forget(ending << 8 | static_cast<uint64_t>(number));
      Block<Memory> first(view_, index, CopiesBuffers::kBlocks, options_.mutation);
      Stage(first, number);
      EndKernel();  // the copies start
      EndKernel();  // and end
      Block<Memory> second(view_, index, CopiesBuffers::kBlocks, options_.mutation);
      const bool goes_on = second.Resume() || options_.mutation == Mutation::kVerdictNotResumed;
      if (goes_on) Copy(&buffers_.recv[view_.rank][index], &buffers_.fetched[view_.rank][index]);
      ending = second.ending();
      second.Leave();
      EndKernel();
      if (index == 0) Check(number);
    }
    return ending;
  }

  // The copy engine. What the stream before it has acquired it sees, and what it has written the stream behind it does.
  uint64_t RunEngine() {
    for (int number = 0; number < options_.epochs; ++number) {
      Memory::Forget(static_cast<uint64_t>(number));
      EndKernel();
      // Of a rank that has ended it fetches what nobody looks at.
      const bool ended = Memory::LoadRelaxed(&view_.local->dead) != 0;
      for (int word = 0; word < CopiesBuffers::kBlocks && !ended; ++word) {
        Copy(&buffers_.fetched[view_.rank][word], &buffers_.staged[1 - view_.rank][word]);
      }
      EndKernel();
      EndKernel();
    }
    return kFinished;
  }

 private:
  uint64_t Content(int rank, int number, int word) const {
    return (options_.start + static_cast<uint64_t>(number)) * 1000 + static_cast<uint64_t>(rank * 10 + word + 1);
  }
  void EndKernel() const { Memory::SyncThreads(buffers_.stream[view_.rank]); }
  static void Copy(uint64_t* to, const uint64_t* from) { WriteData<Memory>(to, ReadData<Memory>(from)); }

  void Stage(Block<Memory>& block, int number) const {
    OperatorShape shape;
    shape.op = tcOpAllGather;
    if (IsRefused(number)) shape.m = static_cast<uint64_t>(view_.rank);
    if (block.Enter(shape)) {
      const int peer = 1 - view_.rank;
      const int word = block.index();
      WriteData<Memory>(&buffers_.staged[view_.rank][word], Content(view_.rank, number, word));
      RaiseWatermark<Memory>(view_, peer, word, block.epoch());
      if (options_.mutation != Mutation::kCopyBeforeWait) block.AwaitChunk(peer, word);
    }
    if (options_.mutation == Mutation::kLeavesBeforeCopy) block.Leave();
  }

  bool IsRefused(int number) const { return options_.differ && number == 0; }

  // A refused operator has left everything as it was.
  void Check(int number) const {
    if (Memory::LoadRelaxed(&view_.local->dead) != 0) return;
    for (int word = 0; word < CopiesBuffers::kBlocks; ++word) {
      const uint64_t wanted = IsRefused(number) ? 0 : Content(1 - view_.rank, number, word);
      if (ReadData<Memory>(&buffers_.recv[view_.rank][word]) != wanted) Memory::Fail("its caller has other data");
    }
  }

  const CopiesOptions& options_;
  const CopiesBuffers& buffers_;
  RankView view_;
};

template <class Memory>
World CopiesWorld(const CopiesOptions& options) {
  constexpr int kBlocks = CopiesBuffers::kBlocks;
  World world(2, options.limits);
  auto buffers = std::make_shared<CopiesBuffers>();
  for (int rank = 0; rank < 2; ++rank) {
    world.AddControl(rank, options.start);
    // Something that no caller has asked for.
    buffers->staged[rank] = world.NewArray<uint64_t>(rank, "staged", kBlocks, uint64_t{666});
    buffers->fetched[rank] = world.NewArray<uint64_t>(rank, "fetched", kBlocks);
    buffers->recv[rank] = world.NewArray<uint64_t>(rank, "recv", kBlocks);
    buffers->stream[rank] = world.AddBarrier(kBlocks + 1);
  }
  const auto shared = std::make_shared<const CopiesOptions>(options);
  for (int rank = 0; rank < 2; ++rank) {
    const RankView view = world.view(rank);
    if (rank == options.aborter) {
      world.AddThread(rank, "aborting thread", [=]() -> uint64_t {
        PublishAbort<Memory>(view);
        return kFinished;
      });
    }
    for (int index = 0; index < kBlocks; ++index) {
      world.AddThread(rank, "block " + std::to_string(index),
                      [=] { return CopiesRank<Memory>(*shared, *buffers, view).RunBlock(index); });
    }
    world.AddThread(rank, "copy engine", [=] { return CopiesRank<Memory>(*shared, *buffers, view).RunEngine(); });
  }
  return world;
}

}  // namespace tc::explorer
