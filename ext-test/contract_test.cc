// Bad input from outside: each gives its code and a sentence, harms nothing, and leaves the communicator usable where
// the contract says so.
#include <sys/socket.h>
#include <sys/un.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <mutex>

#include "matrix.h"
#include "ranks.h"

namespace tc::test {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

void SilenceLog(int, const char*, void*) {}

class Contract : public ::testing::Test {
 protected:
  void SetUp() override { tcSetLogCallback(SilenceLog, nullptr); }
  void TearDown() override { tcSetLogCallback(nullptr, nullptr); }
};

tcComm_t OneRank() {
  tcUniqueId id;
  tcComm_t comm = nullptr;
  const tcConfig_t config = TestConfig();
  TC_EXPECT_OK(tcGetUniqueId(&id));
  TC_EXPECT_OK(tcInitComm(&comm, 1, &id, 0, &config));
  return comm;
}

// A small all-gather on all ranks: the proof that a communicator still works.
void ExpectUsable(int rank, tcComm_t comm) {
  int n_ranks = 0;
  TC_EXPECT_OK(tcCommCount(comm, &n_ranks));
  const int32_t mine = 40 + rank;
  std::vector<int32_t> all(n_ranks);
  Rendezvous();
  {
    const OnDevice on_mine(comm, &mine, sizeof(mine));
    OnDevice on_all(comm, all.data(), all.size() * sizeof(int32_t));
    Rendezvous();
    TC_EXPECT_OK(tcAllGather(on_mine.get(), on_all.get(), 1, tcInt32, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    on_all.Fetch();
    Rendezvous();
  }
  Rendezvous();  // no operator waits while somebody frees
  for (int peer = 0; peer < n_ranks; ++peer) EXPECT_EQ(all[peer], 40 + peer);
}

TEST_F(Contract, InitRefusesBadRanksIdsAndConfigurations) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  tcComm_t comm = reinterpret_cast<tcComm_t>(1);
  EXPECT_FAILS(tcInitComm(&comm, 0, &id, 0, nullptr), tcInvalidArgument, "nRanks is 0");
  EXPECT_EQ(comm, nullptr);
  EXPECT_FAILS(tcInitComm(&comm, 17, &id, 0, nullptr), tcInvalidArgument, "nRanks is 17");
  EXPECT_FAILS(tcInitComm(&comm, 4, &id, 4, nullptr), tcInvalidArgument, "0 to 3");
  EXPECT_FAILS(tcInitComm(&comm, 4, &id, -1, nullptr), tcInvalidArgument, "rank is -1");
  EXPECT_FAILS(tcInitComm(&comm, 1, nullptr, 0, nullptr), tcInvalidArgument, "unique id is NULL");
  EXPECT_FAILS(tcInitComm(nullptr, 1, &id, 0, nullptr), tcInvalidArgument, "comm is NULL");
  const tcUniqueId zeros{};
  EXPECT_FAILS(tcInitComm(&comm, 1, &zeros, 0, nullptr), tcInvalidArgument, "tcGetUniqueId");
  EXPECT_FAILS(tcGetUniqueId(nullptr), tcInvalidArgument, "NULL");
  EXPECT_FAILS(tcUniqueIdFromString("", &id), tcInvalidArgument, "empty");
  EXPECT_FAILS(tcInitCommAll(&comm, 0, nullptr, nullptr), tcInvalidArgument, "nRanks is 0");

  tcConfig_t config = TestConfig();
  config.size = 8;
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, &config), tcInvalidArgument, "config.size is 8");
  config = TestConfig();
  config.timeoutMs = -5;
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, &config), tcInvalidArgument, "timeoutMs is -5");
  config = TestConfig();
  config.backend = 9;
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, &config), tcInvalidArgument, "backend is 9");
  config = TestConfig();
  config.device = -7;
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, &config), tcInvalidArgument, "device is -7");
}

TEST_F(Contract, ALargerStructureIsAcceptedWhenItsTailIsZero) {
  struct {
    tcConfig_t config;
    char tail[32];
  } future;
  TC_EXPECT_OK(tcConfigInit(&future.config, sizeof(future)));
  EXPECT_EQ(future.config.size, sizeof(future));
  future.config.backend = tcBackendHost;
  tcUniqueId id;
  tcComm_t comm = nullptr;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  TC_EXPECT_OK(tcInitComm(&comm, 1, &id, 0, &future.config));
  TC_EXPECT_OK(tcCommDestroy(comm));
  future.tail[31] = 1;
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, &future.config), tcInvalidArgument, "does not know");
}

