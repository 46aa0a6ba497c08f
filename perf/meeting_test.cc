#include "meeting.h"

#include <gtest/gtest.h>

#include <thread>
#include <vector>

namespace tc::perf {
namespace {

TEST(MeetingTest, NobodyLeavesBeforeEverybodyIsThere) {
  constexpr int kRanks = 4;
  constexpr int kRounds = 50;
  Meeting meeting(kRanks);
  std::atomic<int> arrived = 0;
  std::atomic<int> early = 0;
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < kRanks; ++rank) {
    ranks.emplace_back([&] {
      for (int round = 1; round <= kRounds; ++round) {
        ++arrived;
        meeting.Meet();
        if (arrived < round * kRanks) ++early;
      }
    });
  }
  for (std::thread& rank : ranks) rank.join();
  EXPECT_EQ(early, 0);
}

}  // namespace
}  // namespace tc::perf
