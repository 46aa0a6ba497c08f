#include "host/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <vector>

#include "host/thread_team.h"

namespace tc::host {
namespace {

TEST(Stream, RunsTasksInOrder) {
  std::vector<int> order;
  Stream stream;
  for (int i = 0; i < 1000; ++i) stream.Enqueue([&, i] { order.push_back(i); });
  stream.Synchronize();
  ASSERT_EQ(order.size(), 1000u);
  for (int i = 0; i < 1000; ++i) EXPECT_EQ(order[i], i);
}

TEST(Stream, CompletesItsTasksBeforeItIsDestroyed) {
  std::atomic<int> done{0};
  {
    Stream stream;
    for (int i = 0; i < 100; ++i) stream.Enqueue([&] { ++done; });
  }
  EXPECT_EQ(done, 100);
}

TEST(ThreadTeam, RunsTheWorkOncePerMemberAndWaitsForAll) {
  ThreadTeam team(3);
  for (int round = 0; round < 500; ++round) {
    std::atomic<int> calls{0};
    team.Run([&] { ++calls; });
    EXPECT_EQ(calls, team.size());
  }
}

}  // namespace
}  // namespace tc::host
