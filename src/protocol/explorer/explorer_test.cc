#include "protocol/explorer/explorer.h"

#include <gtest/gtest.h>

#include "protocol/explorer/gather.h"

namespace tc::explorer {
namespace {

using M = ModelMemory;

void Expect(const char* name, const Scenario& s) {
  const Result r = Explore(s, {.seconds=60});
  std::printf("%-40s %9llu states %7.2f s %s outcomes %zu\n", name, (unsigned long long)r.states, r.seconds, r.complete ? "all" : "PART", r.outcomes.size());
  EXPECT_FALSE(r.failure) << *r.failure << "\n" << r.trace << r.choices;
}

TEST(Explorer, Quick) {
  const Operation barrier{Kind::kBarrier, 0, 1};
  Expect("barrier", [&] { return GatherWorld<M>({.ranks = 3, .operations = {barrier, barrier, barrier}}); });
  const Operation g{Kind::kGather, 2, 2};
  Expect("push", [&] { return GatherWorld<M>({.ranks = 2, .operations = {g, g}}); });
  Expect("push early", [&] { return GatherWorld<M>({.ranks = 2, .operations = {g, g}, .early=true}); });
}
}  // namespace
}  // namespace tc::explorer