TEST_F(Contract, InitNeverWritesPastTheCallersSize) {
  unsigned char bytes[sizeof(tcGemmConfig_t) + 16];
  std::memset(bytes, 0x5A, sizeof(bytes));
  TC_EXPECT_OK(tcGemmConfigInit(reinterpret_cast<tcGemmConfig_t*>(bytes), sizeof(tcGemmConfig_t)));
  for (size_t i = sizeof(tcGemmConfig_t); i < sizeof(bytes); ++i) EXPECT_EQ(bytes[i], 0x5A);
  EXPECT_FAILS(tcGemmConfigInit(reinterpret_cast<tcGemmConfig_t*>(bytes), 12), tcInvalidArgument, "size is 12");
  EXPECT_FAILS(tcConfigInit(nullptr, sizeof(tcConfig_t)), tcInvalidArgument, "NULL");
}

TEST_F(Contract, ABadEnvironmentValueIsAnErrorThatNamesIt) {
  tcUniqueId id;
  tcComm_t comm = nullptr;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  for (const auto& [name, value] : {std::pair{"TC_TIMEOUT_MS", "soon"},
                                    {"TC_BACKEND", "gpu"},
                                    {"TC_WORKSPACE_BYTES", "12X"},
                                    {"TC_DEBUG", "loud"},
                                    {"TC_HOST_THREADS", "0"}}) {
    ::setenv(name, value, 1);
    EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, nullptr), tcInvalidArgument, name);
    ::unsetenv(name);
  }
  if (GpuCount() > 0) return;
  ::setenv("TC_BACKEND", "cuda", 1);
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, nullptr), tcUnsupported, "CUDA");
  ::unsetenv("TC_BACKEND");
}

TEST_F(Contract, HandlesThatAreNotLiveAreRecognised) {
  tcComm_t comm = OneRank();
  TC_EXPECT_OK(tcCommDestroy(comm));
  int value = 0;
  EXPECT_FAILS(tcCommRank(comm, &value), tcInvalidArgument, "not a live communicator");
  EXPECT_FAILS(tcCommDestroy(comm), tcInvalidArgument, "not a live communicator");
  EXPECT_FAILS(tcBarrier(comm, nullptr), tcInvalidArgument, "not a live communicator");
  EXPECT_FAILS(tcCommRank(nullptr, &value), tcInvalidArgument, "communicator is NULL");
  int somewhere = 0;
  EXPECT_FAILS(tcCommRank(reinterpret_cast<tcComm_t>(&somewhere), &value), tcInvalidArgument, "not a live");

  comm = OneRank();
  EXPECT_FAILS(tcBarrier(comm, reinterpret_cast<tcStream_t>(&somewhere)), tcInvalidArgument, "not a live stream");
  EXPECT_FAILS(tcStreamDestroy(comm, nullptr), tcInvalidArgument, "stream is NULL");
  EXPECT_FAILS(tcCommDeregister(comm, reinterpret_cast<tcWindow_t>(&somewhere)), tcInvalidArgument,
               "not a live window");
  EXPECT_FAILS(tcMemFree(&somewhere), tcInvalidArgument, "tcMemAlloc");
  tcWindow_t window = nullptr;
  EXPECT_FAILS(tcCommRegister(comm, &somewhere, 4, &window), tcInvalidArgument, "tcMemAlloc");
  ExpectUsable(0, comm);
  TC_EXPECT_OK(tcCommDestroy(comm));
}

