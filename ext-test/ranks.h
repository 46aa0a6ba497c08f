// Runs the ranks of a communicator, each through its own tcInitComm, as threads of this process or as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <barrier>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "device.h"
#include "tc.h"

namespace tc::test {

#define TC_EXPECT_OK(call)                                                        \
  do {                                                                            \
    const tcResult_t tc_result_ = (call);                                         \
    EXPECT_EQ(tc_result_, tcSuccess) << #call << ": " << tcGetLastError(nullptr); \
  } while (false)

// `call` fails with `code`, and the thread's last error contains `words`.
#define EXPECT_FAILS(call, code, words)                                            \
  do {                                                                             \
    EXPECT_EQ((call), (code)) << #call;                                            \
    EXPECT_NE(std::string(tcGetLastError(nullptr)).find(words), std::string::npos) \
        << #call << " said: " << tcGetLastError(nullptr);                          \
  } while (false)

// kIsolated: processes that each see one GPU, as device 0; plain processes on the host backend.
enum class Launch { kThreads, kProcesses, kIsolated };

inline const char* LaunchName(Launch launch) {
  return launch == Launch::kThreads ? "threads" : launch == Launch::kProcesses ? "processes" : "isolated";
}

// Small and impatient, so that a hang shows in seconds.
inline tcConfig_t TestConfig() {
  tcConfig_t config;
  TC_CONFIG_INIT(&config);
  config.backend = OnGpu() ? tcBackendCuda : tcBackendHost;
  config.workspaceBytes = size_t{16} << 20;
  config.timeoutMs = 60'000;
  config.entryTimeoutMs = 60'000;
  return config;
}

// Ranks that are threads wait here for each other. An allocation may wait until the GPU is idle, so ranks that share
// one must not allocate while another's operator waits for theirs.
inline std::barrier<>*& ThreadBarrier() {
  static std::barrier<>* barrier = nullptr;
  return barrier;
}
inline void Rendezvous() {
  if (ThreadBarrier() != nullptr) ThreadBarrier()->arrive_and_wait();
}

using RankBody = std::function<void(int rank, tcComm_t comm)>;

inline void RunRank(int n_ranks, const tcUniqueId& id, int rank, const tcConfig_t& config, const RankBody& body) {
  tcComm_t comm = nullptr;
  tcConfig_t own = config;
#ifdef TC_TEST_CUDA
  if (OnGpu() && std::getenv("CUDA_VISIBLE_DEVICES") == nullptr) own.device = rank % GpuCount();
  if (own.device >= 0) {
    ASSERT_EQ(cudaSetDevice(own.device), cudaSuccess);
  }
#endif
  const tcResult_t joined = tcInitComm(&comm, n_ranks, &id, rank, &own);
  ASSERT_EQ(joined, tcSuccess) << tcGetLastError(nullptr);
  TestStream() = nullptr;
  if (OnGpu()) TC_EXPECT_OK(tcStreamCreate(comm, &TestStream()));
  body(rank, comm);
  if (OnGpu()) TC_EXPECT_OK(tcStreamDestroy(comm, TestStream()));
  TC_EXPECT_OK(tcCommDestroy(comm));
}

// A failed expectation in any rank fails the test, also when the rank is another process.
inline void RunRanks(Launch launch, int n_ranks, const RankBody& body, const tcConfig_t& config = TestConfig()) {
  if (OnGpu() && GpuCount() == 0) GTEST_SKIP() << "no GPU";
  if (OnGpu() && launch != Launch::kThreads && n_ranks > GpuCount()) GTEST_SKIP() << "a GPU for each process is needed";
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  if (launch == Launch::kThreads) {
    std::barrier<> barrier(n_ranks);
    ThreadBarrier() = &barrier;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
      threads.emplace_back([&, rank] { RunRank(n_ranks, id, rank, config, body); });
    }
    for (std::thread& thread : threads) thread.join();
    ThreadBarrier() = nullptr;
    return;
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < n_ranks; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
      if (launch == Launch::kIsolated) ::setenv("CUDA_VISIBLE_DEVICES", std::to_string(rank).c_str(), 1);
      RunRank(n_ranks, id, rank, config, body);
      ::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    }
    children.push_back(child);
  }
  for (int rank = 0; rank < n_ranks; ++rank) {
    int status = 0;
    ASSERT_EQ(::waitpid(children[rank], &status, 0), children[rank]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the process of rank " << rank << " failed";
  }
}

}  // namespace tc::test
