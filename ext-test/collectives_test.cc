// The collectives from outside: every byte of every buffer is compared with what a naive reference says, guard zones
// and gaps between blocks included.
#include <chrono>
#include <random>
#include <vector>

#include "cases.h"
#include "ranks.h"

namespace tc::test {
namespace {

constexpr size_t kWorkspace = 96 * 1024;  // small: larger operators go in slabs
constexpr size_t kArena = size_t{4} << 20;
constexpr tcRedOp_t kReductions[] = {tcSum, tcProd, tcMax, tcMin, tcAvg};

tcConfig_t SmallWorkspace() {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = kWorkspace;
  config.entryTimeoutMs = 20'000;  // a rank whose comparison failed does not come any more
  return config;
}

// The buffers of one rank.
class Rank {
 public:
  Rank(int rank, int n_ranks, tcComm_t comm) : rank_(rank), n_ranks_(n_ranks), comm_(comm), plain_(2 * kArena) {
    void* memory = nullptr;
    TC_EXPECT_OK(tcMemAlloc(&memory, 2 * kArena));
    TC_EXPECT_OK(tcCommRegister(comm, memory, 2 * kArena, &window_));
    registered_ = static_cast<unsigned char*>(memory);
  }
  ~Rank() {
    TC_EXPECT_OK(tcCommDeregister(comm_, window_));
    TC_EXPECT_OK(tcMemFree(registered_));
  }

  // Fills the buffers, runs the operator, and compares.
  void Run(const Case& which) {
    unsigned char* const memory = IsRegistered(which.where, rank_) ? registered_ : plain_.data();
    const Plan plan(which, rank_, n_ranks_, {memory, memory + kArena});
    ASSERT_LE(plan.Room(), kArena);
    for (uint64_t cell = 0; cell < plan.before().cells(); ++cell) plan.before().Fill(cell);
    TC_EXPECT_OK(plan.Call(comm_, nullptr));
    TC_EXPECT_OK(tcStreamSynchronize(comm_, nullptr));
    uint64_t right = 0;
    while (right < plan.after().cells() && plan.after().IsRight(right)) ++right;
    ASSERT_EQ(right, plan.after().cells()) << "cell is the first wrong one on rank " << rank_ << "; sendbuff has "
                                           << plan.after().pictures[kSend].cells << "; " << Describe(which);
  }

