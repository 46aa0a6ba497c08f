// tcFusedAllGatherGemm from outside: every rank count, shape, type and kind of buffer, against fp64.
#include <algorithm>
#include <cstdlib>
#include <memory>
#include <numeric>
#include <optional>

#include "matrix.h"
#include "ranks.h"

namespace tc::test {
namespace {

constexpr uint64_t kSeedA = 17;
constexpr uint64_t SeedOfB(int rank) { return 1000 + rank; }

enum class Gather { kNone, kPlain, kRegistered, kInPlace };

struct Case {
  size_t m, n, k;
  tcDataType_t type = tcFloat32;
  std::vector<size_t> rows_per_rank = {};
  tcBLayout_t layout = tcBLayoutNK;
  Gather gather = Gather::kNone;
  size_t stride_gap = 0;  // added to every leading dimension
  tcDataType_t out_type = -1;
  float alpha = 1;
  uint64_t seed = kSeedA;
};

std::string Describe(const Case& c, int rank) {
  return "m=" + std::to_string(c.m) + " n=" + std::to_string(c.n) + " k=" + std::to_string(c.k) +
         " type=" + std::to_string(c.type) + " gather=" + std::to_string(static_cast<int>(c.gather)) +
         " rank=" + std::to_string(rank);
}

struct RowSpan {
  size_t first, count;
};

RowSpan RowsOf(const Case& c, int n_ranks, int rank) {
  if (!c.rows_per_rank.empty()) {
    return {std::accumulate(c.rows_per_rank.begin(), c.rows_per_rank.begin() + rank, size_t{0}), c.rows_per_rank[rank]};
  }
  const size_t each = (c.m + n_ranks - 1) / n_ranks;
  const size_t first = std::min(c.m, rank * each);
  return {first, std::min(each, c.m - first)};
}

// One case on one rank: prepared, enqueued, checked.
class Running {
 public:
  Running(const Case& c, int rank, tcComm_t comm) : case_(c), rank_(rank), comm_(comm) {
    int n_ranks = 0;
    TC_EXPECT_OK(tcCommCount(comm, &n_ranks));
    const RowSpan rows = RowsOf(c, n_ranks, rank);
    a_.emplace(c.type, rows.count, c.k, c.k + c.stride_gap).Random(c.seed, rows.first);
    b_.Random(SeedOfB(rank));
    on_a_.emplace(comm, a_->data(), a_->size_bytes());
    on_b_.emplace(comm, b_.data(), b_.size_bytes());
    on_c_.emplace(comm, c_.data(), c_.size_bytes());
    MakeGathered();
    own_ = rows.count == 0 ? nullptr : on_a_->get();
    if (c.gather == Gather::kInPlace && rows.count > 0) {
      own_ = static_cast<char*>(gathered_) + rows.first * c.k * Bytes(c.type);
      CopyWindow(comm, own_, a_->data(), a_->size_bytes());
    }
  }

  void Enqueue(tcStream_t stream = TestStream()) {
    const Case& c = case_;
    tcGemmConfig_t config;
    TC_GEMM_CONFIG_INIT(&config);
    config.rowsPerRank = c.rows_per_rank.empty() ? nullptr : c.rows_per_rank.data();
    config.bLayout = c.layout;
    config.gatheredA = gathered_;
    config.lda = c.stride_gap != 0 ? a_->stride() : 0;
    config.ldb = c.stride_gap != 0 ? b_.stride() : 0;
    config.ldc = c.stride_gap != 0 ? c_.stride() : 0;
    config.outType = c.out_type;
    config.alpha = c.alpha;
    TC_EXPECT_OK(tcFusedAllGatherGemm(own_, on_b_->get(), on_c_->get(), c.m, c.n, c.k, c.type, &config, comm_, stream));
  }

  // After the stream was synchronised.
  void Check() {
    SCOPED_TRACE(Describe(case_, rank_));
    const Matrix whole = Matrix(case_.type, case_.m, case_.k).Random(case_.seed);
    on_c_->Fetch();
    EXPECT_EQ(CountWrong(whole, b_, case_.layout == tcBLayoutNK, c_, case_.alpha), 0u);
    EXPECT_TRUE(c_.GapsIntact());
    if (gathered_ == nullptr) return;
    if (window_ != nullptr) {
      CopyWindow(comm_, kept_.data(), gathered_, kept_.size());
    } else {
      on_kept_->Fetch();
    }
    EXPECT_EQ(std::memcmp(kept_.data(), whole.data(), whole.size_bytes()), 0);
  }

  // Collective, like the registration that it undoes.
  void Release() {
    if (window_ == nullptr) return;
    TC_EXPECT_OK(tcCommDeregister(comm_, window_));
    TC_EXPECT_OK(tcMemFree(static_cast<char*>(gathered_) - 64));
  }

