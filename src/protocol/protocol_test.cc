// The protocol's parts on CPU threads, each rank a set of threads over one shared block of memory.
#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <thread>
#include <vector>

#include "protocol/acknowledgement.h"
#include "protocol/cpu_memory.h"
#include "protocol/election.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"
#include "protocol/gate.h"
#include "protocol/packet.h"
#include "protocol/wait.h"
#include "protocol/watermark.h"

namespace tc {
namespace {

constexpr uint64_t kLimitNs = 20'000'000'000;

// Sequence numbers as after a long life: tests cross 2^31 and 2^32 (P2).
constexpr Sequence kStarts[] = {0, (Sequence{1} << 31) - 3, (Sequence{1} << 32) - 3};

class Ranks {
 public:
  explicit Ranks(int n, Sequence start = 0) {
    for (int rank = 0; rank < n; ++rank) {
      blocks_.push_back(std::make_unique<ControlBlock>());
      locals_.push_back(std::make_unique<LocalBlock>());
      locals_.back()->arrivals = start << kArrivalBits;
      aborts_.push_back(std::make_unique<AbortBlock>());
    }
  }
  RankView view(int rank) const {
    RankView view{.rank = rank, .n_ranks = static_cast<int>(blocks_.size()), .local = locals_[rank].get()};
    for (size_t peer = 0; peer < blocks_.size(); ++peer) {
      view.control[peer] = blocks_[peer].get();
      view.abort[peer] = aborts_[peer].get();
    }
    return view;
  }
  template <class Body>
  void Run(const Body& body) const {
    std::vector<std::thread> threads;
    for (size_t rank = 0; rank < blocks_.size(); ++rank) {
      threads.emplace_back([&, rank] { body(view(static_cast<int>(rank))); });
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  std::vector<std::unique_ptr<ControlBlock>> blocks_;
  std::vector<std::unique_ptr<LocalBlock>> locals_;
  std::vector<std::unique_ptr<AbortBlock>> aborts_;
};

TEST(Layout, WritersNeverShareALine) {
  const auto line = [](const void* word) { return reinterpret_cast<uintptr_t>(word) / kWriterStride; };
  const auto block = std::make_unique<ControlBlock>();
  const auto abort = std::make_unique<AbortBlock>();
  for (int writer = 1; writer < kMaxRanks; ++writer) {
    EXPECT_NE(line(&abort->from[writer].word), line(&abort->from[writer - 1].word));
    EXPECT_NE(line(&block->entry[writer].record[0]),
              line(reinterpret_cast<char*>(&block->entry[writer - 1].record[1]) + sizeof(EntryRecord) - 1));
    EXPECT_NE(line(&block->acknowledgement[writer].epoch), line(&block->acknowledgement[writer - 1].epoch));
    EXPECT_NE(line(&block->watermark[writer].chunk[0]), line(&block->watermark[writer - 1].chunk[kMaxChunks - 1]));
  }
}

TEST(Entry, CarriesItsRecordToEveryPeerInEveryEpoch) {
  for (const Sequence start : kStarts) {
    Ranks ranks(4, start);
    ranks.Run([](const RankView& view) {
      for (int round = 0; round < 300; ++round) {
        const Sequence epoch = EnterEpoch<CpuMemory>(*view.local);
        EntryRecord mine{};
        mine.shape.m = epoch * 10 + view.rank;
        mine.destination = {view.rank, epoch};
        mine.rejected = view.rank == 2 && round % 5 == 0 ? tcInvalidArgument : tcSuccess;
        std::snprintf(mine.sentence, sizeof(mine.sentence), "epoch %d", static_cast<int>(epoch % 1000));
        for (int peer = 0; peer < view.n_ranks; ++peer) PublishEntry<CpuMemory>(view, peer, epoch, mine);
        for (int peer = 0; peer < view.n_ranks; ++peer) {
          ASSERT_EQ(WaitUntil<CpuMemory>([&] { return HasEntered<CpuMemory>(view, peer, epoch); }, view, kLimitNs),
                    WaitResult::kReached);
        }
        for (int peer = 0; peer < view.n_ranks; ++peer) {
          const EntryRecord& seen = EntryOf(view, view.rank, peer, epoch);
          EXPECT_EQ(seen.shape.m, epoch * 10 + peer);
          EXPECT_EQ(seen.destination.window, peer);
          EXPECT_EQ(seen.destination.offset, epoch);
          if (seen.rejected != tcSuccess) {
            EXPECT_STREQ(seen.sentence, mine.sentence);
          }
        }
        LeaveEpoch<CpuMemory>(*view.local, epoch, 1, 0);
      }
      EXPECT_EQ(view.local->arrivals, (EnterEpoch<CpuMemory>(*view.local) - 1) << kArrivalBits);
    });
  }
}

// A push as the operators do it: data, then watermark; the consumer reads only behind it and hands on through gates.
TEST(Watermark, DataIsThereWhenItsWatermarkIs) {
  for (const Sequence start : kStarts) {
    constexpr int kRanks = 3;
    constexpr int kChunks = 5;
    constexpr int kWords = 64;
    Ranks ranks(kRanks, start);
    std::vector<std::vector<uint64_t>> memory(kRanks, std::vector<uint64_t>(kRanks * kChunks * kWords));
    ranks.Run([&](const RankView& view) {
      for (int round = 0; round < 100; ++round) {
        const Sequence epoch = EnterEpoch<CpuMemory>(*view.local);
        for (int peer = 0; peer < kRanks; ++peer) PublishEntry<CpuMemory>(view, peer, epoch, EntryRecord{});
        for (int peer = 0; peer < kRanks; ++peer) {
          WaitUntil<CpuMemory>([&] { return HasEntered<CpuMemory>(view, peer, epoch); }, view, kLimitNs);
        }
        for (int peer = 0; peer < kRanks; ++peer) {
          for (int chunk = 0; chunk < kChunks; ++chunk) {
            uint64_t* place = &memory[peer][(view.rank * kChunks + chunk) * kWords];
            for (int word = 0; word < kWords; ++word) place[word] = epoch * 1000 + view.rank * 100 + chunk;
            RaiseWatermark<CpuMemory>(view, peer, chunk, epoch);
          }
        }
        for (int producer = 0; producer < kRanks; ++producer) {
          for (int chunk = 0; chunk < kChunks; ++chunk) {
            const auto arrived = [&] { return HasArrived<CpuMemory>(view, producer, chunk, epoch); };
            ASSERT_EQ(WaitUntil<CpuMemory>(arrived, view, kLimitNs), WaitResult::kReached);
            const uint64_t* place = &memory[view.rank][(producer * kChunks + chunk) * kWords];
            for (int word = 0; word < kWords; ++word) {
              ASSERT_EQ(place[word], epoch * 1000 + producer * 100 + chunk);
            }
          }
        }
        LeaveEpoch<CpuMemory>(*view.local, epoch, 1, 0);
      }
    });
  }
}

// A pull as the operators do it: peers read the owner's own buffer, several threads each; the last of a rank's threads
// acknowledges for all, and then the owner writes there again.
TEST(Acknowledgement, ABufferIsWrittenAgainOnlyWhenAllHaveReadIt) {
  for (const Sequence start : kStarts) {
    constexpr int kRanks = 3;
    constexpr uint32_t kReaders = 2;
    constexpr int kWords = 64;
    Ranks ranks(kRanks, start);
    std::vector<std::vector<uint64_t>> buffer(kRanks, std::vector<uint64_t>(kWords));
    ranks.Run([&](const RankView& view) {
      for (int round = 0; round < 60; ++round) {
        const Sequence epoch = EnterEpoch<CpuMemory>(*view.local);
        for (uint64_t& word : buffer[view.rank]) word = epoch * 10 + view.rank;
        for (int peer = 0; peer < kRanks; ++peer) RaiseWatermark<CpuMemory>(view, peer, 0, epoch);
        std::vector<std::thread> readers;
        for (uint32_t reader = 0; reader < kReaders; ++reader) {
          readers.emplace_back([&, reader] {
            for (int owner = 0; owner < kRanks; ++owner) {
              const auto arrived = [&] { return HasArrived<CpuMemory>(view, owner, 0, epoch); };
              ASSERT_EQ(WaitUntil<CpuMemory>(arrived, view, kLimitNs), WaitResult::kReached);
              for (uint32_t word = reader; word < kWords; word += kReaders) {
                ASSERT_EQ(buffer[owner][word], epoch * 10 + owner);
              }
              if (Elect<CpuMemory>(&view.local->taken[owner], kReaders)) Acknowledge<CpuMemory>(view, owner, epoch);
            }
          });
        }
        for (int reader = 0; reader < kRanks; ++reader) {
          const auto read = [&] { return HasAcknowledged<CpuMemory>(view, reader, epoch); };
          ASSERT_EQ(WaitUntil<CpuMemory>(read, view, kLimitNs), WaitResult::kReached);
        }
        for (std::thread& thread : readers) thread.join();
        for (const uint32_t taken : view.local->taken) ASSERT_EQ(taken, 0u);
        LeaveEpoch<CpuMemory>(*view.local, epoch, 1, 0);
      }
    });
  }
}

TEST(Packet, IsKnownByItsEpochAloneAndTellsWhichItIsOf) {
  for (const Sequence epoch : {Sequence{1}, kPacketTags - 1, kPacketTags, kPacketTags + 1, 2 * kPacketTags + 5}) {
    const uint64_t packet = MakePacket(epoch, 0xfedcba98);
    EXPECT_TRUE(IsPacketOf(packet, epoch));
    EXPECT_EQ(PacketData(packet), 0xfedcba98u);
    EXPECT_EQ(PacketEpoch(packet, epoch), epoch);
    for (const Sequence later : {epoch + 1, epoch + 2, epoch + kScrubPeriod}) {
      EXPECT_FALSE(IsPacketOf(packet, later));
      EXPECT_EQ(PacketEpoch(packet, later), epoch);
    }
    EXPECT_FALSE(IsPacketOf(0, epoch));
    EXPECT_EQ(PacketEpoch(0, epoch), 0u);
  }
}

TEST(Packet, ScrubbingEmptiesTheHalfOfTheEpochBeforeAndNoOther) {
  Ranks ranks(3);
  const RankView view = ranks.view(1);
  for (int writer = 0; writer < 3; ++writer) {
    for (const Sequence epoch : {7, 8}) {
      for (int i = 0; i < kMostPackets; ++i) PacketHalf(view, 1, writer, epoch)[i] = MakePacket(epoch, 1);
    }
  }
  ScrubPackets<CpuMemory>(view, 8);
  for (int writer = 0; writer < 3; ++writer) {
    for (int i = 0; i < kMostPackets; ++i) {
      ASSERT_EQ(PacketHalf(view, 1, writer, 7)[i], 0u);
      ASSERT_EQ(PacketHalf(view, 1, writer, 8)[i], MakePacket(8, 1));
    }
  }
}

TEST(Gate, OpensWhenTheLastRowOfItsBlockHasComeAndNotBefore) {
  const auto local = std::make_unique<LocalBlock>();
  OpenGates<CpuMemory>(*local, 300, 384);  // the padding of 300 rows
  OpenGates<CpuMemory>(*local, 0, 100);
  OpenGates<CpuMemory>(*local, 200, 300);
  for (uint64_t block = 0; block < 2; ++block) EXPECT_FALSE(GateIsOpen<CpuMemory>(*local, block));
  EXPECT_TRUE(GateIsOpen<CpuMemory>(*local, 2));
  OpenGates<CpuMemory>(*local, 100, 199);
  EXPECT_TRUE(GateIsOpen<CpuMemory>(*local, 0));
  EXPECT_FALSE(GateIsOpen<CpuMemory>(*local, 1));
  OpenGates<CpuMemory>(*local, 199, 200);
  EXPECT_TRUE(GateIsOpen<CpuMemory>(*local, 1));
}

TEST(Epoch, TheLastThreadAloneAdvancesItAndZeroesTheCounters) {
  constexpr uint32_t kThreads = 6;
  const auto local = std::make_unique<LocalBlock>();
  for (Sequence epoch = 1; epoch <= 200; ++epoch) {
    std::atomic<int> last{0};
    std::atomic<uint32_t> ticket_sum{0};
    std::atomic<uint32_t> tiles{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        const Arrival arrival = Arrive<CpuMemory>(*local);
        ticket_sum += arrival.ticket;
        EXPECT_EQ(arrival.epoch, epoch);
        while (ClaimTile<CpuMemory>(*local) < 50) ++tiles;
        OpenGates<CpuMemory>(*local, 0, 500);
        if (LeaveEpoch<CpuMemory>(*local, epoch, kThreads, 4)) ++last;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(last, 1);
    EXPECT_EQ(ticket_sum, kThreads * (kThreads - 1) / 2);
    EXPECT_EQ(tiles, 50u);
    EXPECT_EQ(local->arrivals, epoch << kArrivalBits);
    EXPECT_EQ(local->tiles + local->finished + local->gate[0] + local->gate[3], 0u);
  }
}

TEST(Epoch, AVerdictIsForItsOwnOperatorAlone) {
  LocalBlock local{};
  uint32_t verdict = 0;
  EXPECT_FALSE(ReadVerdict<CpuMemory>(local, 1, 7, &verdict));
  PostVerdict<CpuMemory>(local, 1, 7, 1);
  ASSERT_TRUE(ReadVerdict<CpuMemory>(local, 1, 7, &verdict));
  EXPECT_EQ(verdict, 1u);
  ASSERT_TRUE(ReadVerdict<CpuMemory>(local, 1, 8, &verdict));
  EXPECT_EQ(verdict, kOverlaps) << "another operator has spoken for the epoch";
  EXPECT_FALSE(ReadVerdict<CpuMemory>(local, 2, 8, &verdict));
  for (const uint64_t block : {0, 1}) EXPECT_EQ(Arrive<CpuMemory>(local).ticket, block);
  EXPECT_TRUE(LeaveEpoch<CpuMemory>(local, 2, 1, 0));
  ASSERT_TRUE(ReadVerdict<CpuMemory>(local, 2, 8, &verdict));
  EXPECT_EQ(verdict, kOverlaps) << "the epoch has ended without this block";
}

// An operator of two kernels: the threads of the second agree on the epoch and the verdict of the first, and end it.
TEST(Epoch, ALaterKernelResumesWhatAnEarlierOneHasLeftOpen) {
  constexpr uint32_t kThreads = 4;
  constexpr uint64_t kCall = 7;
  const auto local = std::make_unique<LocalBlock>();
  for (Sequence epoch = 1; epoch <= 100; ++epoch) {
    const uint32_t found = epoch % 2;
    for (const uint64_t ticket : {0, 1}) EXPECT_EQ(Arrive<CpuMemory>(*local).ticket, ticket);
    PostVerdict<CpuMemory>(*local, epoch, kCall, found);
    std::atomic<int> last{0};
    std::vector<std::thread> threads;
    for (uint32_t i = 0; i < kThreads; ++i) {
      threads.emplace_back([&] {
        Sequence resumed = 0;
        uint32_t verdict = kVerdicts;
        EXPECT_TRUE(ResumeEpoch<CpuMemory>(*local, kCall, &resumed, &verdict));
        EXPECT_EQ(resumed, epoch);
        EXPECT_EQ(verdict, found);
        if (LeaveEpoch<CpuMemory>(*local, resumed, kThreads, 0)) ++last;
      });
    }
    for (std::thread& thread : threads) thread.join();
    EXPECT_EQ(last, 1);
    EXPECT_EQ(local->arrivals, epoch << kArrivalBits);
  }
  Sequence epoch = 0;
  uint32_t verdict = 0;
  EXPECT_FALSE(ResumeEpoch<CpuMemory>(*local, kCall, &epoch, &verdict)) << "the first kernel was left out";
  Arrive<CpuMemory>(*local);
  EXPECT_FALSE(ResumeEpoch<CpuMemory>(*local, kCall, &epoch, &verdict)) << "no verdict, so nobody has met the peers";
  PostVerdict<CpuMemory>(*local, 101, kCall, 0);
  ASSERT_TRUE(ResumeEpoch<CpuMemory>(*local, kCall + 1, &epoch, &verdict));
  EXPECT_EQ(verdict, kOverlaps) << "another operator's epoch";
  local->dead = 1;
  EXPECT_FALSE(ResumeEpoch<CpuMemory>(*local, kCall, &epoch, &verdict)) << "the communicator has ended";
}

TEST(Wait, WarnsWhileItWaits) {
  Ranks ranks(1);
  std::vector<uint64_t> warned;
  const auto warn = [&](uint64_t waited) { warned.push_back(waited); };
  const auto never = [] { return false; };
  EXPECT_EQ(WaitUntil<CpuMemory>(never, ranks.view(0), 7'000'000, 2'000'000, warn), WaitResult::kTimedOut);
  EXPECT_EQ(warned, (std::vector<uint64_t>{2'000'000, 4'000'000, 6'000'000}));
  EXPECT_EQ(WaitUntil<CpuMemory>([&] { return warned.size() > 3; }, ranks.view(0), UINT64_MAX, 1'000'000, warn),
            WaitResult::kReached);
  EXPECT_EQ(warned.size(), 4u);
}

TEST(Wait, EndsByAbortAndByTimeLimit) {
  Ranks ranks(3);
  EXPECT_EQ(WaitUntil<CpuMemory>([] { return false; }, ranks.view(0), 1'000'000), WaitResult::kTimedOut);
  EXPECT_EQ(AbortedBy<CpuMemory>(ranks.view(0)), -1);
  std::thread aborter([&] { PublishAbort<CpuMemory>(ranks.view(2)); });
  EXPECT_EQ(WaitUntil<CpuMemory>([] { return false; }, ranks.view(0), kLimitNs), WaitResult::kAborted);
  aborter.join();
  EXPECT_EQ(AbortedBy<CpuMemory>(ranks.view(1)), 2);
  EXPECT_EQ(WaitUntil<CpuMemory>([] { return true; }, ranks.view(0), 0), WaitResult::kReached);
}

}  // namespace
}  // namespace tc
