// Many rounds of mixed operators with random delays on every rank: what goes wrong rarely and under load.
// TC_STRESS_ROUNDS sets the rounds of each test (default 2000).
#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <random>

#include "ranks.h"

namespace tc::test {
namespace {

constexpr size_t kMost = 257;  // elements of a rank's block, at most

int Rounds() {
  const char* text = std::getenv("TC_STRESS_ROUNDS");
  return text != nullptr ? std::atoi(text) : 2000;
}

// Now and then this rank comes late: not at all, a little, or by more than a whole operator takes.
void Dawdle(std::mt19937& random) {
  const unsigned dice = random() % 64;
  if (dice < 8) std::this_thread::yield();
  if (dice == 8) std::this_thread::sleep_for(std::chrono::microseconds(random() % 500));
}

int32_t Value(int round, int rank, size_t i) {
  return static_cast<int32_t>(round * 7919 + rank * 104729 + static_cast<int>(i));
}

// One rank's buffers, on the host backend or a GPU.
struct Buffers {
  Buffers(tcComm_t comm, int n_ranks)
      : mine(kMost),
        all(kMost * n_ranks),
        a(kMost),
        b(1, 1.0f),
        c(kMost * n_ranks),
        on_mine(comm, mine.data(), mine.size() * 4),
        on_all(comm, all.data(), all.size() * 4),
        on_a(comm, a.data(), a.size() * 4),
        on_b(comm, b.data(), 4),
        on_c(comm, c.data(), c.size() * 4) {}

  std::vector<int32_t> mine, all;
  std::vector<float> a, b, c;
  OnDevice on_mine, on_all, on_a, on_b, on_c;
};

void GatherRound(int round, int rank, int n_ranks, tcComm_t comm, size_t count, Buffers& buffers) {
  for (size_t i = 0; i < count; ++i) buffers.mine[i] = Value(round, rank, i);
  buffers.on_mine.Upload();
  TC_EXPECT_OK(tcAllGather(buffers.on_mine.get(), buffers.on_all.get(), count, tcInt32, comm, TestStream()));
  TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  buffers.on_all.Fetch();
  size_t wrong = 0;
  for (int peer = 0; peer < n_ranks; ++peer) {
    for (size_t i = 0; i < count; ++i) wrong += buffers.all[peer * count + i] != Value(round, peer, i);
  }
  ASSERT_EQ(wrong, 0u) << "gather of round " << round << " on rank " << rank;
}

// c = a * 1 with k = 1 and n = 1: every row of every rank, exactly.
void MultiplyRound(int round, int rank, int n_ranks, tcComm_t comm, size_t count, Buffers& buffers) {
  const auto value = [&](int peer, size_t i) { return static_cast<float>(Value(round, peer, i) % 8191); };
  for (size_t i = 0; i < count; ++i) buffers.a[i] = value(rank, i);
  buffers.on_a.Upload();
  TC_EXPECT_OK(tcFusedAllGatherGemm(buffers.on_a.get(), buffers.on_b.get(), buffers.on_c.get(), count * n_ranks, 1, 1,
                                    tcFloat32, nullptr, comm, TestStream()));
  TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  buffers.on_c.Fetch();
  size_t wrong = 0;
  for (int peer = 0; peer < n_ranks; ++peer) {
    for (size_t i = 0; i < count; ++i) wrong += buffers.c[peer * count + i] != value(peer, i);
  }
  ASSERT_EQ(wrong, 0u) << "product of round " << round << " on rank " << rank;
}

// The sum over the ranks in place, then each rank's share of it to every other.
void ReduceRound(int round, int rank, int n_ranks, tcComm_t comm, size_t count, Buffers& buffers) {
  const size_t whole = count * n_ranks;
  std::vector<int32_t> shares(whole);
  for (size_t i = 0; i < whole; ++i) buffers.all[i] = Value(round, rank, i);
  TC_EXPECT_OK(tcAllReduce(buffers.all.data(), buffers.all.data(), whole, tcInt32, tcMax, comm, TestStream()));
  TC_EXPECT_OK(tcAllToAll(buffers.all.data(), shares.data(), count, tcInt32, comm, TestStream()));
  TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  size_t wrong = 0;
  for (size_t i = 0; i < whole; ++i) {
    int32_t most = INT32_MIN;
    for (int peer = 0; peer < n_ranks; ++peer) most = std::max(most, Value(round, peer, i));
    wrong += buffers.all[i] != most;
    if (i / count != static_cast<size_t>(rank)) continue;
    for (int peer = 0; peer < n_ranks; ++peer) wrong += shares[peer * count + i % count] != most;
  }
  ASSERT_EQ(wrong, 0u) << "reduction of round " << round << " on rank " << rank;
}

class Stress : public ::testing::TestWithParam<int> {};

TEST_P(Stress, MixedOperatorsWithRandomDelaysStayExact) {
  const int n_ranks = GetParam();
  tcConfig_t config = TestConfig();
  config.entryTimeoutMs = 10'000;
  const auto body = [&](int rank, tcComm_t comm) {
    std::mt19937 common(42);                               // the same choices on every rank
    std::mt19937 own(static_cast<unsigned>(1000 + rank));  // delays of its own
    Buffers buffers(comm, n_ranks);
    Rendezvous();
    for (int round = 0; round < Rounds() && !::testing::Test::HasFatalFailure(); ++round) {
      const unsigned kind = common() % (OnGpu() ? 4 : 5);
      const size_t count = 1 + common() % kMost;
      Dawdle(own);
      if (kind == 0) {
        TC_EXPECT_OK(tcBarrier(comm, TestStream()));
      } else if (kind == 1) {
        MultiplyRound(round, rank, n_ranks, comm, count, buffers);
      } else if (kind == 4) {
        ReduceRound(round, rank, n_ranks, comm, count, buffers);
      } else {
        GatherRound(round, rank, n_ranks, comm, count, buffers);
      }
    }
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    Rendezvous();
  };
  RunRanks(Launch::kThreads, n_ranks, body, config);
}

INSTANTIATE_TEST_SUITE_P(Ranks, Stress, ::testing::Values(2, 3, 4, 5, 6, 7, 8),
                         [](const auto& param) { return std::to_string(param.param) + "ranks"; });

}  // namespace
}  // namespace tc::test