 private:
  void MakeGathered() {
    if (case_.gather == Gather::kNone) return;
    kept_.assign(case_.m * case_.k * Bytes(case_.type), static_cast<char>(Matrix::kPoison));
    if (case_.gather == Gather::kPlain) {
      on_kept_.emplace(comm_, kept_.data(), kept_.size());
      gathered_ = on_kept_->get();
      return;
    }
    TC_EXPECT_OK(tcMemAlloc(&gathered_, kept_.size() + 64));
    TC_EXPECT_OK(tcCommRegister(comm_, gathered_, kept_.size() + 64, &window_));
    gathered_ = static_cast<char*>(gathered_) + 64;  // a window is good at an offset, too
    CopyWindow(comm_, gathered_, kept_.data(), kept_.size());
  }

  Case case_;
  int rank_;
  tcComm_t comm_;
  std::optional<Matrix> a_;
  Matrix b_{case_.type, case_.layout == tcBLayoutNK ? case_.n : case_.k,
            case_.layout == tcBLayoutNK ? case_.k : case_.n,
            (case_.layout == tcBLayoutNK ? case_.k : case_.n) + case_.stride_gap};
  Matrix c_{case_.out_type < 0 ? case_.type : case_.out_type, case_.m, case_.n, case_.n + case_.stride_gap};
  std::vector<char> kept_;  // gatheredA
  std::optional<OnDevice> on_a_, on_b_, on_c_, on_kept_;
  void* own_ = nullptr;  // this rank's rows, as the operator gets them
  void* gathered_ = nullptr;
  tcWindow_t window_ = nullptr;
};

void RunCase(const Case& c, int rank, tcComm_t comm) {
  Running running(c, rank, comm);
  Rendezvous();
  running.Enqueue();
  TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  Rendezvous();
  running.Check();
  running.Release();
}

class AllGatherGemm : public ::testing::TestWithParam<std::tuple<Launch, int>> {
 protected:
  Launch launch() const { return std::get<0>(GetParam()); }
  int n_ranks() const { return std::get<1>(GetParam()); }
  void Run(const std::vector<Case>& cases, const tcConfig_t& config = TestConfig()) {
    RunRanks(
        launch(), n_ranks(),
        [&](int rank, tcComm_t comm) {
          for (const Case& c : cases) RunCase(c, rank, comm);
        },
        config);
  }
};

TEST_P(AllGatherGemm, IsRightForEveryTypeAndOddShape) {
  std::vector<Case> cases;
  for (const tcDataType_t type : {tcFloat32, tcFloat16, tcBfloat16}) {
    cases.push_back({.m = 128, .n = 128, .k = 64, .type = type});
    cases.push_back({.m = 301, .n = 77, .k = 33, .type = type});
    cases.push_back({.m = 17, .n = 129, .k = 515, .type = type});
    cases.push_back({.m = 1, .n = 1, .k = 1, .type = type});
  }
  Run(cases);
}

TEST_P(AllGatherGemm, RanksMayOwnNoRow) {
  std::vector<Case> cases;
  for (size_t m = 0; m <= 5; ++m) cases.push_back({.m = m, .n = 40, .k = 24});
  cases.push_back({.m = 70, .n = 0, .k = 24, .gather = Gather::kPlain});
  Run(cases);
}

TEST_P(AllGatherGemm, FollowsRowsPerRank) {
  std::vector<size_t> uneven(n_ranks());
  for (int rank = 0; rank < n_ranks(); ++rank) uneven[rank] = rank % 2 == 0 ? 0 : 100 + 37 * rank;
  uneven.back() = 200;
  std::vector<size_t> last_only(n_ranks(), 0);
  last_only.back() = 130;
  const auto sum = [](const std::vector<size_t>& rows) { return std::accumulate(rows.begin(), rows.end(), size_t{0}); };
  Run({{.m = sum(uneven), .n = 50, .k = 70, .type = tcBfloat16, .rows_per_rank = uneven},
       {.m = sum(last_only), .n = 50, .k = 70, .rows_per_rank = last_only, .gather = Gather::kPlain}});
}

TEST_P(AllGatherGemm, FillsGatheredAInPlainAndRegisteredMemoryAndInPlace) {
  std::vector<Case> cases;
  for (const Gather gather : {Gather::kPlain, Gather::kRegistered, Gather::kInPlace}) {
    cases.push_back({.m = 203, .n = 30, .k = 41, .type = tcFloat16, .gather = gather});
    cases.push_back({.m = 3, .n = 30, .k = 41, .gather = gather});
  }
  Run(cases);
}

TEST_P(AllGatherGemm, HonoursLayoutStridesAlphaAndOutputType) {
  Run({{.m = 150, .n = 90, .k = 65, .layout = tcBLayoutKN},
       {.m = 150, .n = 90, .k = 65, .type = tcBfloat16, .layout = tcBLayoutKN, .stride_gap = 5},
       {.m = 150, .n = 90, .k = 65, .type = tcFloat16, .stride_gap = 3, .alpha = -0.5f},
       {.m = 150, .n = 90, .k = 65, .type = tcBfloat16, .out_type = tcFloat32}});
}

TEST_P(AllGatherGemm, WorksInSlabsWhenTheWorkspaceIsSmall) {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 5000 * n_ranks();  // 19 rows of 64 floats from each rank at a time
  Run({{.m = 331, .n = 20, .k = 64},
       {.m = 331, .n = 20, .k = 64, .gather = Gather::kPlain},
       {.m = 331, .n = 20, .k = 64, .gather = Gather::kRegistered}},
      config);
}

TEST_P(AllGatherGemm, AHundredOperatorsMayBeQueuedWithoutAWait) {
  RunRanks(launch(), n_ranks(), [&](int rank, tcComm_t comm) {
    std::vector<std::unique_ptr<Running>> queue;
    for (uint64_t i = 0; i < 100; ++i) {
      const Case c{.m = 40 + 3 * (i % 7), .n = 9, .k = 16, .gather = Gather::kPlain, .seed = 100 + i};
      queue.push_back(std::make_unique<Running>(c, rank, comm));
    }
    Rendezvous();
    for (const auto& running : queue) running->Enqueue();
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    Rendezvous();
    for (const auto& running : queue) running->Check();
  });
}

// Whether a buffer is registered is true on one rank alone and must not matter to the others.
TEST_P(AllGatherGemm, RanksMayDifferInRegistrationStridesAndGatheredA) {
  RunRanks(launch(), n_ranks(), [&](int rank, tcComm_t comm) {
    void* memory = nullptr;
    tcWindow_t window = nullptr;
    const Case c{.m = 140, .n = 21, .k = 30};
    const size_t bytes = c.m * c.k * sizeof(float);
    TC_EXPECT_OK(tcMemAlloc(&memory, bytes));
    TC_EXPECT_OK(tcCommRegister(comm, memory, bytes, &window));
    const RowSpan rows = RowsOf(c, n_ranks(), rank);
    const Matrix a = Matrix(c.type, rows.count, c.k, c.k + rank).Random(kSeedA, rows.first);
    const Matrix b = Matrix(c.type, c.n, c.k).Random(SeedOfB(rank));
    Matrix out(c.type, c.m, c.n);
    tcGemmConfig_t config;
    TC_GEMM_CONFIG_INIT(&config);
    config.lda = a.stride();
    std::vector<float> kept(c.m * c.k);
    OnDevice on_a(comm, a.data(), a.size_bytes()), on_b(comm, b.data(), b.size_bytes());
    OnDevice on_out(comm, out.data(), out.size_bytes()), plain(comm, kept.data(), bytes);
    void* gathered[] = {memory, plain.get(), nullptr};
    config.gatheredA = gathered[rank % 3];
    Rendezvous();
    TC_EXPECT_OK(
        tcFusedAllGatherGemm(on_a.get(), on_b.get(), on_out.get(), c.m, c.n, c.k, c.type, &config, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    Rendezvous();
    const Matrix whole = Matrix(c.type, c.m, c.k).Random(kSeedA);
    on_out.Fetch();
    EXPECT_EQ(CountWrong(whole, b, true, out), 0u);
    if (rank % 3 == 0) {
      CopyWindow(comm, kept.data(), memory, bytes);
    } else {
      plain.Fetch();
    }
    if (config.gatheredA != nullptr) {
      EXPECT_EQ(std::memcmp(kept.data(), whole.data(), bytes), 0);
    }
    TC_EXPECT_OK(tcCommDeregister(comm, window));
    TC_EXPECT_OK(tcMemFree(memory));
  });
}

INSTANTIATE_TEST_SUITE_P(Ranks, AllGatherGemm,
                         ::testing::Combine(::testing::Values(Launch::kThreads, Launch::kProcesses, Launch::kIsolated),
                                            ::testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& param) {
                           return std::string(LaunchName(std::get<0>(param.param))) +
                                  std::to_string(std::get<1>(param.param));
                         });

// The same element, computed by other ranks or another number of ranks, has the same bits.
TEST(AllGatherGemmBits, DoNotDependOnTheNumberOfRanks) {
  const Case c{.m = 200, .n = 60, .k = 300, .type = tcBfloat16};
  const Matrix b = Matrix(c.type, c.n, c.k).Random(SeedOfB(0));
  Matrix first(c.type, c.m, c.n);
  for (const int n_ranks : {1, 3, 16}) {
    RunRanks(Launch::kThreads, n_ranks, [&](int rank, tcComm_t comm) {
      const RowSpan rows = RowsOf(c, n_ranks, rank);
      const Matrix a = Matrix(c.type, rows.count, c.k).Random(kSeedA, rows.first);
      Matrix out(c.type, c.m, c.n);
      OnDevice on_a(comm, a.data(), a.size_bytes()), on_b(comm, b.data(), b.size_bytes());
      OnDevice on_out(comm, out.data(), out.size_bytes());
      Rendezvous();
      TC_EXPECT_OK(tcFusedAllGatherGemm(on_a.get(), on_b.get(), on_out.get(), c.m, c.n, c.k, c.type, nullptr, comm,
                                        TestStream()));
      TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
      Rendezvous();
      on_out.Fetch();
      if (n_ranks == 1) std::memcpy(first.data(), out.data(), out.size_bytes());
      if (n_ranks != 1) {
        EXPECT_EQ(std::memcmp(first.data(), out.data(), out.size_bytes()), 0) << "rank " << rank;
      }
    });
  }
}

TEST(AllGatherGemmComms, TwoCommunicatorsRunAtOnceOnTwoStreams) {
  RunRanks(Launch::kThreads, 3, [&](int rank, tcComm_t first) {
    tcComm_t second = nullptr;
    TC_EXPECT_OK(tcCommSplit(first, 0, -rank, &second, nullptr));  // the same ranks in reverse
    int second_rank = -1;
    TC_EXPECT_OK(tcCommRank(second, &second_rank));
    EXPECT_EQ(second_rank, 2 - rank);
    tcStream_t streams[2];
    for (tcStream_t& stream : streams) TC_EXPECT_OK(tcStreamCreate(first, &stream));
    std::vector<std::unique_ptr<Running>> running;
    for (uint64_t i = 0; i < 20; ++i) {
      const Case c{.m = 100 + i, .n = 20, .k = 30, .seed = i};
      running.push_back(std::make_unique<Running>(c, rank, first));
      running.push_back(std::make_unique<Running>(c, second_rank, second));
    }
    Rendezvous();
    for (size_t i = 0; i < running.size(); ++i) running[i]->Enqueue(streams[i % 2]);
    TC_EXPECT_OK(tcStreamSynchronize(first, streams[0]));
    TC_EXPECT_OK(tcStreamSynchronize(second, streams[1]));
    Rendezvous();
    for (const auto& each : running) each->Check();
    for (tcStream_t stream : streams) TC_EXPECT_OK(tcStreamDestroy(first, stream));
    TC_EXPECT_OK(tcCommDestroy(second));
  });
}

TEST(AllGatherGemmComms, ASplitCommunicatorIsOneOfItsOwn) {
  for (const Launch launch : {Launch::kThreads, Launch::kProcesses}) {
    if (OnGpu() && launch == Launch::kProcesses) continue;  // five processes are more than most boxes have GPUs
    RunRanks(launch, 5, [](int rank, tcComm_t parent) {
      tcComm_t part = nullptr;
      const int color = rank == 4 ? TC_SPLIT_NOCOLOR : rank % 2;
      TC_EXPECT_OK(tcCommSplit(parent, color, rank, &part, nullptr));
      if (rank == 4) {
        EXPECT_EQ(part, nullptr);
      } else {
        int count = 0;
        TC_EXPECT_OK(tcCommCount(part, &count));
        EXPECT_EQ(count, 2);
        Running running({.m = 99, .n = 33, .k = 17}, rank / 2, part);
        running.Enqueue();
        TC_EXPECT_OK(tcStreamSynchronize(part, TestStream()));
        running.Check();
        TC_EXPECT_OK(tcCommDestroy(part));
      }
      RunCase({.m = 99, .n = 33, .k = 17}, rank, parent);
    });
  }
}

TEST(AllGatherGemmComms, AChangeOfStreamKeepsTheOrder) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    tcStream_t other = nullptr;
    TC_EXPECT_OK(tcStreamCreate(comm, &other));
    std::vector<std::unique_ptr<Running>> running;
    for (uint64_t i = 0; i < 30; ++i) {
      const Case c{.m = 65, .n = 8, .k = 12, .seed = i};
      running.push_back(std::make_unique<Running>(c, rank, comm));
    }
    Rendezvous();
    for (size_t i = 0; i < running.size(); ++i) running[i]->Enqueue(i % 3 == 0 ? TestStream() : other);
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, other));
    Rendezvous();
    for (const auto& each : running) each->Check();
    TC_EXPECT_OK(tcStreamDestroy(comm, other));
  });
}

}  // namespace
}  // namespace tc::test