TEST_F(Contract, AForkedChildGetsAnErrorNotAHang) {
  tcComm_t comm = OneRank();
  const pid_t child = ::fork();
  if (child == 0) {
    int rank = 0;
    const bool refused = tcCommRank(comm, &rank) == tcInvalidUsage && tcBarrier(comm, nullptr) == tcInvalidUsage;
    ::_exit(refused ? 0 : 1);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  TC_EXPECT_OK(tcCommDestroy(comm));
}

TEST_F(Contract, OperatorsRefuseBadArgumentsAndStayUsable) {
  tcComm_t comm = OneRank();
  std::vector<float> a(64), b(64), c(64);
  const auto gemm = [&](const void* pa, const void* pb, void* pc, size_t m, size_t n, size_t k, tcDataType_t type,
                        const tcGemmConfig_t* config = nullptr) {
    return tcFusedAllGatherGemm(pa, pb, pc, m, n, k, type, config, comm, nullptr);
  };
  const auto odd = [](void* p) { return static_cast<char*>(p) + 1; };
  EXPECT_FAILS(gemm(nullptr, b.data(), c.data(), 8, 8, 8, tcFloat32), tcInvalidArgument, "a is NULL");
  EXPECT_FAILS(gemm(a.data(), nullptr, c.data(), 8, 8, 8, tcFloat32), tcInvalidArgument, "b is NULL");
  EXPECT_FAILS(gemm(a.data(), b.data(), nullptr, 8, 8, 8, tcFloat32), tcInvalidArgument, "c is NULL");
  EXPECT_FAILS(gemm(odd(a.data()), b.data(), c.data(), 4, 8, 8, tcFloat32), tcInvalidArgument, "misaligned");
  EXPECT_FAILS(gemm(a.data(), odd(b.data()), c.data(), 4, 4, 8, tcBfloat16), tcInvalidArgument, "misaligned");
  EXPECT_FAILS(gemm(a.data(), b.data(), c.data(), 8, 8, 0, tcFloat32), tcInvalidArgument, "k is 0");
  EXPECT_FAILS(gemm(a.data(), b.data(), c.data(), 8, 8, 8, tcInt32), tcUnsupported, "int32");
  EXPECT_FAILS(gemm(a.data(), b.data(), c.data(), 8, 8, 8, 77), tcInvalidArgument, "type 77");
  EXPECT_FAILS(gemm(a.data(), b.data(), a.data(), 8, 8, 8, tcFloat32), tcInvalidArgument, "overlaps");
  EXPECT_FAILS(gemm(a.data(), b.data(), c.data(), SIZE_MAX / 2, 8, 8, tcFloat32), tcInvalidArgument, "address");
  tcGemmConfig_t config;
  const auto with = [&](auto&& set) {
    TC_GEMM_CONFIG_INIT(&config);
    set(config);
    return gemm(a.data(), b.data(), c.data(), 8, 8, 8, tcFloat32, &config);
  };
  EXPECT_FAILS(with([](auto& g) { g.lda = 7; }), tcInvalidArgument, "lda is 7");
  EXPECT_FAILS(with([](auto& g) { g.bLayout = 5; }), tcInvalidArgument, "bLayout 5");
  EXPECT_FAILS(with([](auto& g) { g.plane = 9; }), tcInvalidArgument, "plane 9 is no tcPlane_t");
  EXPECT_FAILS(with([](auto& g) { g.plane = tcPlaneHostStaged; }), tcUnsupported, "made at init");
  EXPECT_FAILS(with([](auto& g) { g.plane = tcPlaneCopyEngine; }), tcUnsupported, "plane 3");
  EXPECT_FAILS(with([&](auto& g) { g.bias = b.data(); }), tcUnsupported, "bias");
  EXPECT_FAILS(with([](auto& g) { g.activation = tcActivationGelu; }), tcUnsupported, "activation");
  const size_t rows = 7;
  EXPECT_FAILS(with([&](auto& g) { g.rowsPerRank = &rows; }), tcInvalidArgument, "rowsPerRank sums to 7");
  EXPECT_FAILS(with([&](auto& g) { g.size = 3; }), tcInvalidArgument, "config.size");

  EXPECT_FAILS(tcAllGather(nullptr, c.data(), 4, tcFloat32, comm, nullptr), tcInvalidArgument, "sendbuff is NULL");
  EXPECT_FAILS(tcAllGather(a.data(), nullptr, 4, tcFloat32, comm, nullptr), tcInvalidArgument, "recvbuff is NULL");
  EXPECT_FAILS(tcAllGather(a.data() + 1, a.data(), 4, tcFloat32, comm, nullptr), tcInvalidArgument, "in place");
  EXPECT_FAILS(tcFusedGemmAllReduce(a.data(), b.data(), c.data(), 8, 8, 8, tcFloat32, nullptr, comm, nullptr),
               tcUnsupported, "not built yet");
  EXPECT_FAILS(tcMemcpyAsync(comm, nullptr, a.data(), 4, nullptr), tcInvalidArgument, "dst is NULL");
  tcMoe_t moe = nullptr;
  EXPECT_FAILS(tcMoeCreate(&moe, nullptr, comm), tcUnsupported, "not built yet");

  tcResult_t state = tcInternalError;
  TC_EXPECT_OK(tcCommGetAsyncError(comm, &state));
  EXPECT_EQ(state, tcSuccess);
  ExpectUsable(0, comm);
  TC_EXPECT_OK(tcCommDestroy(comm));
}

TEST_F(Contract, OpSupportedTellsWhatWouldRun) {
  tcComm_t comm = OneRank();
  tcOpDesc_t desc;
  TC_OP_DESC_INIT(&desc);
  desc.op = tcOpAllGatherGemm;
  desc.type = tcBfloat16;
  desc.m = desc.n = desc.k = 64;
  TC_EXPECT_OK(tcOpSupported(comm, &desc));
  desc.type = tcInt8;
  EXPECT_FAILS(tcOpSupported(comm, &desc), tcUnsupported, "int8");
  desc.op = tcOpGemmAllReduce;
  desc.type = tcFloat32;
  EXPECT_FAILS(tcOpSupported(comm, &desc), tcUnsupported, "tcFusedGemmAllReduce");
  TC_EXPECT_OK(tcCommDestroy(comm));
}

// A call that one rank refuses makes the others' fail with its sentence; the next call works on all.
TEST_F(Contract, ARefusedCallIsPostedToThePeers) {
  for (const Launch launch : {Launch::kThreads, Launch::kProcesses}) {
    if (launch == Launch::kProcesses && OnGpu()) continue;  // a process that forks must not have touched CUDA
    RunRanks(launch, 3, [](int rank, tcComm_t comm) {
      std::vector<float> a(64), b(64), c(192);
      const tcResult_t called = tcFusedAllGatherGemm(a.data(), rank == 1 ? nullptr : b.data(), c.data(), 9, 8, 8,
                                                     tcFloat32, nullptr, comm, TestStream());
      EXPECT_EQ(called, rank == 1 ? tcInvalidArgument : tcSuccess);
      EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), rank == 1 ? tcSuccess : tcInvalidArgument);
      const std::string said = tcGetLastError(comm);
      EXPECT_NE(said.find("b is NULL"), std::string::npos) << said;
      if (rank != 1) {
        EXPECT_NE(said.find("rank 1"), std::string::npos) << said;
      }
      ExpectUsable(rank, comm);
    });
  }
}