 private:
  const int rank_;
  const int n_ranks_;
  tcComm_t comm_;
  std::vector<unsigned char> plain_;
  unsigned char* registered_ = nullptr;
  tcWindow_t window_ = nullptr;
};

class Collectives : public ::testing::TestWithParam<std::tuple<Launch, int>> {
 protected:
  void SetUp() override {
    if (OnGpu()) GTEST_SKIP() << "collectives_gpu_test runs them on GPUs";
  }
  static Launch launch() { return std::get<0>(GetParam()); }
  static int n_ranks() { return std::get<1>(GetParam()); }
};

// Runs `op` in every type and reduction that it has, and in all sizes. Where the buffers lie, and whether it is in
// place, goes through all combinations from one call to the next.
void Sweep(Rank& rank, int n_ranks, tcOp_t op) {
  uint64_t seed = static_cast<uint64_t>(op);
  for (tcDataType_t type = tcInt8; type <= tcFloat8e5m2; ++type) {
    if (Reduces(op) && type >= tcFloat8e4m3) continue;
    for (const tcRedOp_t reduction : kReductions) {
      if (!Reduces(op) && reduction != tcSum) continue;
      const size_t large = kWorkspace / ElementSize(type) * (CountIsWhole(op) ? 4 : 1) / 2 + 77;
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{16}, size_t{1023}, size_t{1025}, large}) {
        // The slowest: a few stand for the others.
        const bool stands = (type == tcBfloat16 || type == tcFloat64) && (reduction == tcSum || reduction == tcMin);
        if (count == large && Reduces(op) && !stands) continue;
        for (int variant = 0; variant < (MayBeInPlace(op) ? 2 : 1); ++variant) {
          ++seed;
          rank.Run({.op = op,
                    .type = type,
                    .reduction = reduction,
                    .root = static_cast<int>(seed) % n_ranks,
                    .count = count,
                    .seed = seed,
                    .in_place = variant == 1,
                    .misaligned = seed / 3 % 2 == 1,
                    .where = static_cast<Where>(seed % 3)});
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(Collectives, AreExactInEveryTypeReductionSizeAndPlace) {
  RunRanks(
      launch(), n_ranks(),
      [n = n_ranks()](int rank, tcComm_t comm) {
        Rank buffers(rank, n, comm);
        for (tcOp_t op = tcOpReduceScatter; op <= tcOpAllToAllV; ++op) Sweep(buffers, n, op);
      },
      SmallWorkspace());
}

TEST_P(Collectives, StayExactInARandomOrderWithRandomDelays) {
  RunRanks(
      launch(), n_ranks(),
      [n = n_ranks()](int rank, tcComm_t comm) {
        Rank buffers(rank, n, comm);
        std::mt19937 common(static_cast<unsigned>(n));  // the same calls on every rank
        std::mt19937 own(static_cast<unsigned>(rank));  // delays of its own
        for (int round = 0; round < 300 && !HasFailure(); ++round) {
          Case call;
          call.op = tcOpBarrier + static_cast<int>(common() % 9);
          call.type = static_cast<tcDataType_t>(common() % (Reduces(call.op) ? 10 : 12));
          call.reduction = static_cast<tcRedOp_t>(common() % 5);
          call.root = static_cast<int>(common()) & 0xff;
          call.root %= n;
          call.count = common() % (common() % 8 == 0 ? 9000 : 300);
          call.seed = static_cast<uint64_t>(round) + 1;
          call.in_place = common() % 2 == 0 && MayBeInPlace(call.op);
          call.where = static_cast<Where>(common() % 3);
          call.misaligned = common() % 4 != 0;
          if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
          if (call.op == tcOpBarrier) {
            TC_EXPECT_OK(tcBarrier(comm, nullptr));
          } else {
            buffers.Run(call);
          }
        }
        TC_EXPECT_OK(tcStreamSynchronize(comm, nullptr));
      },
      SmallWorkspace());
}

TEST_P(Collectives, AreExactInManyChunks) {
  RunRanks(launch(), n_ranks(), [n = n_ranks()](int rank, tcComm_t comm) {
    Rank buffers(rank, n, comm);
    uint64_t seed = 0;
    for (tcOp_t op = tcOpReduceScatter; op <= tcOpAllToAllV; ++op) {
      for (const Where where : {Where::kPlain, Where::kRegistered}) {
        const size_t count = op == tcOpAllReduce ? 400'009 : kArena / 8 / n - 100;
        buffers.Run({.op = op,
                     .type = tcFloat64,
                     .count = count,
                     .seed = ++seed,
                     .in_place = seed % 4 < 2 && MayBeInPlace(op),
                     .where = where});
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Collectives,
                         ::testing::Combine(::testing::Values(Launch::kThreads), ::testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& param) { return std::to_string(std::get<1>(param.param)); });
INSTANTIATE_TEST_SUITE_P(Processes, Collectives,
                         ::testing::Combine(::testing::Values(Launch::kProcesses), ::testing::Values(2, 3)),
                         [](const auto& param) { return std::to_string(std::get<1>(param.param)); });

// A buffer of operators, and its image in host memory. All ranks make and free theirs while no operator waits: they may
// share a GPU.
template <class Element>
class Buffer {
 public:
  Buffer(tcComm_t comm, std::vector<Element> elements)
      : image_(std::move(elements)), device_(comm, image_.data(), image_.size() * sizeof(Element)) {
    Rendezvous();
  }
  ~Buffer() { Rendezvous(); }

  Element* get() const { return static_cast<Element*>(device_.get()); }
  // What is in the buffer now. Completes what the rank has enqueued.
  const std::vector<Element>& Fetch() {
    device_.Fetch();
    return image_;
  }

 private:
  std::vector<Element> image_;
  OnDevice device_;
};

class CollectivesContract : public ::testing::Test {
 protected:
  void SetUp() override {
    tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  }
  void TearDown() override { tcSetLogCallback(nullptr, nullptr); }
};

// An all-reduce by every algorithm, and as a reduce-scatter and an all-gather, gives the same bits; nobody waits for
// one operator before the next is enqueued.
TEST_F(CollectivesContract, EveryWayToAllReduceGivesTheSameBits) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 30'000;  // a multiple of kRanks; two shots, several slabs
  RunRanks(
      Launch::kThreads, kRanks,
      [](int rank, tcComm_t comm) {
        for (const tcDataType_t type : {tcFloat32, tcBfloat16, tcFloat16}) {
          const size_t size = ElementSize(type);
          std::vector<unsigned char> values(kCount * size);
          for (size_t i = 0; i < kCount; ++i) StoreElement(&values[i * size], type, ElementBits(type, 5, rank, i));
          const std::vector<unsigned char> empty(values.size());
          Buffer send(comm, values), whole(comm, empty), parts(comm, empty), pieces(comm, empty);
          constexpr size_t kBlock = kCount / kRanks;
          unsigned char* const own = parts.get() + rank * kBlock * size;
          TC_EXPECT_OK(tcAllReduce(send.get(), whole.get(), kCount, type, tcSum, comm, TestStream()));
          TC_EXPECT_OK(tcReduceScatter(send.get(), own, kBlock, type, tcSum, comm, TestStream()));
          TC_EXPECT_OK(tcAllGather(own, parts.get(), kBlock, type, comm, TestStream()));
          for (size_t first = 0; first < kCount * size; first += 1000 * size) {  // in one shot each
            TC_EXPECT_OK(tcAllReduce(send.get() + first, pieces.get() + first, 1000, type, tcSum, comm, TestStream()));
          }
          TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
          EXPECT_TRUE(whole.Fetch() != empty);
          EXPECT_TRUE(whole.Fetch() == parts.Fetch());
          EXPECT_TRUE(whole.Fetch() == pieces.Fetch());
        }
      },
      SmallWorkspace());
}

// `call` differs between the ranks: all fail with a sentence that has all the words, and the recvbuff is untouched.
template <class Differing>
void ExpectMismatch(const Differing& call, const std::vector<std::string>& words) {
  RunRanks(
      Launch::kThreads, 3,
      [&](int rank, tcComm_t comm) {
        for (int round = 0; round < 2; ++round) {
          Buffer send(comm, std::vector(30'000, 1.0f)), recv(comm, std::vector(30'000, 7.0f));
          TC_EXPECT_OK(call(rank, send.get(), recv.get(), comm));
          EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcInvalidUsage);
          const std::string said = tcGetLastError(comm);
          for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << said;
          EXPECT_TRUE(recv.Fetch() == std::vector(30'000, 7.0f));
          TC_EXPECT_OK(tcAllReduce(send.get(), recv.get(), 10, tcFloat32, tcSum, comm, TestStream()));
          TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
          EXPECT_EQ(recv.Fetch()[9], 3.0f);
        }
      },
      SmallWorkspace());
}

TEST_F(CollectivesContract, RanksThatDisagreeAreToldBothShapes) {
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllReduce(send, recv, rank == 1 ? 6 : 5, tcFloat32, tcSum, comm, TestStream());
      },
      {"tcAllReduce(count=5, float, sum)", "rank 1", "tcAllReduce(count=6, float, sum)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllReduce(send, recv, 20'000, tcFloat32, rank == 2 ? tcMax : tcSum, comm, TestStream());
      },
      {"float, sum)", "rank 2", "float, max)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcReduceScatter(send, recv, 9000, rank == 0 ? tcInt32 : tcFloat32, tcProd, comm, TestStream());
      },
      {"tcReduceScatter(count=9000, int32, prod)", "tcReduceScatter(count=9000, float, prod)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcBroadcast(send, recv, 20'000, tcFloat32, rank == 2 ? 1 : 0, comm, TestStream());
      },
      {"tcBroadcast(count=20000, float, root=0)", "rank 2", "root=1)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllToAll(send, recv, rank == 1 ? 9000 : 3, tcFloat32, comm, TestStream());
      },
      {"tcAllToAll(count=3, float)", "tcAllToAll(count=9000, float)"});
  const size_t even[] = {4, 4, 4};
  const size_t uneven[] = {4, 5, 3};
  ExpectMismatch(
      [&](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllGatherV(send, recv, rank == 2 ? uneven : even, nullptr, tcFloat32, comm, TestStream());
      },
      {"tcAllGatherV(count=12, float)", "with other counts"});
  ExpectMismatch(
      [&](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcReduceScatterV(send, recv, rank == 0 ? uneven : even, tcFloat32, tcMin, comm, TestStream());
      },
      {"tcReduceScatterV(count=12, float, min)", "with other counts"});
  ExpectMismatch(
      [&](int rank, const float* send, float* recv, tcComm_t comm) {
        return rank == 0 ? tcAllReduce(send, recv, 4, tcFloat32, tcSum, comm, TestStream())
                         : tcAllToAllV(send, even, nullptr, recv, even, nullptr, tcFloat32, comm, TestStream());
      },
      {"tcAllReduce(count=4, float, sum)", "tcAllToAllV(float)"});
}

TEST_F(CollectivesContract, PairsThatDisagreeOnAnAllToAllVAreNamedWithTheirCounts) {
  for (const size_t wrong : {size_t{0}, size_t{9}, size_t{9000}}) {  // less and more than is sent, by slabs even
    ExpectMismatch(
        [&](int rank, const float* send, float* recv, tcComm_t comm) {
          const size_t sends[] = {4, 4, 4};
          const size_t receives[] = {4, rank == 2 ? wrong : 4, 4};
          return tcAllToAllV(send, sends, nullptr, recv, receives, nullptr, tcFloat32, comm, TestStream());
        },
        {"rank 1", "sendcounts[2] = 4", "rank 2", "recvcounts[1] = " + std::to_string(wrong)});
  }
}

TEST_F(CollectivesContract, BadArgumentsAreRefusedWithASentenceAndHarmNothing) {
  RunRanks(Launch::kThreads, 1, [](int, tcComm_t comm) {
    std::vector<float> values(64);
    values[3] = 5;
    Buffer a(comm, values), b(comm, std::vector<float>(64));
    float* const x = a.get();
    float* const y = b.get();
    auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(y) + 1);
    constexpr tcDataType_t kType = tcFloat32;
    constexpr size_t kHuge = SIZE_MAX / 2;
    const size_t four[] = {4};
    const size_t huge[] = {kHuge};
    const size_t three[] = {3};
    EXPECT_FAILS(tcReduceScatter(nullptr, y, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument,
                 "sendbuff is NULL");
    EXPECT_FAILS(tcReduceScatter(x, nullptr, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument,
                 "recvbuff is NULL");
    EXPECT_FAILS(tcReduceScatter(x, odd, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "misaligned");
    EXPECT_FAILS(tcReduceScatter(x, x + 1, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcReduceScatter(x, y, 4, kType, 5, comm, TestStream()), tcInvalidArgument, "op 5");
    EXPECT_FAILS(tcReduceScatter(x, y, kHuge, kType, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcReduceScatterV(x, y, nullptr, kType, tcSum, comm, TestStream()), tcInvalidArgument,
                 "recvcounts is NULL");
    EXPECT_FAILS(tcReduceScatterV(x, y, huge, kType, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcReduceScatterV(x, x + 1, four, kType, tcSum, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllReduce(x, nullptr, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "recvbuff is NULL");
    EXPECT_FAILS(tcAllReduce(odd, x, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "misaligned");
    EXPECT_FAILS(tcAllReduce(x, x + 3, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllReduce(x, y, 4, kType, -1, comm, TestStream()), tcInvalidArgument, "op -1");
    EXPECT_FAILS(tcAllReduce(x, y, 4, 12, tcSum, comm, TestStream()), tcInvalidArgument, "type 12");
    EXPECT_FAILS(tcAllReduce(x, y, kHuge, kType, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcAllReduce(x, y, 4, tcFloat8e4m3, tcSum, comm, TestStream()), tcUnsupported, "fp8_e4m3");
    EXPECT_FAILS(tcBroadcast(nullptr, y, 4, kType, 0, comm, TestStream()), tcInvalidArgument, "sendbuff is NULL");
    EXPECT_FAILS(tcBroadcast(x, nullptr, 4, kType, 0, comm, TestStream()), tcInvalidArgument, "recvbuff is NULL");
    EXPECT_FAILS(tcBroadcast(x, y, 4, kType, 1, comm, TestStream()), tcInvalidArgument, "root is 1");
    EXPECT_FAILS(tcBroadcast(x, y, 4, kType, -1, comm, TestStream()), tcInvalidArgument, "root is -1");
    EXPECT_FAILS(tcBroadcast(x + 1, x, 4, kType, 0, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllToAll(x, x, 4, kType, comm, TestStream()), tcInvalidArgument, "no all-to-all in place");
    EXPECT_FAILS(tcAllToAll(nullptr, x, 4, kType, comm, TestStream()), tcInvalidArgument, "sendbuff is NULL");
    EXPECT_FAILS(tcAllToAll(x, y, kHuge, kType, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcAllGatherV(x, y, nullptr, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "recvcounts is NULL");
    EXPECT_FAILS(tcAllGatherV(x, y, four, huge, kType, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcAllGatherV(x, x + 1, four, nullptr, kType, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllGatherV(nullptr, y, four, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "sendbuff is NULL");
    EXPECT_FAILS(tcAllToAllV(x, nullptr, nullptr, y, four, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "sendcounts is NULL");
    EXPECT_FAILS(tcAllToAllV(x, four, nullptr, y, nullptr, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "recvcounts is NULL");
    EXPECT_FAILS(tcAllToAllV(x, four, nullptr, y, three, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "itself");
    EXPECT_FAILS(tcAllToAllV(x, four, nullptr, x, four, three, kType, comm, TestStream()), tcInvalidArgument,
                 "overlaps");
    constexpr size_t kBeyond = size_t{1} << 61;  // more bytes than an address space has, and less than 2^63
    EXPECT_FAILS(tcAllReduce(x, x, kBeyond, tcInt8, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    const size_t far[] = {kBeyond};
    EXPECT_FAILS(tcAllGatherV(x, y, four, far, tcInt8, comm, TestStream()), tcInvalidArgument, "displs[0]");
    const size_t none[] = {0};
    TC_EXPECT_OK(tcAllGatherV(x, y, none, far, kType, comm, TestStream()));  // where nothing goes does not matter
    tcResult_t state = tcInternalError;
    TC_EXPECT_OK(tcCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, tcSuccess);
    TC_EXPECT_OK(tcAllReduce(x, y, 4, kType, tcAvg, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    EXPECT_EQ(b.Fetch()[3], 5);
  });
}

TEST_F(CollectivesContract, BlocksOfOneBufferMayShareWhatIsReadAndNothingThatIsWritten) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    Buffer send(comm, std::vector{rank, rank + 10}), recv(comm, std::vector(4, -1));
    const size_t counts[] = {2, 2};
    const size_t same[] = {0, 0};
    const size_t shared[] = {0, 1};
    TC_EXPECT_OK(tcAllToAllV(send.get(), counts, same, recv.get(), counts, nullptr, tcInt32, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    EXPECT_EQ(recv.Fetch(), (std::vector{0, 10, 1, 11}));
    EXPECT_FAILS(tcAllToAllV(send.get(), counts, same, recv.get(), counts, shared, tcInt32, comm, TestStream()),
                 tcInvalidArgument, "ranks 0 and 1 overlap");
    EXPECT_FAILS(tcAllGatherV(send.get(), recv.get(), counts, shared, tcInt32, comm, TestStream()), tcInvalidArgument,
                 "ranks 0 and 1 overlap");
  });
}

// Empty blocks need no buffers.
TEST_F(CollectivesContract, EmptyOperatorsSucceedAndCount) {
  RunRanks(Launch::kThreads, 3, [](int, tcComm_t comm) {
    const size_t none[] = {0, 0, 0};
    TC_EXPECT_OK(tcReduceScatter(nullptr, nullptr, 0, tcFloat16, tcSum, comm, TestStream()));
    TC_EXPECT_OK(tcReduceScatterV(nullptr, nullptr, none, tcFloat16, tcSum, comm, TestStream()));
    TC_EXPECT_OK(tcAllReduce(nullptr, nullptr, 0, tcFloat16, tcAvg, comm, TestStream()));
    TC_EXPECT_OK(tcBroadcast(nullptr, nullptr, 0, tcFloat16, 2, comm, TestStream()));
    TC_EXPECT_OK(tcAllToAll(nullptr, nullptr, 0, tcFloat16, comm, TestStream()));
    TC_EXPECT_OK(tcAllGatherV(nullptr, nullptr, none, nullptr, tcFloat16, comm, TestStream()));
    TC_EXPECT_OK(tcAllToAllV(nullptr, none, nullptr, nullptr, none, nullptr, tcFloat16, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    tcCommStats_t stats;
    TC_COMM_STATS_INIT(&stats);
    TC_EXPECT_OK(tcCommGetStats(comm, &stats));
    EXPECT_EQ(stats.ops, 7u);
    EXPECT_EQ(stats.bytesSent, 0u);
  });
}

TEST_F(CollectivesContract, OpSupportedKnowsThem) {
  RunRanks(Launch::kThreads, 2, [](int, tcComm_t comm) {
    tcOpDesc_t desc;
    TC_OP_DESC_INIT(&desc);
    desc.count = 5;
    for (tcOp_t op = tcOpAllGather; op <= tcOpAllToAllV; ++op) {
      desc.op = op;
      desc.type = tcBfloat16;
      TC_EXPECT_OK(tcOpSupported(comm, &desc));
      desc.type = tcFloat8e5m2;
      EXPECT_EQ(tcOpSupported(comm, &desc), Reduces(op) ? tcUnsupported : tcSuccess) << op;
    }
    desc.op = tcOpAllReduce;
    desc.type = tcInt64;
    desc.redOp = 9;
    EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "op 9");
    desc.op = tcOpBroadcast;
    desc.root = 2;
    EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "root is 2");
    desc.root = 1;
    desc.count = SIZE_MAX / 4;
    EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "address");
  });
}

TEST_F(CollectivesContract, ACallThatOneRankRefusesFailsOnAllWithItsSentence) {
  RunRanks(Launch::kThreads, 3, [](int rank, tcComm_t comm) {
    const size_t counts[] = {2, 2, 2};
    Buffer send(comm, std::vector(16, 1.0f)), recv(comm, std::vector<float>(16));
    const tcResult_t called = tcAllToAllV(send.get(), rank == 1 ? nullptr : counts, nullptr, recv.get(), counts,
                                          nullptr, tcFloat32, comm, TestStream());
    EXPECT_EQ(called, rank == 1 ? tcInvalidArgument : tcSuccess);
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), rank == 1 ? tcSuccess : tcInvalidArgument);
    EXPECT_NE(std::string(tcGetLastError(comm)).find("sendcounts is NULL"), std::string::npos) << tcGetLastError(comm);
    TC_EXPECT_OK(tcAllReduce(send.get(), recv.get(), 16, tcFloat32, tcSum, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    EXPECT_EQ(recv.Fetch()[15], 3.0f);
  });
}

TEST_F(CollectivesContract, AWorkspaceThatIsTooSmallIsUnsupportedOnEveryRank) {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 512;
  RunRanks(
      Launch::kThreads, 2,
      [](int, tcComm_t comm) {
        const size_t counts[] = {2, 2};
        Buffer send(comm, std::vector(4096, 1.0f)), recv(comm, std::vector<float>(4096));
        EXPECT_FAILS(
            tcAllToAllV(send.get(), counts, nullptr, recv.get(), counts, nullptr, tcFloat32, comm, TestStream()),
            tcUnsupported, "workspace can stage 512 bytes");
        TC_EXPECT_OK(tcAllReduce(send.get(), recv.get(), 4096, tcFloat32, tcSum, comm, TestStream()));
        TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
        EXPECT_EQ(recv.Fetch()[4095], 2.0f);
      },
      config);
}

}  // namespace
}  // namespace tc::test
