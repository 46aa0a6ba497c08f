// tcAllGather, tcBarrier and tcMemcpyAsync from outside.
#include <atomic>
#include <chrono>
#include <cstring>

#include "ranks.h"

namespace tc::test {
namespace {

constexpr size_t kWorkspace = 96 * 1024;  // small: larger gathers go in slabs

tcConfig_t SmallWorkspace() {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = kWorkspace;
  return config;
}

unsigned char ByteOf(int rank, size_t index, int round) {
  return static_cast<unsigned char>(rank * 57 + index * 31 + (index >> 8) * 7 + round * 101 + 3);
}

// One gather of `count` elements into recv, whose host copy is `image`; out of place when `send` is not NULL. One byte
// behind recv's last is watched.
void Gather(int rank, int n_ranks, tcComm_t comm, char* recv, char* send, size_t count, tcDataType_t type,
            size_t element, int round) {
  const size_t bytes = count * element;
  std::vector<unsigned char> image(bytes * n_ranks + 1, 0xEE);
  std::vector<unsigned char> mine(bytes + 1);
  for (size_t i = 0; i < bytes; ++i) mine[i] = ByteOf(rank, i, round);
  CopyWindow(comm, recv, image.data(), image.size());
  if (send == nullptr) send = recv + rank * bytes;
  CopyWindow(comm, send, mine.data(), bytes);
  TC_EXPECT_OK(tcAllGather(send, recv, count, type, comm, TestStream()));
  TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  CopyWindow(comm, image.data(), recv, image.size());
  size_t wrong = 0;
  for (int peer = 0; peer < n_ranks; ++peer) {
    for (size_t i = 0; i < bytes; ++i) wrong += image[peer * bytes + i] != ByteOf(peer, i, round);
  }
  EXPECT_EQ(wrong, 0u) << count << " elements of type " << type << " on rank " << rank;
  EXPECT_EQ(image[bytes * n_ranks], 0xEE) << "wrote past recvbuff";
}

class AllGather : public ::testing::TestWithParam<std::tuple<Launch, int>> {};

TEST_P(AllGather, IsExactForEveryTypeAndSizeInPlaceOutOfPlacePlainAndRegistered) {
  const auto [launch, n_ranks] = GetParam();
  RunRanks(
      launch, n_ranks,
      [n = n_ranks](int rank, tcComm_t comm) {
        constexpr std::pair<tcDataType_t, size_t> kTypes[] = {
            {tcInt8, 1},    {tcUint8, 1},   {tcInt32, 4},   {tcUint32, 4},   {tcInt64, 8},      {tcUint64, 8},
            {tcFloat16, 2}, {tcFloat32, 4}, {tcFloat64, 8}, {tcBfloat16, 2}, {tcFloat8e4m3, 1}, {tcFloat8e5m2, 1}};
        constexpr size_t kMost = 100'003 * 8;
        void* memory = nullptr;
        tcWindow_t window = nullptr;
        TC_EXPECT_OK(tcMemAlloc(&memory, kMost * n + 64));
        TC_EXPECT_OK(tcCommRegister(comm, memory, kMost * n + 64, &window));
        auto* registered = static_cast<char*>(memory);
        std::vector<char> plain_host(kMost * n + 64), source_host(kMost);
        const OnDevice plain(comm, plain_host.data(), plain_host.size());
        const OnDevice source(comm, source_host.data(), source_host.size());
        int round = 0;
        for (const auto& [type, element] : kTypes) {
          for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{1023}, size_t{100'003}}) {
            if (count > 50'000 && type != tcInt8 && type != tcFloat64) continue;
            for (char* recv : {static_cast<char*>(plain.get()), registered + 8}) {
              Gather(rank, n, comm, recv, static_cast<char*>(source.get()), count, type, element, ++round);
              Gather(rank, n, comm, recv, nullptr, count, type, element, ++round);
            }
          }
        }
        TC_EXPECT_OK(tcCommDeregister(comm, window));
        TC_EXPECT_OK(tcMemFree(memory));
      },
      SmallWorkspace());
}

TEST_P(AllGather, RanksMayDifferInRegistrationAndOffset) {
  const auto [launch, n_ranks] = GetParam();
  RunRanks(
      launch, n_ranks,
      [n = n_ranks](int rank, tcComm_t comm) {
        constexpr size_t kCount = 30'011;
        const size_t bytes = kCount * n + 4096;
        void* memory = nullptr;
        tcWindow_t window = nullptr;
        TC_EXPECT_OK(tcMemAlloc(&memory, bytes));
        TC_EXPECT_OK(tcCommRegister(comm, memory, bytes, &window));
        std::vector<char> plain_host(bytes), source_host(kCount);
        const OnDevice plain(comm, plain_host.data(), bytes);
        const OnDevice source(comm, source_host.data(), kCount);
        char* recv = rank % 2 == 0 ? static_cast<char*>(memory) + 13 * rank : static_cast<char*>(plain.get()) + rank;
        for (int round = 0; round < 4; ++round) {
          Gather(rank, n, comm, recv, static_cast<char*>(source.get()), kCount, tcUint8, 1, round);
        }
        TC_EXPECT_OK(tcCommDeregister(comm, window));
        TC_EXPECT_OK(tcMemFree(memory));
      },
      SmallWorkspace());
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllGather,
                         ::testing::Combine(::testing::Values(Launch::kThreads, Launch::kProcesses, Launch::kIsolated),
                                            ::testing::Values(1, 2, 3, 5, 8)),
                         [](const auto& param) {
                           return std::string(LaunchName(std::get<0>(param.param))) +
                                  std::to_string(std::get<1>(param.param));
                         });

TEST(Barrier, NobodyLeavesBeforeTheLastHasCome) {
  constexpr int kRanks = 5;
  std::atomic<int> arrived{0};
  RunRanks(Launch::kThreads, kRanks, [&](int rank, tcComm_t comm) {
    for (int round = 1; round <= 50; ++round) {
      if ((rank + round) % kRanks == 0) std::this_thread::sleep_for(std::chrono::microseconds(300));
      ++arrived;
      TC_EXPECT_OK(tcBarrier(comm, TestStream()));
      TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
      EXPECT_GE(arrived, round * kRanks);
      TC_EXPECT_OK(tcBarrier(comm, TestStream()));
      TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    }
  });
}

TEST(Streams, CopiesAndOperatorsOfOneStreamRunInOrder) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    tcStream_t stream = nullptr;
    TC_EXPECT_OK(tcStreamCreate(comm, &stream));
    std::vector<int32_t> values(1000);
    for (int i = 0; i < 1000; ++i) values[i] = rank * 1000 + i;
    int32_t mine_host = -1;
    int32_t all_host[2] = {};
    std::vector<int32_t> seen(2000);
    const OnDevice mine(comm, &mine_host, sizeof(mine_host)), all(comm, all_host, sizeof(all_host));
    for (int i = 0; i < 1000; ++i) {
      TC_EXPECT_OK(tcMemcpyAsync(comm, mine.get(), &values[i], sizeof(mine_host), stream));
      TC_EXPECT_OK(tcAllGather(mine.get(), all.get(), 1, tcInt32, comm, stream));
      TC_EXPECT_OK(tcMemcpyAsync(comm, &seen[2 * i], all.get(), sizeof(all_host), stream));
    }
    TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
    for (int i = 0; i < 1000; ++i) {
      EXPECT_EQ(seen[2 * i], i);
      EXPECT_EQ(seen[2 * i + 1], 1000 + i);
    }
    TC_EXPECT_OK(tcStreamDestroy(comm, stream));
  });
}

}  // namespace
}  // namespace tc::test