TEST_F(Contract, DifferentShapesAreAnErrorThatPrintsBoth) {
  RunRanks(Launch::kThreads, 3, [](int rank, tcComm_t comm) {
    std::vector<float> a(128), b(128), c(1024, 7.0f);
    TC_EXPECT_OK(tcFusedAllGatherGemm(a.data(), b.data(), c.data(), rank == 2 ? 12 : 9, 8, 8, tcFloat32, nullptr, comm,
                                      TestStream()));
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcInvalidUsage);
    const std::string said = tcGetLastError(comm);
    EXPECT_NE(said.find("m=9"), std::string::npos) << said;
    EXPECT_NE(said.find("m=12"), std::string::npos) << said;
    for (const float untouched : c) EXPECT_EQ(untouched, 7.0f);  // a refused operator has no effect
    ExpectUsable(rank, comm);

    if (rank == 0) {
      TC_EXPECT_OK(tcBarrier(comm, TestStream()));
    } else {
      TC_EXPECT_OK(tcAllGather(a.data(), c.data(), 3, tcFloat32, comm, TestStream()));
    }
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcInvalidUsage);
    EXPECT_NE(std::string(tcGetLastError(comm)).find("tcBarrier"), std::string::npos);
    ExpectUsable(rank, comm);

    const size_t rows[2][3] = {{3, 3, 3}, {3, 2, 4}};
    tcGemmConfig_t config;
    TC_GEMM_CONFIG_INIT(&config);
    config.rowsPerRank = rows[rank == 1];
    TC_EXPECT_OK(tcFusedAllGatherGemm(a.data(), b.data(), c.data(), 9, 8, 8, tcFloat32, &config, comm, TestStream()));
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcInvalidUsage);
    EXPECT_NE(std::string(tcGetLastError(comm)).find("rowsPerRank"), std::string::npos) << tcGetLastError(comm);
    ExpectUsable(rank, comm);
  });
}

TEST_F(Contract, TwoRanksWithOneNumberAreNamed) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  const int numbers[] = {0, 1, 1};
  std::vector<std::thread> ranks;
  std::atomic<int> failed{0};
  ::setenv("TC_INIT_TIMEOUT_MS", "5000", 1);
  for (const int number : numbers) {
    ranks.emplace_back([&, number] {
      tcComm_t comm = nullptr;
      const tcConfig_t config = TestConfig();
      if (tcInitComm(&comm, 3, &id, number, &config) != tcSuccess) ++failed;
      EXPECT_EQ(comm, nullptr);
      EXPECT_NE(std::string(tcGetLastError(nullptr)).find("number 1"), std::string::npos) << tcGetLastError(nullptr);
    });
  }
  for (std::thread& rank : ranks) rank.join();
  ::unsetenv("TC_INIT_TIMEOUT_MS");
  EXPECT_EQ(failed, 3);
}

TEST_F(Contract, AMissingRankIsNamedWithinTheTimeLimit) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  ::setenv("TC_INIT_TIMEOUT_MS", "300", 1);
  const auto start = steady_clock::now();
  std::thread other([&] {
    tcComm_t comm = nullptr;
    EXPECT_FAILS(tcInitComm(&comm, 3, &id, 1, nullptr), tcTimeout, "rank 2");
  });
  tcComm_t comm = nullptr;
  EXPECT_FAILS(tcInitComm(&comm, 3, &id, 0, nullptr), tcTimeout, "rank 2");
  other.join();
  ::unsetenv("TC_INIT_TIMEOUT_MS");
  EXPECT_LT(steady_clock::now() - start, milliseconds(5000));
}

TEST_F(Contract, RanksMustAgreeOnTheWorkspace) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 2; ++rank) {
    ranks.emplace_back([&, rank] {
      tcConfig_t config = TestConfig();
      config.workspaceBytes += rank;
      tcComm_t comm = nullptr;
      EXPECT_EQ(tcInitComm(&comm, 2, &id, rank, &config), tcInvalidUsage);
      const std::string said = tcGetLastError(nullptr);
      EXPECT_NE(said.find("16777216"), std::string::npos) << said;
      EXPECT_NE(said.find("16777217"), std::string::npos) << said;
    });
  }
  for (std::thread& rank : ranks) rank.join();
}

