#include "statistics.h"

#include <gtest/gtest.h>

namespace tc::perf {
namespace {

TEST(StatisticsTest, MedianOfOddAndEvenCounts) {
  EXPECT_EQ(Summarize({5}).median, 5);
  EXPECT_EQ(Summarize({9, 1, 5}).median, 5);
  EXPECT_EQ(Summarize({9, 1, 5, 6}).median, 5.5);
}

TEST(StatisticsTest, P99IsTheValueThat99PercentDoNotExceed) {
  EXPECT_EQ(Summarize({7}).p99, 7);
  std::vector<double> values;
  for (int i = 1; i <= 100; ++i) values.push_back(i);
  EXPECT_EQ(Summarize(values).p99, 99);
  values.push_back(101);
  EXPECT_EQ(Summarize(values).p99, 100);
  values.resize(20);
  EXPECT_EQ(Summarize(values).p99, 20);
}

TEST(StatisticsTest, AnIterationTakesAsLongAsItsSlowestRank) {
  EXPECT_EQ(MaxOverRanks({{1, 9, 3}, {4, 2, 3}}), std::vector<double>({4, 9, 3}));
}

}  // namespace
}  // namespace tc::perf
