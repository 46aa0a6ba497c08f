#include "ranks.h"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <thread>

#include "failure.h"

namespace tc::perf {
namespace {

using std::chrono::seconds;

RankGroup::Clock::time_point Soon() { return RankGroup::Clock::now() + seconds(60); }

// What Wait has to say; empty when all went well. The ranks are gone afterwards.
std::string ReasonOf(int count, bool threads, const RankGroup::Body& body, RankGroup::Clock::time_point deadline) {
  std::string reason;
  pid_t pid;
  {
    RankGroup group(count, threads, body);
    pid = group.Pid(count - 1);
    try {
      group.Wait([](int, const nlohmann::json&) {}, deadline);
    } catch (const Failure& failure) {
      reason = failure.what();
    }
  }
  EXPECT_EQ(waitpid(pid, nullptr, WNOHANG), -1) << "reaped already";
  EXPECT_EQ(errno, ECHILD);
  return reason;
}

class RankGroupTest : public ::testing::TestWithParam<bool> {
 protected:
  static bool Threads() { return GetParam(); }
  static std::string Reason(int count, const RankGroup::Body& body, RankGroup::Clock::time_point deadline) {
    return ReasonOf(count, Threads(), body, deadline);
  }
};

INSTANTIATE_TEST_SUITE_P(, RankGroupTest, ::testing::Bool(),
                         [](const auto& tested) { return tested.param ? "Threads" : "Processes"; });

TEST_P(RankGroupTest, DeliversMessagesInTheOrderOfEachRank) {
  RankGroup group(5, Threads(), [](Rank& rank) {
    for (int i = 0; i < 100; ++i)
      rank.Send({{"rank", rank.Index()}, {"of", rank.Count()}, {"i", i}, {"pid", getpid()}});
    rank.Send(std::string(1 << 20, 'x'));
  });
  std::vector<int> next(5, 0);
  group.Wait(
      [&](int rank, const nlohmann::json& message) {
        int& i = next[static_cast<size_t>(rank)];
        if (i++ == 100) {
          EXPECT_EQ(message.get<std::string>().size(), size_t{1} << 20);
          return;
        }
        EXPECT_EQ(message["rank"], rank);
        EXPECT_EQ(message["of"], 5);
        EXPECT_EQ(message["i"], i - 1);
        EXPECT_EQ(message["pid"], group.Pid(rank));
        EXPECT_NE(message["pid"], getpid()) << "a rank that crashes must not take the parent along";
      },
      Soon());
  EXPECT_EQ(next, std::vector<int>(5, 101));
}

TEST_P(RankGroupTest, TellsWhichRankFailedAndWhyWhileOthersHang) {
  const std::string reason = Reason(
      3,
      [](Rank& rank) {
        if (rank.Index() == 1) rank.Fail("no more paper");
        for (;;) pause();
      },
      Soon());
  EXPECT_EQ(reason.find("rank 1 (pid "), 0u) << reason;
  EXPECT_NE(reason.find("no more paper"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("rank 0"), std::string::npos) << reason;
}

TEST_P(RankGroupTest, TurnsAnExceptionIntoAFailure) {
  const auto body = [](Rank& rank) {
    if (rank.Index() == 0) throw std::runtime_error("thrown");
  };
  const std::string reason = Reason(2, body, Soon());
  EXPECT_EQ(reason.find("rank 0 (pid "), 0u) << reason;
  EXPECT_NE(reason.find("thrown"), std::string::npos) << reason;
}

TEST_P(RankGroupTest, TellsWhichRankDiedAndHow) {
  const auto killed = [](Rank& rank) {
    if (rank.Index() == 1) raise(SIGKILL);
    for (;;) pause();
  };
  const std::string reason = Reason(3, killed, Soon());
  EXPECT_EQ(reason.find(Threads() ? "the process of all ranks (pid " : "rank 1 (pid "), 0u) << reason;
  EXPECT_NE(reason.find("signal 9 (Killed)"), std::string::npos) << reason;
  EXPECT_EQ(reason.find('\n'), std::string::npos) << "said once: " << reason;
  const auto left = [](Rank& rank) {
    if (rank.Index() == 1) _exit(7);
    for (;;) pause();
  };
  EXPECT_NE(Reason(3, left, Soon()).find("exit code 7"), std::string::npos);
}

TEST(RankProcessesTest, ACauseComesBeforeItsConsequences) {
  const auto body = [](Rank& rank) {
    if (rank.Index() == 0) rank.Fail("rank 1 is gone");
    std::this_thread::sleep_for(std::chrono::milliseconds(100));
    raise(SIGKILL);
  };
  const std::string reason = ReasonOf(2, false, body, Soon());
  EXPECT_EQ(reason.find("rank 1 (pid "), 0u) << reason;
  EXPECT_NE(reason.find("\nrank 0 (pid "), std::string::npos) << reason;
}

TEST_P(RankGroupTest, EndsRanksAtTheDeadline) {
  const auto body = [](Rank& rank) {
    if (rank.Index() == 0) return;
    for (;;) pause();
  };
  const std::string reason = Reason(2, body, RankGroup::Clock::now() + std::chrono::milliseconds(300));
  EXPECT_EQ(reason.find("rank 1 (pid "), 0u) << reason;
  EXPECT_NE(reason.find("time limit"), std::string::npos) << reason;
  EXPECT_EQ(reason.find("rank 0"), std::string::npos) << reason;
}

TEST_P(RankGroupTest, NoticesABadEndAfterTheLastCase) {
  const auto body = [](Rank&) { std::atexit([] { _exit(9); }); };
  const std::string reason = Reason(2, body, Soon());
  EXPECT_NE(reason.find("exit code 9 after its last case"), std::string::npos) << reason;
}

TEST_P(RankGroupTest, RanksDieWithTheirParent) {
  // A process in between, killed, whose orphans become ours to see.
  ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const bool threads = Threads();
  const pid_t parent = fork();
  if (parent == 0) {
    RankGroup group(2, threads, [](Rank&) {
      for (;;) pause();
    });
    const char ready = 1;
    if (write(ends[1], &ready, 1) != 1) _exit(1);
    for (;;) pause();
  }
  close(ends[1]);
  char ready;
  ASSERT_EQ(read(ends[0], &ready, 1), 1);
  kill(parent, SIGKILL);
  // Every descendant ends: waiting for all of them comes to an end.
  size_t ended = 0;
  while (wait(nullptr) > 0) ++ended;
  EXPECT_EQ(ended, threads ? 2u : 3u);
  EXPECT_EQ(errno, ECHILD);
  close(ends[0]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace
}  // namespace tc::perf