TEST_F(Contract, AStrangerOnTheSocketDisturbsNobody) {
  // In a directory of its own, where the socket can be found by name.
  std::filesystem::path directory = std::filesystem::temp_directory_path() / "tilecomm-contract-XXXXXX";
  std::string name = directory.string();
  ASSERT_NE(::mkdtemp(name.data()), nullptr);
  directory = name;
  const auto entries = [&] {
    const std::filesystem::directory_iterator first(directory);
    return std::vector<std::filesystem::path>(begin(first), end(first));
  };
  ::setenv("TC_BOOTSTRAP_DIR", name.c_str(), 1);
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  const tcConfig_t config = TestConfig();
  std::thread root([&] { RunRank(2, id, 0, config, [](int rank, tcComm_t comm) { ExpectUsable(rank, comm); }); });
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const int stranger = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  bool connected = false;
  for (int tries = 0; !connected && tries < 2000; ++tries) {
    std::this_thread::sleep_for(milliseconds(5));
    for (const auto& path : entries()) {
      std::snprintf(address.sun_path, sizeof(address.sun_path), "%s", path.c_str());
      connected = connected || ::connect(stranger, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    }
  }
  EXPECT_TRUE(connected);
  const char garbage[] = "let me in";
  EXPECT_GT(::send(stranger, garbage, sizeof(garbage), MSG_NOSIGNAL), 0);
  RunRank(2, id, 1, config, [](int rank, tcComm_t comm) { ExpectUsable(rank, comm); });
  root.join();
  ::unsetenv("TC_BOOTSTRAP_DIR");
  ::close(stranger);
  EXPECT_TRUE(entries().empty());  // nothing is left behind
  std::filesystem::remove_all(directory);
}

TEST_F(Contract, AnAbortReachesWaitingPeersAndEndsEverythingQuickly) {
  for (const Launch launch : {Launch::kThreads, Launch::kProcesses}) {
    if (launch == Launch::kProcesses && OnGpu()) continue;  // a process that forks must not have touched CUDA
    RunRanks(launch, 3, [](int rank, tcComm_t comm) {
      ExpectUsable(rank, comm);
      const auto start = steady_clock::now();
      if (rank == 2) {
        std::this_thread::sleep_for(milliseconds(200));  // the others have begun to wait
        TC_EXPECT_OK(tcCommAbort(comm));
        TC_EXPECT_OK(tcCommAbort(comm));
      } else {
        for (int i = 0; i < 100; ++i) {
          const tcResult_t queued = tcBarrier(comm, TestStream());
          EXPECT_TRUE(queued == tcSuccess || queued == tcAborted);
        }
        EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcAborted);
        EXPECT_NE(std::string(tcGetLastError(comm)).find("rank 2"), std::string::npos) << tcGetLastError(comm);
      }
      EXPECT_LT(steady_clock::now() - start, milliseconds(2000));
      EXPECT_FAILS(tcBarrier(comm, TestStream()), tcAborted, "has ended");
      const volatile int32_t* word = nullptr;
      TC_EXPECT_OK(tcCommGetErrorWord(comm, &word, nullptr));
      EXPECT_EQ(*word, tcAborted);
      tcResult_t state = tcSuccess;
      TC_EXPECT_OK(tcCommGetAsyncError(comm, &state));
      EXPECT_EQ(state, tcAborted);
    });
  }
}

