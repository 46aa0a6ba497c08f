// Mistakes that a scenario makes when it is asked to. Each breaks one rule of DESIGN's protocol; mutation_test.cc names
// the rule, and the scenario that must catch it.
#pragma once

namespace tc::explorer {

enum class Mutation {
  kNone,
  kTwoRanksOneSlot,
  kNoElection,
  kWaitsForEqual,
  kSlotReset,
  kEpochFromLaunch,
  kCountersNotZeroed,
  kFirstBlockAdvancesEpoch,
  kGatesNotZeroed,
  kSignalBeforeData,
  kNoCtaBarrier,
  kPollsThePeer,
  kFlagThroughThirdRank,
  kWaitGroupRead,
  kNoProxyFence,
  kPublisherBesideCopy,
  kNoEntryWait,
  kOneBuffer,
  kParityPerBlock,
  kOneEntryRecord,
  kBareEntryNotMarked,
  kCallsNotTold,
  kNoCredit,
  kRoleByIndex,
  kUnboundedWait,
  kNoTimeLimit,
  kStallCodeBeforeRecord,
  kSignalsAfterGivingUp,
  kGivesUpSilently,
  kOutsideUncounted,
  kLeavingWins,
  kNoPadding,
  kGateBeforeWatermark,
  kCoarseChunkEarly,
  kNoComparison,
  kTornPacket,
  kOnePacketHalf,
  kNoScrub,
  kScrubAfterEntry,
  kUnmapBeforeAcknowledge,
  kAcknowledgeBeforeDrain,
  kUncountedMapping,
};

}  // namespace tc::explorer
