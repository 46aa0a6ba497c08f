// The mutation gate: every mistake that a rule forbids is made once, and must be caught by the scenario named for it.
// A check that would not notice is no check.
#include <gtest/gtest.h>

#include <cstdio>
#include <set>

#include "order/tiles.h"
#include "protocol/explorer/scenarios.h"

namespace tc::explorer {
namespace {

// Mistakes in single accesses: policies that do one of them otherwise.
struct NoRelease : ModelMemory {
  template <class Word>
  static void StoreReleaseSys(Word* word, Word value) {
    StoreRelaxed(word, value);
  }
};
struct NoAcquire : ModelMemory {
  template <class Word>
  static Word LoadAcquireSys(const Word* word) {
    return LoadRelaxed(word);
  }
};
struct ReleaseOfDeviceScope : ModelMemory {
  template <class Word>
  static void StoreReleaseSys(Word* word, Word value) {
    StoreReleaseGpu(word, value);
  }
};
struct AcquireOfDeviceScope : ModelMemory {
  template <class Word>
  static Word LoadAcquireSys(const Word* word) {
    return LoadAcquireGpu(word);
  }
};
struct ElectionWithoutAcquire : ModelMemory {
  template <class Word>
  static Word AddAcqRelGpu(Word* word, Word value) {
    return AddReleaseGpu(word, value);
  }
};
struct ElectionWithoutRelease : ModelMemory {
  template <class Word>
  static Word AddAcqRelGpu(Word* word, Word value) {
    return AddAcquireGpu(word, value);
  }
};
struct GateWithoutRelease : ModelMemory {
  template <class Word>
  static Word AddReleaseGpu(Word* word, Word value) {
    return AddRelaxedGpu(word, value);
  }
};
struct VerdictWithoutAcquire : ModelMemory {
  template <class Word>
  static Word LoadAcquireGpu(const Word* word) {
    return LoadRelaxed(word);
  }
};
// Packets in two stores and two loads.
struct TornPacket : ModelMemory {
  static void StoreRelaxed(uint64_t* place, uint64_t packet) {
    auto* const halves = reinterpret_cast<uint32_t*>(place);
    ModelMemory::StoreRelaxed(&halves[0], static_cast<uint32_t>(packet));
    ModelMemory::StoreRelaxed(&halves[1], static_cast<uint32_t>(packet >> 32));
  }
  static uint64_t LoadRelaxed(const uint64_t* place) {
    const auto* const halves = reinterpret_cast<const uint32_t*>(place);
    const uint64_t tag = ModelMemory::LoadRelaxed(&halves[1]);
    return tag << 32 | ModelMemory::LoadRelaxed(&halves[0]);
  }
  template <class Word>
  static void StoreRelaxed(Word* word, Word value) {
    ModelMemory::StoreRelaxed(word, value);
  }
  template <class Word>
  static Word LoadRelaxed(const Word* word) {
    return ModelMemory::LoadRelaxed(word);
  }
};
// Sequence numbers of 32 bits: stored so, or compared so.
struct StoredNarrow : ModelMemory {
  template <class Word>
  static void StoreReleaseSys(Word* word, Word value) {
    ModelMemory::StoreReleaseSys(word, static_cast<Word>(static_cast<uint32_t>(value)));
  }
};
struct ComparedSigned : ModelMemory {
  template <class Word>
  static Word LoadAcquireSys(const Word* word) {
    return static_cast<Word>(static_cast<int64_t>(static_cast<int32_t>(ModelMemory::LoadAcquireSys(word))));
  }
};

constexpr Sequence kNear31 = (Sequence{1} << 31) - 2;
constexpr Sequence kNear32 = (Sequence{1} << 32) - 2;
constexpr Sequence kNearScrub = kScrubPeriod - 2;
constexpr Sequence kFarFromScrub = kScrubPeriod / 2;  // which takes whole packets

struct Case {
  const char* rule;
  const char* name;
  std::function<std::vector<NamedScenario>()> scenarios;
  Mutation mutation;
  const char* caught_by;  // the scenario
  const char* symptom;    // a part of its sentence
  Sequence start = 0;
};

template <class Memory>
Case ByPolicy(const char* rule, const char* name, const char* caught_by, const char* symptom, Sequence start = 0) {
  return {rule, name, AllScenarios<Memory>, Mutation::kNone, caught_by, symptom, start};
}
// The same in what exchanges move and signal alone.
template <class PieceMemory>
Case ByPiecePolicy(const char* rule, const char* name, const char* caught_by, const char* symptom, Sequence start = 0) {
  return {rule, name, AllScenarios<ModelMemory, PieceMemory>, Mutation::kNone, caught_by, symptom, start};
}
Case ByMistake(const char* rule, const char* name, Mutation mutation, const char* caught_by, const char* symptom,
               Sequence start = 0) {
  return {rule, name, AllScenarios<ModelMemory>, mutation, caught_by, symptom, start};
}

constexpr const char* kPush = "push with election, 2 ranks, 2 epochs, 2 blocks, 2 chunks";
constexpr const char* kPush3 = "push, 3 ranks, 2 epochs";
constexpr const char* kEarly = "the same, staging halves entered early";
constexpr const char* kBroadcastAhead = "broadcast, 3 ranks, 4 epochs, root ahead";
constexpr const char* kPull = "pull, staged, 2 epochs";
constexpr const char* kPullBuffer = "pull, from a caller's buffer, 2 epochs";
constexpr const char* kSilentReader = "pull, a reader never acknowledges";
constexpr const char* kRounds = "pushed in rounds of 2 chunks, 2 rounds";
constexpr const char* kFetch = "copy engine fetches, 2 epochs";
constexpr const char* kUnordered = "without being ordered after the write";
constexpr const char* kTooEarly = "before the last read";
constexpr const char* kPacketsEarly = "packets, entered early, 3 epochs";
constexpr const char* kOtherData = "has the data of another epoch or rank";
constexpr const char* kStuck = "a wait never ends";

std::vector<Case> Cases() {
  using Mistake = Mutation;
  return {
      ByMistake("P1", "two ranks store to one slot", Mistake::kTwoRanksOneSlot, kPush3, "a slot has one writer"),
      ByMistake("P1", "several blocks signal one chunk, each for its part", Mistake::kNoElection, kPush, kUnordered),
      ByPolicy<StoredNarrow>("P2", "sequence numbers stored as 32 bits", kPush, kStuck, kNear32),
      ByPolicy<ComparedSigned>("P2", "sequence numbers compared as signed 32 bits", kBroadcastAhead, "", kNear31),
      ByMistake("P2", "a slot is reset after use", Mistake::kSlotReset, kBroadcastAhead, kStuck),
      ByMistake("P2", "a wait for == instead of >=", Mistake::kWaitsForEqual, kBroadcastAhead, kStuck),
      ByMistake("P3", "the epoch is baked into the launch", Mistake::kEpochFromLaunch, kPush, ""),
      ByMistake("P3", "the first block advances the epoch", Mistake::kFirstBlockAdvancesEpoch, kPush, ""),
      ByMistake("P3", "counters are not zeroed", Mistake::kCountersNotZeroed, "push, chunks claimed by blocks, 1 chunk",
                ""),
      ByMistake("P3", "gates are not zeroed", Mistake::kGatesNotZeroed, "gates with padding", ""),
      ByPolicy<NoRelease>("P4", "the release dropped", kPush, kUnordered),
      ByPolicy<ReleaseOfDeviceScope>("P4", "a release of device scope", kPush, kUnordered),
      ByPolicy<AcquireOfDeviceScope>("P4", "an acquire of device scope", kPush, kUnordered),
      ByPolicy<ElectionWithoutAcquire>("P4", "the election's acquire dropped", kPush, kUnordered),
      ByPolicy<ElectionWithoutRelease>("P4", "the election's release dropped", kPush, kUnordered),
      ByPolicy<VerdictWithoutAcquire>("P4", "device-scope acquires dropped", kPush, ""),
      ByMistake("P4", "the signal before the data", Mistake::kSignalBeforeData, kPush, kUnordered),
      ByMistake("P4", "no CTA barrier before the signal", Mistake::kNoCtaBarrier, "CTA of two threads", ""),
      ByMistake("P5", "the peer's memory is polled", Mistake::kPollsThePeer, kPush, "only local memory is polled"),
      ByMistake("P6", "the flag goes through a third rank", Mistake::kFlagThroughThirdRank, kBroadcastAhead,
                kUnordered),
      ByMistake("P7", "wait_group.read before the release", Mistake::kWaitGroupRead, "bulk copies", kUnordered),
      ByMistake("P7", "no fence.proxy.async before the bulk load", Mistake::kNoProxyFence, "bulk copies", kUnordered),
      ByPolicy<NoAcquire>("P7", "a relaxed wait before the bulk load", "bulk copies", kUnordered),
      ByMistake("P7", "a publisher beside the copy engine's copy", Mistake::kPublisherBesideCopy, "copy engine",
                kUnordered),
      ByMistake("P8", "no entry wait, one buffer", Mistake::kNoEntryWait, kPush, ""),
      ByMistake("P8", "no entry wait, two halves", Mistake::kNoEntryWait, kBroadcastAhead, ""),
      ByMistake("P8", "one buffer where two are needed", Mistake::kOneBuffer, kEarly, kTooEarly),
      ByMistake("P8", "parity counted per block", Mistake::kParityPerBlock, "mixed, staging halves", ""),
      ByMistake("P8", "one entry record instead of two", Mistake::kOneEntryRecord, "barrier, 3 ranks, 3 epochs", ""),
      ByMistake("P8", "a bare entry looks like one with a record", Mistake::kBareEntryNotMarked,
                "mixed: gather, barrier, other gather", "refuses"),
      ByMistake("P9", "operators that overlap are not told apart", Mistake::kCallsNotTold,
                "two operators that nothing orders", "joins an operator"),
      ByMistake("P3", "the epoch is left before the copies", Mistake::kLeavesBeforeCopy, kFetch, ""),
      ByMistake("P3", "a later kernel does not look at the verdict", Mistake::kVerdictNotResumed,
                "the same, the first refused", "other data"),
      ByMistake("P4", "a watermark before the data is staged", Mistake::kSignalBeforeData, kPull, kUnordered),
      ByPiecePolicy<NoRelease>("P4", "a watermark of staged data without release", kPull, kUnordered),
      ByPiecePolicy<NoAcquire>("P4", "a relaxed wait for staged data", kPull, kUnordered),
      ByMistake("P4", "acknowledged by the first block that has read", Mistake::kAcknowledgeByFirst, kPullBuffer,
                kTooEarly),
      ByPiecePolicy<ElectionWithoutAcquire>("P4", "the last reader's election without acquire", kPullBuffer, kTooEarly),
      ByPiecePolicy<ElectionWithoutRelease>("P4", "the last reader's election without release", kPullBuffer, kTooEarly),
      ByMistake("P4", "the readers' count not zeroed", Mistake::kElectionNotZeroed, kPullBuffer, ""),
      ByMistake("P6", "an acknowledgement without release", Mistake::kAcknowledgeRelaxed, kPullBuffer, kTooEarly),
      ByMistake("P6", "an acknowledgement before the read", Mistake::kAcknowledgeBeforeRead, kPullBuffer, kTooEarly),
      ByMistake("P6", "the owner does not wait for its readers", Mistake::kNoReaderWait, kPullBuffer, "rank 0 send["),
      ByMistake("P6", "an acknowledgement of the epoch before is enough", Mistake::kAcknowledgementOfBefore,
                kPullBuffer, "rank 0 send["),
      ByMistake("P7", "the copy engine starts before the data has come", Mistake::kCopyBeforeWait, kFetch, ""),
      ByMistake("P8", "no entry wait, pulled from one workspace", Mistake::kNoEntryWait, kPull, "rank 0 workspace["),
      ByMistake("P8", "entered early, pulled from one workspace", Mistake::kEarlyOneBuffer, kPull, "rank 0 workspace["),
      ByMistake("P8", "no entry wait, fetched from one workspace", Mistake::kNoEntryWait, kFetch, "staged["),
      ByMistake("P8", "a chunk reduced in place while it is shared", Mistake::kReducedBesideShared,
                "all-reduce in one shot, in place, pulled", ""),
      ByMistake("P8", "the same, pushed", Mistake::kReducedBesideShared, "all-reduce in one shot, in place, pushed",
                ""),
      ByMistake("P10", "an unbounded wait, and a reader that never acknowledges", Mistake::kUnboundedWait,
                kSilentReader, kStuck),
      ByMistake("P10", "no time limit, and a reader that never acknowledges", Mistake::kNoTimeLimit, kSilentReader,
                kStuck),
      ByMistake("P8", "a round supplied where there is no room, pushed", Mistake::kNoCredit,
                "pushed in rounds of 1 chunk, 4 rounds, 2 epochs", ""),
      ByMistake("P8", "a round supplied where there is no room, pulled", Mistake::kNoCredit,
                "pulled in rounds of 1 chunk, 4 rounds, 2 epochs", ""),
      ByPiecePolicy<NoRelease>("P4", "a round's word without release", kRounds, ""),
      ByPiecePolicy<NoAcquire>("P4", "a relaxed wait for a round", kRounds, kUnordered),
      ByPiecePolicy<ElectionWithoutAcquire>("P4", "a round's election without acquire", kRounds, ""),
      ByPiecePolicy<ElectionWithoutRelease>("P4", "a round's election without release", kRounds, ""),
      ByMistake("P8", "a piece sent without credit", Mistake::kNoCredit, "credits, 5 pieces in a ring of 2", ""),
      ByMistake("P9", "roles by block index instead of arrival", Mistake::kRoleByIndex,
                "push, one block resident at a time", kStuck),
      ByMistake("P9", "units of packets by index instead of by claim", Mistake::kUnitsByStride,
                "packets, 3 units, one block resident at a time", kStuck),
      ByMistake("P10", "an unbounded wait, and an abort", Mistake::kUnboundedWait, "a rank dies, its abort word is set",
                kStuck),
      ByMistake("P10", "an unbounded wait, and a rank that never comes", Mistake::kUnboundedWait, "a rank never comes",
                kStuck),
      ByMistake("P10", "no time limit", Mistake::kNoTimeLimit, "a rank never comes", kStuck),
      ByMistake("P10", "the stall's code stored before its record", Mistake::kStallCodeBeforeRecord,
                "a rank never comes", ""),
      ByMistake("P10", "signals after giving up", Mistake::kSignalsAfterGivingUp, "time limits pass at any time", ""),
      ByMistake("P10", "a block gives up and does not say so", Mistake::kGivesUpSilently, "abort in mid-push", ""),
      ByMistake("P16", "a launch ends with a block that has no epoch", Mistake::kOutsideUncounted,
                "the same, then memory is freed", ""),
      ByMistake("P10", "a rank that entered, then left, counts as gone", Mistake::kLeavingWins,
                "a rank leaves in good order", "has entered"),
      ByMistake("P11", "the padding is not counted", Mistake::kNoPadding, "gates with padding", kStuck),
      ByMistake("P11", "a gate opened before the watermark has come", Mistake::kGateBeforeWatermark,
                "gates with padding", kUnordered),
      ByPolicy<GateWithoutRelease>("P11", "gates counted without release", "gates with padding", kUnordered),
      ByMistake("P11", "one watermark for two chunks, raised at the first", Mistake::kCoarseChunkEarly, kPush,
                kUnordered),
      ByMistake("P14", "shapes are not compared", Mistake::kNoComparison, "shapes differ", ""),
      ByPiecePolicy<TornPacket>("P15", "a torn packet", kPacketsEarly, kOtherData, kFarFromScrub),
      ByMistake("P15", "packets of all epochs in one place", Mistake::kOnePacketHalf, kPacketsEarly, kStuck),
      ByMistake("P8", "no entry wait, packets", Mistake::kNoEntryWait, kPacketsEarly, kStuck),
      ByMistake("P15", "packets are never scrubbed", Mistake::kNoScrub, kPacketsEarly, kOtherData, kNearScrub),
      ByMistake("P15", "packets scrubbed after the entry", Mistake::kScrubAfterEntry, kPacketsEarly, kStuck,
                kNearScrub),
      ByMistake("P10", "an unbounded wait, and a peer that sends no packet", Mistake::kUnboundedWait,
                "packets, a peer never sends", kStuck),
      ByMistake("P16", "a window freed before the acknowledgement", Mistake::kUnmapBeforeAcknowledge,
                "end of a mapping", kUnordered),
      ByMistake("P16", "an acknowledgement before the kernels have drained", Mistake::kAcknowledgeBeforeDrain,
                "end of a mapping", kUnordered),
      ByMistake("P16", "a shared mapping freed by its first user", Mistake::kUncountedMapping, "end of a mapping",
                kUnordered),
  };
}

const NamedScenario* Find(const std::vector<NamedScenario>& scenarios, const std::string& name) {
  for (const NamedScenario& scenario : scenarios) {
    if (scenario.name == name) return &scenario;
  }
  return nullptr;
}

class Mutations : public ::testing::TestWithParam<size_t> {};

TEST_P(Mutations, AreCaught) {
  const Case mistake = Cases()[GetParam()];
  const std::vector<NamedScenario> scenarios = mistake.scenarios();
  const NamedScenario* scenario = Find(scenarios, mistake.caught_by);
  ASSERT_NE(scenario, nullptr) << mistake.caught_by;
  const Scenario build = [&] { return scenario->build(mistake.start, mistake.mutation); };
  const Result result = Explore(build);
  ASSERT_TRUE(result.failure) << mistake.rule << " " << mistake.name << ": not caught by " << mistake.caught_by
                              << " in " << result.states << " states";
  EXPECT_NE(result.failure->find(mistake.symptom), std::string::npos) << *result.failure << "\n" << result.trace;
  const Result again = Replay(build, result.choices);
  ASSERT_TRUE(again.failure) << "does not replay: " << result.choices;
  EXPECT_EQ(*again.failure, *result.failure);
  std::printf("%-4s %-52s %s: %s\n", mistake.rule, mistake.name, mistake.caught_by, result.failure->c_str());
}

INSTANTIATE_TEST_SUITE_P(Explorer, Mutations, ::testing::Range<size_t>(0, Cases().size()));

// P12: a producer serves in each step the consumer who takes its rows in that step, and in a step nobody is served by
// two.
template <class Destination>
bool DeliversAsConsumed(const Destination& destination) {
  for (int n = 2; n <= kMaxRanks; ++n) {
    for (int step = 0; step + 1 < n; ++step) {
      std::set<int> served;
      for (int producer = 0; producer < n; ++producer) {
        const int consumer = destination(producer, step, n);
        served.insert(consumer);
        if (consumer == producer || ArrivalSource(consumer, step, n) != producer) return false;
      }
      if (served.size() != static_cast<size_t>(n)) return false;
    }
  }
  return true;
}

TEST(MutationsOfTables, P12DeliveryOrder) {
  EXPECT_TRUE(DeliversAsConsumed(PushDestination));
  EXPECT_FALSE(DeliversAsConsumed([](int rank, int step, int n) { return (rank + 1 + step) % n; }))
      << "other way round";
  EXPECT_FALSE(DeliversAsConsumed([](int rank, int step, int) { return step + (step >= rank); }))
      << "all to rank 0 first";
}

// P12: a consumer computes the row blocks in the order in which they come, its own first.
template <class Order>
bool ComputesAsDelivered(const Order& order) {
  constexpr uint64_t kBlocksOfRank = 3;
  constexpr uint64_t kCols = 2;
  for (int n = 1; n <= kMaxRanks; ++n) {
    for (int rank = 0; rank < n; ++rank) {
      const uint64_t tiles = n * kBlocksOfRank * kCols;
      std::set<std::pair<uint64_t, uint64_t>> seen;
      int last = 0;
      for (uint64_t index = 0; index < tiles; ++index) {
        const Tile tile = order(index, n * kBlocksOfRank, kCols, rank * kBlocksOfRank * kGateRows, uint64_t{kGateRows});
        seen.emplace(tile.row_block, tile.col_block);
        const int arrival = (static_cast<int>(tile.row_block / kBlocksOfRank) - rank + n) % n;
        if (arrival < last) return false;
        last = arrival;
      }
      if (seen.size() != tiles) return false;
    }
  }
  return true;
}

TEST(MutationsOfTables, P12TileOrder) {
  EXPECT_TRUE(ComputesAsDelivered(AllGatherTile));
  EXPECT_FALSE(ComputesAsDelivered([](uint64_t index, uint64_t, uint64_t cols, uint64_t, uint64_t) {
    return Tile{index / cols, index % cols};
  })) << "every rank from block 0 on";
}

// P14: words of different writers lie at least kWriterStride bytes apart.
struct Words {
  size_t first;  // offset of the first byte of writer 0
  size_t bytes;  // that a writer writes
  size_t stride;
};
bool WritersAreApart(const Words& words) {
  return words.first % kWriterStride == 0 && words.stride % kWriterStride == 0 && words.bytes <= words.stride;
}

TEST(MutationsOfTables, P14Layout) {
  EXPECT_TRUE(WritersAreApart({offsetof(ControlBlock, entry), sizeof(EntrySlot), sizeof(EntrySlot)}));
  EXPECT_TRUE(WritersAreApart({offsetof(ControlBlock, watermark), sizeof(WatermarkRow), sizeof(WatermarkRow)}));
  EXPECT_TRUE(WritersAreApart({offsetof(ControlBlock, packets), sizeof(PacketRow), sizeof(PacketRow)}));
  EXPECT_TRUE(WritersAreApart({offsetof(AbortBlock, from), sizeof(AbortSlot), sizeof(AbortSlot)}));
  EXPECT_EQ(alignof(ControlBlock) % kWriterStride, 0u);
  EXPECT_EQ(alignof(AbortBlock) % kWriterStride, 0u);
  struct Packed {
    Sequence from[kMaxRanks];
  };
  EXPECT_FALSE(WritersAreApart({0, sizeof(Sequence), sizeof(Packed::from[0])})) << "slots 8 bytes apart";
  EXPECT_FALSE(WritersAreApart({64, 64, 64})) << "slots 64 bytes apart";
}

// The scenario of the scrubbed packets holds when nothing is wrong with it.
TEST(Packets, AreScrubbedBeforeTheirTagsComeAgain) {
  const std::vector<NamedScenario> scenarios = AllScenarios<ModelMemory>();
  const NamedScenario* scenario = Find(scenarios, kPacketsEarly);
  ASSERT_NE(scenario, nullptr);
  const Result result = Explore([&] { return scenario->build(kNearScrub, Mutation::kNone); });
  EXPECT_FALSE(result.failure) << *result.failure << "\n" << result.trace;
  EXPECT_TRUE(result.complete);
}

}  // namespace
}  // namespace tc::explorer