// One of three processes is killed while the others wait for it, or before they do.
TEST_F(Contract, TheDeathOfARankEndsTheOthersWithinASecondAndANewCommunicatorWorks) {
  for (int victim = 0; victim < 3; ++victim) {
    for (const bool before : {false, true}) {
      tcUniqueId id, next;
      TC_EXPECT_OK(tcGetUniqueId(&id));
      TC_EXPECT_OK(tcGetUniqueId(&next));
      pid_t children[3];
      for (int rank = 0; rank < 3; ++rank) {
        children[rank] = ::fork();
        if (children[rank] != 0) continue;
        const tcConfig_t config = TestConfig();
        RunRank(3, id, rank, config, [&](int, tcComm_t comm) {
          ExpectUsable(rank, comm);
          // The victim lives until all have finished their first operator.
          const milliseconds death(300);
          std::this_thread::sleep_for(rank == victim ? death : before ? 2 * death : milliseconds(0));
          if (rank == victim) {
            if (::fork() == 0) {  // a worker of the victim's, which outlives it and holds its connections open
              ::sleep(2);
              ::_exit(0);
            }
            ::kill(::getpid(), SIGKILL);
          }
          const auto start = steady_clock::now();
          const tcResult_t queued = tcBarrier(comm, TestStream());
          EXPECT_EQ(queued != tcSuccess ? queued : tcStreamSynchronize(comm, TestStream()), tcRemoteError);
          EXPECT_LT(steady_clock::now() - start, death + milliseconds(1000));
          const std::string said = tcGetLastError(comm);
          EXPECT_NE(said.find("rank " + std::to_string(victim) + " died"), std::string::npos) << said;
        });
        const int again = rank < victim ? rank : rank - 1;
        RunRank(2, next, again, config, [&](int, tcComm_t comm) { ExpectUsable(again, comm); });
        std::fflush(nullptr);
        ::_exit(HasFailure() ? 1 : 0);
      }
      for (int rank = 0; rank < 3; ++rank) {
        int status = 0;
        ::waitpid(children[rank], &status, 0);
        const bool fine = rank == victim ? WIFSIGNALED(status) : WIFEXITED(status) && WEXITSTATUS(status) == 0;
        EXPECT_TRUE(fine) << "rank " << rank << ", victim " << victim << (before ? ", before" : ", while waiting");
      }
    }
  }
}

TEST_F(Contract, ARankThatNeverEntersIsNamedAndTheWaitEnds) {
  tcConfig_t config = TestConfig();
  config.entryTimeoutMs = 200;
  RunRanks(
      Launch::kThreads, 2,
      [](int rank, tcComm_t comm) {
        if (rank == 1) {
          std::this_thread::sleep_for(milliseconds(600));
          return;
        }
        TC_EXPECT_OK(tcBarrier(comm, TestStream()));
        EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcTimeout);
        const std::string said = tcGetLastError(comm);
        EXPECT_NE(said.find("waited 0.2 s for rank 1 to enter"), std::string::npos) << said;
      },
      config);
}

TEST_F(Contract, AWaitForARankThatComesLateIsWarnedAbout) {
  static std::mutex mutex;
  static std::string heard;
  heard.clear();
  tcSetLogCallback(
      [](int level, const char* message, void*) {
        std::lock_guard lock(mutex);
        if (level == tcLogWarn) heard += std::string(message) + "\n";
      },
      nullptr);
  ::setenv("TC_ENTRY_WARNING_MS", "200", 1);
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    ExpectUsable(rank, comm);
    if (rank == 1) std::this_thread::sleep_for(milliseconds(1500));
    TC_EXPECT_OK(tcBarrier(comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  });
  ::unsetenv("TC_ENTRY_WARNING_MS");
  EXPECT_NE(heard.find("rank 0: tcBarrier #"), std::string::npos) << heard;
  EXPECT_NE(heard.find("s for rank 1 to enter"), std::string::npos) << heard;
  EXPECT_GE(std::count(heard.begin(), heard.end(), '\n'), 3) << heard;
}

// Each failed operator is reported by its own stream, with its own sentence.
TEST_F(Contract, FailuresOnTwoStreamsAreBothReported) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    std::vector<float> in(8, 1.0f), out(16, -1.0f);
    OnDevice on_in(comm, in.data(), in.size() * sizeof(float));
    OnDevice on_out(comm, out.data(), out.size() * sizeof(float));
    tcStream_t other = nullptr;
    TC_EXPECT_OK(tcStreamCreate(comm, &other));
    Rendezvous();
    TC_EXPECT_OK(tcAllGather(on_in.get(), on_out.get(), rank == 0 ? 4 : 5, tcFloat32, comm, TestStream()));
    EXPECT_EQ(tcAllGather(rank == 0 ? nullptr : on_in.get(), on_out.get(), 8, tcFloat32, comm, other),
              rank == 0 ? tcInvalidArgument : tcSuccess);
    TC_EXPECT_OK(tcAllGather(on_in.get(), on_out.get(), rank == 0 ? 6 : 7, tcFloat32, comm, TestStream()));
    EXPECT_FAILS(tcStreamSynchronize(comm, TestStream()), tcInvalidUsage, "count=4");
    EXPECT_NE(std::string(tcGetLastError(comm)).find("count=5"), std::string::npos) << tcGetLastError(comm);
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    if (rank == 1) {
      EXPECT_FAILS(tcStreamSynchronize(comm, other), tcInvalidArgument, "rank 0 refused its call of tcAllGather");
    }
    TC_EXPECT_OK(tcStreamSynchronize(comm, other));
    TC_EXPECT_OK(tcStreamDestroy(comm, other));
    Rendezvous();
    ExpectUsable(rank, comm);
  });
}

