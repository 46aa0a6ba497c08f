// Aborts and deaths at bad moments: every rank comes back in time and with an error, lets go of everything, and begins
// anew. TC_FAULT_ROUNDS sets the rounds of each test that repeats.
#include <fcntl.h>
#include <poll.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <memory>
#include <random>
#include <utility>

#include "ranks.h"

namespace tc::test {
namespace {

int Rounds(int by_default) {
  const char* text = std::getenv("TC_FAULT_ROUNDS");
  return text != nullptr ? std::atoi(text) : by_default;
}

// One clock for all processes.
int64_t NowUs() {
  return std::chrono::duration_cast<std::chrono::microseconds>(std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Processors are shared with other tests: there the limit only tells late from never.
int64_t LimitUs(int64_t gpu_ms) { return gpu_ms * 1000 * (OnGpu() ? 1 : 10); }

size_t OpenDescriptors() {
  const std::filesystem::directory_iterator first("/proc/self/fd");
  return static_cast<size_t>(std::distance(begin(first), end(first)));
}

int32_t Value(int round, int rank, size_t i) {
  return static_cast<int32_t>(round * 7919 + rank * 104729 + static_cast<int>(i));
}

// One rank's operators with exact results: an all-gather of `count` integers a rank, and `rows` rows a rank times the
// identity. All memory is tcMemAlloc's and starts as zeros.
class Work {
 public:
  static constexpr size_t kCols = 64;

  Work(int rank, int n_ranks, tcComm_t comm, size_t count, size_t rows)
      : rank_(rank),
        n_ranks_(n_ranks),
        comm_(comm),
        mine_(count),
        all_(count * n_ranks),
        a_(rows * kCols),
        b_(kCols * kCols),
        c_(rows * kCols * n_ranks) {
    for (size_t i = 0; i < kCols; ++i) b_[i * kCols + i] = 1;
    TC_EXPECT_OK(tcMemAlloc(&on_mine_, mine_.size() * 4));
    TC_EXPECT_OK(tcMemAlloc(&on_all_, all_.size() * 4));
    TC_EXPECT_OK(tcMemAlloc(&on_a_, a_.size() * 4));
    TC_EXPECT_OK(tcMemAlloc(&on_b_, b_.size() * 4));
    TC_EXPECT_OK(tcMemAlloc(&on_c_, c_.size() * 4));
  }
  ~Work() {
    for (void* each : {on_mine_, on_all_, on_a_, on_b_, on_c_}) TC_EXPECT_OK(tcMemFree(each));
  }
  Work(const Work&) = delete;
  Work& operator=(const Work&) = delete;

  // Collective: peers then store into this rank's memory directly. The window goes with the communicator.
  void Register() {
    tcWindow_t window = nullptr;
    TC_EXPECT_OK(tcCommRegister(comm_, on_all_, all_.size() * 4, &window));
  }

  void Fill(int round) {
    round_ = round;
    for (size_t i = 0; i < mine_.size(); ++i) mine_[i] = Value(round, rank_, i);
    for (size_t i = 0; i < a_.size(); ++i) a_[i] = static_cast<float>(Value(round, rank_, i) % 8191);
    Copy(on_mine_, mine_.data(), mine_.size());
    Copy(on_a_, a_.data(), a_.size());
    Copy(on_b_, b_.data(), b_.size());
    TC_EXPECT_OK(tcStreamSynchronize(comm_, TestStream()));
  }

  tcResult_t Gather() { return tcAllGather(on_mine_, on_all_, mine_.size(), tcInt32, comm_, TestStream()); }
  tcResult_t Multiply() {
    return tcFusedAllGatherGemm(on_a_, on_b_, on_c_, c_.size() / kCols, kCols, kCols, tcFloat32, nullptr, comm_,
                                TestStream());
  }
  // One operator of each kind in turn.
  tcResult_t Operator(int i) {
    return i % 3 == 0 ? tcBarrier(comm_, TestStream()) : i % 3 == 1 ? Gather() : Multiply();
  }

  // Enqueues the copies; Wrong counts what is not as it must be, once the stream has been synchronized.
  void Fetch() {
    Copy(all_.data(), on_all_, all_.size());
    Copy(c_.data(), on_c_, c_.size());
  }
  size_t Wrong() const {
    size_t wrong = 0;
    for (int peer = 0; peer < n_ranks_; ++peer) {
      for (size_t i = 0; i < mine_.size(); ++i) wrong += all_[peer * mine_.size() + i] != Value(round_, peer, i);
      for (size_t i = 0; i < a_.size(); ++i) {
        wrong += c_[peer * a_.size() + i] != static_cast<float>(Value(round_, peer, i) % 8191);
      }
    }
    return wrong;
  }

 private:
  void Copy(void* to, const void* from, size_t words) {
    TC_EXPECT_OK(tcMemcpyAsync(comm_, to, from, words * 4, TestStream()));
  }

  int rank_, n_ranks_;
  tcComm_t comm_;
  int round_ = 0;
  std::vector<int32_t> mine_, all_;
  std::vector<float> a_, b_, c_;
  void *on_mine_ = nullptr, *on_all_ = nullptr, *on_a_ = nullptr, *on_b_ = nullptr, *on_c_ = nullptr;
};

// Ten operators with other data each time.
void ExpectExact(int rank, tcComm_t comm) {
  int n_ranks = 0;
  TC_EXPECT_OK(tcCommCount(comm, &n_ranks));
  Work work(rank, n_ranks, comm, 1000, 40);
  Rendezvous();
  for (int round = 1; round <= 5; ++round) {
    work.Fill(round);
    TC_EXPECT_OK(work.Gather());
    TC_EXPECT_OK(work.Multiply());
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    work.Fetch();
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    EXPECT_EQ(work.Wrong(), 0u) << "round " << round << " on rank " << rank;
  }
  Rendezvous();
}

// The communicator says everywhere that `code` ended it, and takes no more operators.
void ExpectEnded(tcComm_t comm, Work& work, tcResult_t code) {
  const int64_t start = NowUs();
  EXPECT_EQ(tcBarrier(comm, TestStream()), code);
  EXPECT_EQ(work.Gather(), code);
  EXPECT_EQ(work.Multiply(), code);
  EXPECT_LT(NowUs() - start, LimitUs(50));
  tcResult_t state = tcSuccess;
  TC_EXPECT_OK(tcCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, code);
  const volatile int32_t* host = nullptr;
  const int32_t* device = nullptr;
  TC_EXPECT_OK(tcCommGetErrorWord(comm, &host, &device));
  EXPECT_EQ(*host, code);
  EXPECT_EQ(device != nullptr, OnGpu());
#ifdef TC_TEST_CUDA
  int32_t word = tcSuccess;
  if (device != nullptr) {
    EXPECT_EQ(cudaMemcpy(&word, device, sizeof(word), cudaMemcpyDefault), cudaSuccess);
    EXPECT_EQ(word, code);
  }
#endif
}

// One call of tcCommAbort, made by a thread of its own, which others can wait for.
struct Abort {
  std::atomic<int64_t> begun{0};  // when
  std::atomic<bool> returned{false};

  std::thread After(int64_t delay_us, tcComm_t comm) {
    return std::thread([this, delay_us, comm] {
      std::this_thread::sleep_for(std::chrono::microseconds(delay_us));
      begun = NowUs();
      TC_EXPECT_OK(tcCommAbort(comm));
      returned = true;
    });
  }
};

class Faults : public ::testing::Test {
 protected:
  void SetUp() override {
    tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  }
  void TearDown() override { tcSetLogCallback(nullptr, nullptr); }
};
class QueuedFaults : public Faults, public ::testing::WithParamInterface<std::tuple<int, bool, bool>> {};

// The last rank never comes; or it comes late, and brings too few operators for the others to finish theirs.
TEST_P(QueuedFaults, AbortWithAHundredOperatorsQueued) {
  const int n_ranks = std::get<0>(GetParam());
  const int missing = n_ranks - 1;
  const int aborting = std::get<1>(GetParam()) ? missing : 0;
  const int brought = std::get<2>(GetParam()) ? 50 : 0;
  Abort abort;
  RunRanks(Launch::kThreads, n_ranks, [&](int rank, tcComm_t comm) {
    Work work(rank, n_ranks, comm, 1000, 40);
    work.Fill(1);
    Rendezvous();
    for (int i = 0; i < 100 && rank != missing; ++i) TC_EXPECT_OK(work.Operator(i));
    Rendezvous();
    std::thread other;
    if (rank == aborting) other = abort.After(20'000, comm);
    if (rank == missing) {
      tcResult_t queued = tcSuccess;
      for (int i = 0; i < brought && queued == tcSuccess; ++i) {
        queued = work.Operator(i);
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      }
      EXPECT_TRUE(queued == tcSuccess || queued == tcAborted) << queued;
      while (!abort.returned) std::this_thread::yield();
    }
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcAborted) << "rank " << rank;
    const int64_t back = NowUs();
    if (other.joinable()) other.join();
    EXPECT_TRUE(abort.begun != 0 && back >= abort.begun) << "rank " << rank << " did not wait";
    EXPECT_LT(back - abort.begun, LimitUs(200)) << "rank " << rank;
    ExpectEnded(comm, work, tcAborted);
    Rendezvous();  // no operator runs while somebody frees
  });
  RunRanks(Launch::kThreads, n_ranks, ExpectExact);
}

INSTANTIATE_TEST_SUITE_P(Abort, QueuedFaults,
                         ::testing::Combine(::testing::Values(2, 4), ::testing::Bool(), ::testing::Bool()),
                         [](const auto& param) {
                           return std::to_string(std::get<0>(param.param)) + "ranks_by_" +
                                  (std::get<1>(param.param) ? "the_missing" : "a_waiting") + "_that_" +
                                  (std::get<2>(param.param) ? "comes_late" : "never_comes");
                         });

// How one rank's stream ended.
struct Outcome {
  tcResult_t result = tcInternalError;
  int64_t took = 0;
  int64_t back = 0;
  size_t wrong = 0;  // counted when it succeeded
};

// A stream of large operators, whose last two have memory of their own: their results show that the stream is complete.
// What an aborted operator left is not looked at: the other rank may still be storing there.
Outcome RunStream(tcComm_t comm, Work& large, Work& last) {
  const int64_t start = NowUs();
  tcResult_t queued = tcSuccess;
  for (int i = 0; i < 4 && queued == tcSuccess; ++i) queued = i % 2 == 0 ? large.Gather() : large.Multiply();
  if (queued == tcSuccess) queued = last.Gather();
  if (queued == tcSuccess) queued = last.Multiply();
  Outcome outcome;
  outcome.result = tcStreamSynchronize(comm, TestStream());
  outcome.back = NowUs();
  outcome.took = outcome.back - start;
  if (queued != tcSuccess) {
    EXPECT_EQ(outcome.result, queued);
  }
  if (outcome.result != tcSuccess) return outcome;
  large.Fetch();
  last.Fetch();
  (void)tcStreamSynchronize(comm, TestStream());  // waits for the copies, also when an abort has come since
  outcome.wrong = large.Wrong() + last.Wrong();
  return outcome;
}

// Two ranks, both in the same stream. `delay_us` after its start rank `aborting` aborts.
std::vector<Outcome> RunStreams(int round, int aborting, int64_t delay_us, Abort& abort) {
  const size_t count = OnGpu() ? size_t{2} << 20 : size_t{1} << 17;
  const size_t rows = OnGpu() ? size_t{1} << 15 : size_t{1} << 11;
  tcConfig_t config = TestConfig();
  config.workspaceBytes = OnGpu() ? size_t{1} << 20 : size_t{1} << 19;
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  std::barrier start(2);
  std::vector<Outcome> outcomes(2);
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      std::unique_ptr<Work> large, last;
      RunRank(2, id, rank, config, [&](int, tcComm_t comm) {
        large = std::make_unique<Work>(rank, 2, comm, count, rows);
        last = std::make_unique<Work>(rank, 2, comm, 1000, 40);
        large->Fill(round);
        last->Fill(round);
        if (round % 2 == 0) large->Register();
        start.arrive_and_wait();
        std::thread other;
        if (rank == aborting) other = abort.After(delay_us, comm);
        outcomes[rank] = RunStream(comm, *large, *last);
        if (other.joinable()) other.join();
        if (outcomes[rank].result != tcSuccess) ExpectEnded(comm, *last, tcAborted);
      });
      // The memory goes here while the other rank may still store into it.
    });
  }
  for (std::thread& rank : ranks) rank.join();
  return outcomes;
}

TEST_F(Faults, AbortOfOneRankInMidPush) {
  if (OnGpu() && GpuCount() == 0) GTEST_SKIP() << "no GPU";
  std::mt19937 random(7);
  int64_t undisturbed = 0;  // microseconds
  {
    Abort none;
    for (const Outcome& outcome : RunStreams(0, -1, 0, none)) {
      EXPECT_EQ(outcome.result, tcSuccess);
      EXPECT_EQ(outcome.wrong, 0u);
      undisturbed = std::max(undisturbed, outcome.took);
    }
  }
  int ended = 0;
  size_t descriptors = 0;
  const int rounds = Rounds(10);
  for (int round = 1; round <= rounds && !HasFailure(); ++round) {
    // From 10 us to a little more than the whole stream takes, every order of magnitude as often.
    const double most = 1.2 * static_cast<double>(undisturbed) / 10;
    const double power = std::uniform_real_distribution<double>(0, 1)(random);
    const auto delay = static_cast<int64_t>(10 * std::pow(most, power));
    Abort abort;
    const std::vector<Outcome> outcomes = RunStreams(round, round % 2, delay, abort);
    for (int rank = 0; rank < 2; ++rank) {
      const Outcome& outcome = outcomes[rank];
      SCOPED_TRACE("rank " + std::to_string(rank) + ", round " + std::to_string(round) + ", abort after " +
                   std::to_string(delay) + " us");
      EXPECT_TRUE(outcome.result == tcAborted || outcome.result == tcSuccess) << outcome.result;
      EXPECT_EQ(outcome.wrong, 0u);
      EXPECT_LT(outcome.back - abort.begun, LimitUs(1000));
      ended += outcome.result == tcAborted;
    }
    if (round == 1) descriptors = OpenDescriptors();
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  EXPECT_GT(ended, 0) << "no abort came in time";
  std::printf("an undisturbed stream took %lld us; aborts ended %d of %d\n", static_cast<long long>(undisturbed), ended,
              2 * rounds);
}

// From process to process. Whoever does not use an end closes it, so that a death shows at the other.
class Pipe {
 public:
  Pipe() { EXPECT_EQ(::pipe2(ends_, O_CLOEXEC), 0); }
  ~Pipe() {
    CloseReader();
    CloseWriter();
  }
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  void CloseReader() { ::close(std::exchange(ends_[0], -1)); }
  void CloseWriter() { ::close(std::exchange(ends_[1], -1)); }

  template <class Message>
  void Send(const Message& message) {
    EXPECT_EQ(::write(ends_[1], &message, sizeof(message)), static_cast<ssize_t>(sizeof(message)));
  }
  template <class Message>
  bool Receive(Message* message) {
    pollfd readable{ends_[0], POLLIN, 0};
    return ::poll(&readable, 1, 60'000) == 1 &&
           ::read(ends_[0], message, sizeof(*message)) == static_cast<ssize_t>(sizeof(*message));
  }

 private:
  int ends_[2] = {-1, -1};
};

struct Pipes {
  Pipe running;   // from both ranks: the first operators have completed
  Pipe survived;  // from the survivor: when it got the error
  Pipe next;      // from the survivor to the replacement: the new communicator's id
};

// Operators without end; after the other's death everything again from the start, with its replacement.
void BeRank(int rank, const tcUniqueId& id, const tcConfig_t& config, Pipes& pipes) {
  std::unique_ptr<Work> work;
  RunRank(2, id, rank, config, [&](int, tcComm_t comm) {
    work = std::make_unique<Work>(rank, 2, comm, 200'000, 1000);
    work->Fill(1);
    work->Register();
    tcResult_t result = tcSuccess;
    for (int round = 0; result == tcSuccess; ++round) {
      for (int i = 0; i < 9 && result == tcSuccess; ++i) result = work->Operator(i);
      if (result == tcSuccess) result = tcStreamSynchronize(comm, TestStream());
      if (round == 0) pipes.running.Send(rank);
    }
    pipes.survived.Send(NowUs());
    EXPECT_EQ(result, tcRemoteError);
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcRemoteError);
    const std::string said = tcGetLastError(comm);
    EXPECT_NE(said.find("rank " + std::to_string(1 - rank) + " died"), std::string::npos) << said;
    ExpectEnded(comm, *work, tcRemoteError);
  });
  work.reset();
  tcUniqueId next;
  TC_EXPECT_OK(tcGetUniqueId(&next));
  pipes.next.Send(next);
  RunRank(2, next, rank, config, ExpectExact);
}

void BeReplacement(int rank, const tcConfig_t& config, Pipes& pipes) {
  pipes.running.CloseWriter();
  pipes.survived.CloseWriter();
  pipes.next.CloseWriter();
  tcUniqueId id;
  ASSERT_TRUE(pipes.next.Receive(&id));
  RunRank(2, id, rank, config, ExpectExact);
}

template <class Body>
pid_t Fork(const Body& body) {
  const pid_t child = ::fork();
  EXPECT_GE(child, 0);
  if (child != 0) return child;
  body();
  std::fflush(nullptr);
  ::_exit(::testing::Test::HasFailure() ? 1 : 0);
}

TEST_F(Faults, SigkillOfOneOfTwoProcesses) {
  if (OnGpu() && GpuCount() < 2) GTEST_SKIP() << "a GPU for each process is needed";
  std::mt19937 random(11);
  int64_t longest = 0;
  const int rounds = Rounds(3);
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const int victim = round % 2;
    tcConfig_t config = TestConfig();
    config.workspaceBytes = size_t{4} << 20;
    tcUniqueId id;
    TC_EXPECT_OK(tcGetUniqueId(&id));
    Pipes pipes;
    pid_t ranks[2];
    for (int rank = 0; rank < 2; ++rank) ranks[rank] = Fork([&] { BeRank(rank, id, config, pipes); });
    const pid_t replacement = Fork([&] { BeReplacement(victim, config, pipes); });
    pipes.running.CloseWriter();
    pipes.survived.CloseWriter();
    pipes.next.CloseWriter();

    int running = 0;
    for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(pipes.running.Receive(&running));
    std::this_thread::sleep_for(std::chrono::microseconds(random() % 20'000));
    const int64_t killed = NowUs();
    EXPECT_EQ(::kill(ranks[victim], SIGKILL), 0);
    int64_t survived = 0;
    EXPECT_TRUE(pipes.survived.Receive(&survived));
    EXPECT_GE(survived, killed);
    EXPECT_LT(survived - killed, LimitUs(2000));
    longest = std::max(longest, survived - killed);

    int status = 0;
    EXPECT_EQ(::waitpid(ranks[victim], &status, 0), ranks[victim]);
    EXPECT_TRUE(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL) << "the victim: " << status;
    EXPECT_EQ(::waitpid(ranks[1 - victim], &status, 0), ranks[1 - victim]);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the survivor: " << status;
    EXPECT_EQ(::waitpid(replacement, &status, 0), replacement);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << "the replacement: " << status;
  }
  std::printf("the survivors knew within %lld ms\n", static_cast<long long>(longest / 1000));
}

// An operator of many epochs, all of whose ranks have entered: its own limit holds, not the one for entering.
TEST_F(Faults, APeerThatStopsInsideALongOperatorIsNoticedWithinTheOperatorsLimit) {
  if (OnGpu()) GTEST_SKIP() << "kernels go on when their process is stopped";
  tcConfig_t config = TestConfig();
  config.workspaceBytes = size_t{8} << 10;
  config.timeoutMs = 500;
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  Pipes pipes;
  pid_t ranks[2];
  for (int rank = 0; rank < 2; ++rank) {
    ranks[rank] = Fork([&] {
      RunRank(2, id, rank, config, [&](int, tcComm_t comm) {
        std::vector<float> values(size_t{16} << 20, 1.0f);
        TC_EXPECT_OK(tcAllReduce(values.data(), values.data(), values.size(), tcFloat32, tcSum, comm, TestStream()));
        pipes.running.Send(rank);
        const tcResult_t ended = tcStreamSynchronize(comm, TestStream());
        if (rank == 1) return;  // it is killed before
        EXPECT_EQ(ended, tcTimeout) << tcGetLastError(comm);
        EXPECT_NE(std::string(tcGetLastError(comm)).find("waited 0.5 s for rank 1"), std::string::npos)
            << tcGetLastError(comm);
      });
      std::fflush(nullptr);
      ::_exit(::testing::Test::HasFailure() ? 1 : 0);
    });
  }
  pipes.running.CloseWriter();
  int running = 0;
  for (int rank = 0; rank < 2; ++rank) EXPECT_TRUE(pipes.running.Receive(&running));
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  EXPECT_EQ(::kill(ranks[1], SIGSTOP), 0);
  const int64_t stopped = NowUs();
  int status = 0;
  EXPECT_EQ(::waitpid(ranks[0], &status, 0), ranks[0]);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_LT(NowUs() - stopped, 20'000'000);
  EXPECT_EQ(::kill(ranks[1], SIGKILL), 0);
  EXPECT_EQ(::waitpid(ranks[1], &status, 0), ranks[1]);
}

}  // namespace
}  // namespace tc::test
