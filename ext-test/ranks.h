// Runs the ranks of a communicator, each through its own tcInitComm, as threads of this process or as processes.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "tc.h"

namespace tc::test {

#define TC_EXPECT_OK(call)                                                        \
  do {                                                                            \
    const tcResult_t tc_result_ = (call);                                         \
    EXPECT_EQ(tc_result_, tcSuccess) << #call << ": " << tcGetLastError(nullptr); \
  } while (false)

enum class Launch { kThreads, kProcesses };

inline const char* LaunchName(Launch launch) { return launch == Launch::kThreads ? "threads" : "processes"; }

// The host backend, small and impatient, so that a hang shows in seconds.
inline tcConfig_t TestConfig() {
  tcConfig_t config;
  TC_CONFIG_INIT(&config);
  config.backend = tcBackendHost;
  config.workspaceBytes = size_t{16} << 20;
  config.timeoutMs = 60'000;
  config.entryTimeoutMs = 60'000;
  return config;
}

using RankBody = std::function<void(int rank, tcComm_t comm)>;

inline void RunRank(int n_ranks, const tcUniqueId& id, int rank, const tcConfig_t& config, const RankBody& body) {
  tcComm_t comm = nullptr;
  const tcResult_t joined = tcInitComm(&comm, n_ranks, &id, rank, &config);
  ASSERT_EQ(joined, tcSuccess) << tcGetLastError(nullptr);
  body(rank, comm);
  TC_EXPECT_OK(tcCommDestroy(comm));
}

// A failed expectation in any rank fails the test, also when the rank is another process.
inline void RunRanks(Launch launch, int n_ranks, const RankBody& body, const tcConfig_t& config = TestConfig()) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  if (launch == Launch::kThreads) {
    std::vector<std::thread> threads;
    for (int rank = 0; rank < n_ranks; ++rank) {
      threads.emplace_back([&, rank] { RunRank(n_ranks, id, rank, config, body); });
    }
    for (std::thread& thread : threads) thread.join();
    return;
  }
  std::vector<pid_t> children;
  for (int rank = 0; rank < n_ranks; ++rank) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) {
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