// Nobody has to call anything to see the word.
TEST_F(Contract, AnIdleRankLearnsOfAnAbortByItself) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    ExpectUsable(rank, comm);
    const volatile int32_t* word = nullptr;
    TC_EXPECT_OK(tcCommGetErrorWord(comm, &word, nullptr));
    Rendezvous();
    if (rank == 1) TC_EXPECT_OK(tcCommAbort(comm));
    const auto start = steady_clock::now();
    const auto seen = [&] { return __atomic_load_n(word, __ATOMIC_ACQUIRE); };
    while (seen() == tcSuccess && steady_clock::now() - start < milliseconds(2000)) std::this_thread::yield();
    EXPECT_EQ(seen(), tcAborted);
    Rendezvous();
  });
}

TEST_F(Contract, ARankThatHasLeftIsNotWaitedFor) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    if (rank == 1) return;
    const auto start = steady_clock::now();
    TC_EXPECT_OK(tcBarrier(comm, TestStream()));
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcRemoteError);
    EXPECT_NE(std::string(tcGetLastError(comm)).find("rank 1 has destroyed"), std::string::npos)
        << tcGetLastError(comm);
    EXPECT_LT(steady_clock::now() - start, milliseconds(2000));
  });
}

// A peer whose operator ran into its limit tells the others, who would wait for it.
TEST_F(Contract, ATimeLimitOnOneRankEndsAllOfThem) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  std::vector<std::thread> ranks;
  for (int rank = 0; rank < 3; ++rank) {
    ranks.emplace_back([&, rank] {
      tcConfig_t config = TestConfig();
      config.entryTimeoutMs = rank == 0 ? 200 : 60'000;
      RunRank(3, id, rank, config, [&](int, tcComm_t comm) {
        if (rank == 2) {
          std::this_thread::sleep_for(milliseconds(1500));
          return;
        }
        const auto start = steady_clock::now();
        TC_EXPECT_OK(tcBarrier(comm, TestStream()));
        EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), rank == 0 ? tcTimeout : tcRemoteError);
        EXPECT_LT(steady_clock::now() - start, milliseconds(1200));
      });
    });
  }
  for (std::thread& each : ranks) each.join();
}

// The first slab decides for all of them, on every rank.
TEST_F(Contract, AnOperatorOfManySlabsThatIsRefusedLeavesTheCommunicatorUsable) {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 1 << 16;
  RunRanks(
      Launch::kThreads, 2,
      [](int rank, tcComm_t comm) {
        constexpr size_t kCount = 1 << 18;
        std::vector<float> mine(kCount + 1), all(2 * kCount + 2);
        for (const bool null : {true, false}) {
          const bool odd = rank == 1;
          const tcResult_t called = tcAllGather(mine.data(), odd && null ? nullptr : all.data(),
                                                kCount + (odd && !null ? 1 : 0), tcFloat32, comm, TestStream());
          EXPECT_EQ(called, odd && null ? tcInvalidArgument : tcSuccess);
          const tcResult_t expected = null ? (odd ? tcSuccess : tcInvalidArgument) : tcInvalidUsage;
          EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), expected);
          ExpectUsable(rank, comm);
        }
      },
      config);
}

TEST_F(Contract, CallsOfOneCommunicatorInAGroupKeepTheirOrder) {
  constexpr int kRanks = 2;
  const tcConfig_t config = TestConfig();
  tcComm_t comms[kRanks], parts[kRanks];
  tcWindow_t windows[kRanks][2];
  void* memory[kRanks];
  TC_EXPECT_OK(tcInitCommAll(comms, kRanks, nullptr, &config));
  for (void*& each : memory) TC_EXPECT_OK(tcMemAlloc(&each, 4096));
  for (int round = 0; round < 50; ++round) {
    TC_EXPECT_OK(tcGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      TC_EXPECT_OK(tcCommRegister(comms[rank], memory[rank], 4096, &windows[rank][0]));
      TC_EXPECT_OK(tcCommSplit(comms[rank], 0, rank, &parts[rank], nullptr));
      TC_EXPECT_OK(tcCommRegister(comms[rank], memory[rank], 64, &windows[rank][1]));
    }
    TC_EXPECT_OK(tcGroupEnd());
    TC_EXPECT_OK(tcGroupStart());
    for (int rank = 0; rank < kRanks; ++rank) {
      for (tcWindow_t window : windows[rank]) TC_EXPECT_OK(tcCommDeregister(comms[rank], window));
    }
    TC_EXPECT_OK(tcGroupEnd());
    for (tcComm_t part : parts) TC_EXPECT_OK(tcCommDestroy(part));
  }
  for (int rank = 0; rank < kRanks; ++rank) {
    TC_EXPECT_OK(tcCommDestroy(comms[rank]));
    TC_EXPECT_OK(tcMemFree(memory[rank]));
  }
}

