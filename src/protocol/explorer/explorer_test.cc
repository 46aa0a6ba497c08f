#include "protocol/explorer/explorer.h"

#include <gtest/gtest.h>

#include <cstdio>

#include "protocol/explorer/scenarios.h"

namespace tc::explorer {
namespace {

// As after a long life: sequence numbers cross 2^31 and 2^32 (P2).
constexpr Sequence kStarts[] = {0, (Sequence{1} << 31) - 2, (Sequence{1} << 32) - 2};

std::string Story(const Result& result) {
  return *result.failure + "\n" + result.trace + "choices for Replay: " + result.choices;
}

class Scenarios : public ::testing::TestWithParam<size_t> {};

TEST_P(Scenarios, HoldInEveryExecution) {
  const NamedScenario scenario = AllScenarios<ModelMemory>()[GetParam()];
  for (const Sequence start : kStarts) {
    const Result result = Explore([&] { return scenario.build(start, Mutation::kNone); }, {.states = 2'000'000});
    std::printf("%-60s from %10llu: %9llu states, %6.2f s\n", scenario.name.c_str(),
                static_cast<unsigned long long>(start), static_cast<unsigned long long>(result.states), result.seconds);
    ASSERT_FALSE(result.failure) << scenario.name << ": " << Story(result);
    EXPECT_TRUE(result.complete) << "not everything was explored";
  }
}

INSTANTIATE_TEST_SUITE_P(Explorer, Scenarios, ::testing::Range<size_t>(0, AllScenarios<ModelMemory>().size()));

// What the explorer leaves out (interleavings that cannot matter, what nobody can read any more) loses nothing: small
// scenarios without any reduction end in the same ways.
TEST(Explorer, ReductionsLoseNothing) {
  const Operation gather{Kind::kGather, 1, 1};
  const Operation barrier{Kind::kBarrier, 0, 1};
  const std::vector<Scenario> small = {
      [&] {
        return GatherWorld<ModelMemory>({.operations = {barrier, barrier}});
      },
      [&] { return GatherWorld<ModelMemory>({.operations = {gather}, .aborter = 1}); },
      [&] { return GatherWorld<ModelMemory>({.operations = {barrier}, .limits = Limits::kAnytime}); },
      [] { return CreditWorld<ModelMemory>({}); },
      [] { return BulkWorld<ModelMemory>({.epochs = 1}, false); },
      [] { return MappingWorld<ModelMemory>({}); },
      [] { return ExchangeWorld<ModelMemory, ModelMemory>({.chunks = 1, .blocks = 1, .registered = 0b01}); },
      [] { return ExchangeWorld<ModelMemory, ModelMemory>({.chunks = 1, .blocks = 1, .by_packets = true}); },
  };
  for (const Scenario& scenario : small) {
    const Result reduced = Explore(scenario);
    const Result unreduced = Explore(scenario, {.states = 1'000'000, .seconds = 10, .reduce = false});
    std::printf("reduced %llu states, unreduced %llu%s\n", static_cast<unsigned long long>(reduced.states),
                static_cast<unsigned long long>(unreduced.states), unreduced.complete ? "" : " and more");
    ASSERT_FALSE(reduced.failure) << Story(reduced);
    ASSERT_FALSE(unreduced.failure) << Story(unreduced);
    if (unreduced.complete) {
      EXPECT_EQ(reduced.outcomes, unreduced.outcomes);
    }
  }
}

// Larger than what can be exhausted: random executions, each a function of its seed.
TEST(Explorer, LargerConfigurationsHoldInRandomExecutions) {
  const Operation gather{Kind::kGather, 2, 2};
  const Operation claimed{Kind::kClaimed, 2, 2};
  const Operation barrier{Kind::kBarrier, 0, 1};
  const Operation broadcast{Kind::kBroadcast, 2, 1};
  const auto gathers = [](GatherOptions options) { return [options] { return GatherWorld<ModelMemory>(options); }; };
  const auto exchange = [](ExchangeOptions options) {
    return [options] { return ExchangeWorld<ModelMemory, ModelMemory>(options); };
  };
  const auto copies = [](CopiesOptions options) { return [options] { return CopiesWorld<ModelMemory>(options); }; };
  const struct {
    const char* name;
    Scenario scenario;
  } kCases[] = {
      {"push, 3 ranks, 3 epochs, 2 blocks, 2 chunks", gathers({.ranks = 3, .operations = {gather, gather, gather}})},
      {"the same, claimed, halves", gathers({.ranks = 3, .operations = {claimed, claimed, claimed}, .early = true})},
      {"mixed, 4 ranks", gathers({.ranks = 4, .operations = {gather, barrier, broadcast, claimed, gather}})},
      {"mixed, 4 ranks, halves",
       gathers({.ranks = 4, .operations = {claimed, gather, broadcast, gather}, .early = true})},
      {"abort, 3 ranks", gathers({.ranks = 3, .operations = {claimed, gather, barrier}, .aborter = 1})},
      {"overlap, 2 ranks", gathers({.operations = {claimed, {Kind::kBarrier, 0, 2}, barrier}, .overlap = true})},
      {"limits, 3 ranks", gathers({.ranks = 3, .operations = {gather, claimed}, .limits = Limits::kAnytime})},
      {"pull, staged, 3 epochs, 3 blocks, 3 chunks", exchange({.chunks = 3, .blocks = 3, .epochs = 3})},
      {"the same, one from its buffer", exchange({.chunks = 3, .blocks = 3, .epochs = 3, .registered = 0b01})},
      {"pull, 3 ranks, 2 from their buffers", exchange({.ranks = 3, .epochs = 3, .registered = 0b011})},
      {"pull, both from their buffers, limits",
       exchange({.epochs = 3, .registered = 0b11, .limits = Limits::kAnytime})},
      {"pull, both from their buffers, abort", exchange({.epochs = 3, .registered = 0b11, .aborter = 1})},
      {"in one shot, in place, 3 epochs", exchange({.chunks = 3, .epochs = 3, .in_place = true})},
      {"packets, 3 epochs, 3 blocks, 3 units", exchange({.chunks = 3, .blocks = 3, .epochs = 3, .by_packets = true})},
      {"packets, 3 ranks, 2 units, entered early",
       exchange({.ranks = 3, .epochs = 3, .by_packets = true, .early = true, .last_is_largest = true})},
      {"packets, in one shot, in place, 3 epochs",
       exchange({.chunks = 3, .epochs = 3, .in_place = true, .by_packets = true})},
      {"packets, limits at any time", exchange({.epochs = 3, .by_packets = true, .limits = Limits::kAnytime})},
      {"copy engine fetches, abort", copies({.epochs = 3, .differ = true, .aborter = 1})},
  };
  constexpr double kSecondsEach = 2;
  for (const auto& c : kCases) {
    const Result result = Wander(c.scenario, 1, 1'000'000, kSecondsEach);
    std::printf("%-60s seeds 1 ... %llu, %.1f s\n", c.name, static_cast<unsigned long long>(result.walks),
                result.seconds);
    ASSERT_FALSE(result.failure) << c.name << ", seed " << result.walks << ": " << Story(result);
  }
}

}  // namespace
}  // namespace tc::explorer
