#include "host/stream.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cfenv>
#include <vector>

#ifdef __SSE__
#include <xmmintrin.h>
#endif

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

// The sum of `a` and `b`, not known to the compiler.
float Sum(float a, float b) {
  const volatile float first = a;
  const volatile float second = b;
  return first + second;
}

TEST(Stream, ComputesTheSameWhateverItsMakersFloatingPointModes) {
  constexpr float kSubnormal = 0x1p-140f;
  constexpr float kTie = 0x1p-24f;  // 1 + this is 1 to nearest, more when rounded up
  float sums[2][2] = {};
  std::fenv_t before;
  std::fegetenv(&before);
  std::fesetround(FE_UPWARD);
#ifdef __SSE__
  _mm_setcsr(_mm_getcsr() | 0x8040);  // subnormals are zeros
  EXPECT_EQ(Sum(kSubnormal, kSubnormal), 0.0f);
#endif
  EXPECT_GT(Sum(1.0f, kTie), 1.0f);
  std::atomic<int> place{0};
  ThreadTeam team(1);
  team.Start();
  Stream stream;
  stream.Enqueue([&] {
    team.Run([&] {
      float* const sum = sums[place++];
      sum[0] = Sum(kSubnormal, kSubnormal);
      sum[1] = Sum(1.0f, kTie);
    });
  });
  stream.Synchronize();
  std::fesetenv(&before);
  for (const auto& sum : sums) {
    EXPECT_EQ(sum[0], 0x1p-139f);
    EXPECT_EQ(sum[1], 1.0f);
  }
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