TEST_F(Contract, ACallThatIsWrongInItselfFailsItsGroup) {
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  const tcConfig_t config = TestConfig();
  tcComm_t comms[2];
  const auto start = steady_clock::now();
  TC_EXPECT_OK(tcGroupStart());
  TC_EXPECT_OK(tcInitComm(&comms[0], 2, &id, 0, &config));
  EXPECT_FAILS(tcInitComm(&comms[1], 2, &id, 2, &config), tcInvalidArgument, "rank is 2");
  EXPECT_FAILS(tcGroupEnd(), tcInvalidArgument, "rank is 2");
  EXPECT_LT(steady_clock::now() - start, milliseconds(1000));
}

// A bad argument of a collective host call on one rank is an error on all, at once, and harms nobody.
TEST_F(Contract, ABadHostCallOnOneRankFailsOnAllAndHarmsNone) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    void* memory = nullptr;
    TC_EXPECT_OK(tcMemAlloc(&memory, 64));
    tcWindow_t window = nullptr;
    tcComm_t part = nullptr;
    EXPECT_FAILS(tcCommRegister(comm, memory, 64, rank == 1 ? nullptr : &window), tcInvalidArgument, "window is NULL");
    EXPECT_FAILS(tcCommSplit(comm, rank == 1 ? -5 : 0, 0, &part, nullptr), tcInvalidArgument, "color is -5");
    ExpectUsable(rank, comm);
    TC_EXPECT_OK(tcCommRegister(comm, memory, 64, &window));
    TC_EXPECT_OK(tcCommDeregister(comm, window));
    TC_EXPECT_OK(tcMemFree(memory));
  });
}

TEST_F(Contract, ExtremeSizesAreRefusedNotWrapped) {
  tcUniqueId id;
  tcComm_t comm = nullptr;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  tcConfig_t config = TestConfig();
  config.workspaceBytes = SIZE_MAX - 7;
  EXPECT_FAILS(tcInitComm(&comm, 1, &id, 0, &config), tcInvalidArgument, "workspaceBytes");
  comm = OneRank();
  float one = 0;
  EXPECT_FAILS(tcFusedAllGatherGemm(nullptr, &one, nullptr, 0, 1, size_t{1} << 62, tcFloat32, nullptr, comm, nullptr),
               tcInvalidArgument, "address");
  tcOpDesc_t desc;
  TC_OP_DESC_INIT(&desc);
  desc.op = -1;
  EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "op -1");
  TC_EXPECT_OK(tcCommDestroy(comm));
}

// Errors are still told after main has returned.
void FailLate() {
  const tcResult_t result = tcCommDestroy(nullptr);
  ::_exit(result == tcInvalidArgument && std::strstr(tcGetLastError(nullptr), "NULL") != nullptr ? 0 : 1);
}
TEST_F(Contract, CallsFromAnAtexitHandlerAreSafe) {
  EXPECT_EXIT(
      {
        (void)tcCommDestroy(nullptr);
        std::atexit(FailLate);
        std::exit(3);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST_F(Contract, AFinalizedCommunicatorOnlyLetsItselfBeDestroyed) {
  RunRanks(Launch::kThreads, 2, [](int, tcComm_t comm) {
    TC_EXPECT_OK(tcCommFinalize(comm));
    EXPECT_FAILS(tcBarrier(comm, TestStream()), tcInvalidUsage, "finalized");
  });
}

TEST_F(Contract, GroupsMustBeBalanced) {
  EXPECT_FAILS(tcGroupEnd(), tcInvalidUsage, "tcGroupStart");
  TC_EXPECT_OK(tcGroupStart());
  TC_EXPECT_OK(tcGroupEnd());
}

TEST_F(Contract, AWindowBelongsToItsCommunicatorAndItsOrder) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    void* memory = nullptr;
    TC_EXPECT_OK(tcMemAlloc(&memory, 4096));
    tcWindow_t windows[2];
    for (tcWindow_t& window : windows) TC_EXPECT_OK(tcCommRegister(comm, memory, 4096, &window));
    // Rank 1 gives memory that nobody can map: both ranks fail, both stay usable.
    tcWindow_t bad = nullptr;
    int local = 0;
    EXPECT_FAILS(tcCommRegister(comm, rank == 1 ? static_cast<void*>(&local) : memory, 4, &bad), tcInvalidArgument,
                 "tcMemAlloc");
    EXPECT_EQ(bad, nullptr);
    EXPECT_FAILS(tcCommDeregister(comm, windows[rank]), tcInvalidUsage, "same order");
    ExpectUsable(rank, comm);
    for (tcWindow_t window : windows) TC_EXPECT_OK(tcCommDeregister(comm, window));
    TC_EXPECT_OK(tcMemFree(memory));
  });
}

TEST_F(Contract, EveryResultHasAText) {
  for (tcResult_t result = tcSuccess; result <= tcUnsupported; ++result) {
    EXPECT_STRNE(tcGetErrorString(result), "unknown result code") << result;
  }
  EXPECT_STREQ(tcGetErrorString(1234), "unknown result code");
}

}  // namespace
}  // namespace tc::test
