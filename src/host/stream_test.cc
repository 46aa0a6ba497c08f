#include "host/stream.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <cfenv>
#include <cstdint>
#include <memory>
#include <mutex>
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

// Of sizes and alignments that do not fit each other.
TEST(Stream, LetsGoOfWhatATaskHoldsBeforeTheTaskCountsAsCompleted) {
  struct alignas(128) Wide {
    int number;
  };
  const auto held = std::make_shared<int>(7);
  std::atomic<int> sum{0}, astray{0};
  Stream stream;
  for (int i = 0; i < 1000; ++i) {
    stream.Enqueue([&, held] { sum += *held; });
    stream.Enqueue([&, held, wide = Wide{i}, filler = std::array<char, 1000>{}] {
      astray += reinterpret_cast<uintptr_t>(&wide) % alignof(Wide) != 0;
      sum += wide.number + filler[999];
    });
  }
  stream.Synchronize();
  EXPECT_EQ(held.use_count(), 1);
  EXPECT_EQ(sum, 1000 * 7 + 999 * 1000 / 2);
  EXPECT_EQ(astray, 0);
}

TEST(Stream, KeepsTheMemoryOfItsTasksAndNeedsNoMoreForAsMany) {
  Stream stream;
  const auto fill = [&](int tasks) {
    std::mutex held;
    std::unique_lock lock(held);
    stream.Enqueue([&] { std::lock_guard wait(held); });
    for (int i = 0; i < tasks; ++i) stream.Enqueue([filler = std::array<char, 300>{}] { (void)filler; });
    lock.unlock();
    stream.Synchronize();
    return stream.bytes();
  };
  const size_t grown = fill(1000);
  EXPECT_LE(grown, 1000 * 350 + (size_t{32} << 10));
  for (int round = 0; round < 20; ++round) EXPECT_EQ(fill(1000 - round), grown);
  EXPECT_GT(fill(2000), grown);
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
