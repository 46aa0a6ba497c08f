#include "comm/bootstrap.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <filesystem>
#include <functional>
#include <thread>

#include "comm/channel.h"
#include "comm/listener.h"
#include "comm/rendezvous.h"

namespace tc {
namespace {

using std::chrono::milliseconds;
using std::chrono::steady_clock;

constexpr milliseconds kPrompt{5000};  // far below the time limit of the ranks, far above a slow sanitizer build

UniqueId NewId() {
  UniqueId id;
  EXPECT_TRUE(MakeUniqueId(&id).ok());
  return id;
}

Bootstrap::Options OptionsOf(const UniqueId& id, int n_ranks, int rank, milliseconds timeout = milliseconds(30'000)) {
  Bootstrap::Options options;
  options.id = id;
  options.n_ranks = n_ranks;
  options.rank = rank;
  options.fingerprint = "tilecomm 0.1 plan 1";
  options.timeout = timeout;
  return options;
}

// One thread for each entry; the statuses in the order of the entries.
std::vector<Status> InThreads(int count, const std::function<Status(int)>& run) {
  std::vector<Status> statuses(static_cast<size_t>(count));
  std::vector<std::thread> threads;
  for (int i = 0; i < count; ++i) threads.emplace_back([&, i] { statuses[static_cast<size_t>(i)] = run(i); });
  for (std::thread& thread : threads) thread.join();
  return statuses;
}

std::vector<Status> ConnectAll(const std::vector<Bootstrap::Options>& all) {
  return InThreads(static_cast<int>(all.size()), [&](int i) {
    std::unique_ptr<Bootstrap> bootstrap;
    return Bootstrap::Connect(all[static_cast<size_t>(i)], &bootstrap);
  });
}

void ExpectAll(const std::vector<Status>& statuses, tcResult_t code, const std::string& part) {
  for (const Status& status : statuses) {
    EXPECT_EQ(status.code(), code) << status.sentence();
    EXPECT_NE(status.sentence().find(part), std::string::npos) << status.sentence();
    EXPECT_EQ(status.sentence(), statuses[0].sentence());
  }
}

void ExpectOk(const std::vector<Status>& statuses) {
  for (const Status& status : statuses) EXPECT_TRUE(status.ok()) << status.sentence();
}

int OpenFds() {
  int count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class TemporaryDirectory {
 public:
  TemporaryDirectory() { EXPECT_NE(::mkdtemp(path_.data()), nullptr); }
  ~TemporaryDirectory() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }
  bool empty() const { return std::filesystem::is_empty(path_); }

 private:
  std::string path_ = testing::TempDir() + "tcXXXXXX";
};

// Payloads of different sizes, the empty one and one above any socket buffer among them, and different for each round.
std::string PayloadOf(int rank, int round) {
  const size_t sizes[] = {0, 1, 300'000, 17, 4096};
  const size_t size = sizes[static_cast<size_t>(rank + round) % 5];
  std::string pattern(251, '\0');  // a prime, so that no shift by a block goes unseen
  for (size_t i = 0; i < pattern.size(); ++i) pattern[i] = static_cast<char>(i + static_cast<size_t>(rank * 7 + round));
  std::string payload;
  while (payload.size() < size) payload += pattern;
  payload.resize(size);
  return payload;
}

Status GatherPayloads(Bootstrap* bootstrap, int rounds) {
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::string> all = {"stale"};
    TC_RETURN_IF_ERROR(bootstrap->AllGather(Status(), PayloadOf(bootstrap->rank(), round), &all));
    if (all.size() != static_cast<size_t>(bootstrap->n_ranks()))
      return Error(tcInternalError, "%zu entries", all.size());
    for (int rank = 0; rank < bootstrap->n_ranks(); ++rank) {
      if (all[static_cast<size_t>(rank)] != PayloadOf(rank, round)) {
        return Error(tcInternalError, "rank %d has wrong bytes of rank %d", bootstrap->rank(), rank);
      }
    }
  }
  return Status();
}

Status ConnectAndGather(const Bootstrap::Options& options) {
  std::unique_ptr<Bootstrap> bootstrap;
  TC_RETURN_IF_ERROR(Bootstrap::Connect(options, &bootstrap));
  return GatherPayloads(bootstrap.get(), 5);
}

// ---- all goes well

class BootstrapOfRanks : public testing::TestWithParam<int> {};

TEST_P(BootstrapOfRanks, GathersPayloadsOfAllSizesAmongThreads) {
  const UniqueId id = NewId();
  const int before = OpenFds();
  ExpectOk(InThreads(GetParam(), [&](int rank) { return ConnectAndGather(OptionsOf(id, GetParam(), rank)); }));
  EXPECT_EQ(OpenFds(), before);
}

INSTANTIATE_TEST_SUITE_P(Counts, BootstrapOfRanks, testing::Values(1, 2, 3, 4, 5, 8, 16));

TEST(Bootstrap, OfOneRankOpensNothing) {
  const int before = OpenFds();
  std::unique_ptr<Bootstrap> bootstrap;
  ASSERT_TRUE(Bootstrap::Connect(OptionsOf(NewId(), 1, 0), &bootstrap).ok());
  std::vector<std::string> all;
  EXPECT_EQ(bootstrap->AllGather(Error(tcInternalError, "own"), "", &all).sentence(), "own");
  EXPECT_TRUE(bootstrap->AllGather(Status(), "x", &all).ok());
  EXPECT_EQ(OpenFds(), before);
}

TEST(Bootstrap, GathersAmongProcesses) {
  constexpr int kRanks = 4;
  const UniqueId id = NewId();
  std::vector<pid_t> children;
  for (int rank = 0; rank < kRanks; ++rank) {
    const pid_t child = ::fork();
    if (child == 0) ::_exit(ConnectAndGather(OptionsOf(id, kRanks, rank)).ok() ? 0 : 1);
    children.push_back(child);
  }
  for (const pid_t child : children) {
    int status = -1;
    EXPECT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
}

TEST(Bootstrap, WaitsForALateRankZero) {
  const UniqueId id = NewId();
  ExpectOk(InThreads(3, [&](int rank) {
    if (rank == 0) std::this_thread::sleep_for(milliseconds(300));
    return ConnectAndGather(OptionsOf(id, 3, rank));
  }));
}

TEST(Bootstrap, OfDifferentIdsDoNotMeet) {
  const UniqueId ids[] = {NewId(), NewId()};
  ExpectOk(InThreads(8, [&](int i) { return ConnectAndGather(OptionsOf(ids[i % 2], 4, i / 2)); }));
}

TEST(Bootstrap, MeetsInADirectoryAndLeavesNoFile) {
  const TemporaryDirectory directory;
  const UniqueId id = NewId();
  ExpectOk(InThreads(3, [&](int rank) {
    Bootstrap::Options options = OptionsOf(id, 3, rank);
    options.directory = directory.path();
    std::unique_ptr<Bootstrap> bootstrap;
    TC_RETURN_IF_ERROR(Bootstrap::Connect(options, &bootstrap));
    EXPECT_TRUE(directory.empty()) << "while the ranks are connected";
    return GatherPayloads(bootstrap.get(), 1);
  }));
}

TEST(Bootstrap, TakesOverTheFileOfAKilledRankZero) {
  const TemporaryDirectory directory;
  const UniqueId id = NewId();
  const pid_t child = ::fork();
  if (child == 0) {
    Bootstrap::Options options = OptionsOf(id, 2, 0);
    options.directory = directory.path();
    std::unique_ptr<Bootstrap> never;
    (void)Bootstrap::Connect(options, &never);
    ::_exit(0);
  }
  while (directory.empty()) std::this_thread::sleep_for(milliseconds(1));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  ASSERT_FALSE(directory.empty());
  ExpectOk(InThreads(2, [&](int rank) {
    Bootstrap::Options options = OptionsOf(id, 2, rank);
    options.directory = directory.path();
    return ConnectAndGather(options);
  }));
  EXPECT_TRUE(directory.empty());
}

TEST(Bootstrap, LeaksNoFdIn200Cycles) {
  const UniqueId id = UniqueIdFromString(Format("one id for all cycles of process %d", ::getpid()));
  const int before = OpenFds();
  for (int cycle = 0; cycle < 200; ++cycle) {
    ExpectOk(InThreads(2, [&](int rank) {
      std::unique_ptr<Bootstrap> bootstrap;
      TC_RETURN_IF_ERROR(Bootstrap::Connect(OptionsOf(id, 2, rank), &bootstrap));
      std::vector<UniqueFd> fds;
      return bootstrap->AllGatherFds(0, &fds);
    }));
  }
  EXPECT_EQ(OpenFds(), before);
}

// ---- the ranks do not fit together

TEST(Bootstrap, NamesTheRanksThatDidNotJoinToAllThatDid) {
  const TemporaryDirectory directory;
  const UniqueId id = NewId();
  std::vector<Bootstrap::Options> ranks;
  for (int rank : {0, 1, 3, 4, 6, 7}) {
    ranks.push_back(OptionsOf(id, 8, rank, milliseconds(400)));
    ranks.back().directory = directory.path();
  }
  ExpectAll(ConnectAll(ranks), tcTimeout,
            "ranks 2 and 5 of 8 did not join within 400 ms; start them, or raise TC_INIT_TIMEOUT_MS");
  EXPECT_TRUE(directory.empty());
}

TEST(Bootstrap, SaysThatRankZeroDidNotListen) {
  const TemporaryDirectory directory;
  for (const std::string& where : {std::string(), directory.path()}) {
    Bootstrap::Options options = OptionsOf(NewId(), 2, 1, milliseconds(200));
    options.directory = where;
    ExpectAll(ConnectAll({options}), tcTimeout, "rank 0 did not listen");
  }
}

TEST(Bootstrap, RefusesTwoRanksWithOneNumber) {
  const UniqueId id = NewId();
  const auto start = steady_clock::now();
  ExpectAll(ConnectAll({OptionsOf(id, 4, 0), OptionsOf(id, 4, 1), OptionsOf(id, 4, 2), OptionsOf(id, 4, 2)}),
            tcInvalidUsage, "two ranks have number 2");
  EXPECT_LT(steady_clock::now() - start, kPrompt);
}

TEST(Bootstrap, RefusesTwoRankZeros) {
  const TemporaryDirectory directory;
  for (const std::string& where : {std::string(), directory.path()}) {
    const UniqueId id = NewId();
    std::vector<Bootstrap::Options> ranks = {OptionsOf(id, 3, 0), OptionsOf(id, 3, 0), OptionsOf(id, 3, 1)};
    for (Bootstrap::Options& options : ranks) options.directory = where;
    const auto start = steady_clock::now();
    ExpectAll(ConnectAll(ranks), tcInvalidUsage, "two ranks have number 0");
    EXPECT_LT(steady_clock::now() - start, kPrompt);
  }
  EXPECT_TRUE(directory.empty());
}

TEST(Bootstrap, RefusesDifferentRankCounts) {
  const UniqueId id = NewId();
  const auto start = steady_clock::now();
  ExpectAll(ConnectAll({OptionsOf(id, 3, 0), OptionsOf(id, 4, 3)}), tcInvalidUsage,
            "rank 3 was given nRanks 4, rank 0 was given nRanks 3");
  EXPECT_LT(steady_clock::now() - start, kPrompt);
}

TEST(Bootstrap, PrintsBothSidesOfDifferentFingerprints) {
  const UniqueId id = NewId();
  std::vector<Bootstrap::Options> ranks;
  for (int rank = 0; rank < 5; ++rank) ranks.push_back(OptionsOf(id, 5, rank));
  ranks[3].fingerprint = "tilecomm 0.2 plan 9";
  const auto start = steady_clock::now();
  ExpectAll(ConnectAll(ranks), tcInvalidUsage, "rank 3 has tilecomm 0.2 plan 9, rank 0 has tilecomm 0.1 plan 1");
  EXPECT_LT(steady_clock::now() - start, kPrompt);
}

TEST(Bootstrap, RefusesRanksAndCountsOutOfRange) {
  for (const auto& [n_ranks, rank] : std::vector<std::pair<int, int>>{{0, 0}, {-1, 0}, {300, 0}, {2, 2}, {2, -1}}) {
    std::unique_ptr<Bootstrap> bootstrap;
    EXPECT_EQ(Bootstrap::Connect(OptionsOf(NewId(), n_ranks, rank), &bootstrap).code(), tcInvalidArgument);
  }
}

TEST(Bootstrap, NamesTheDirectoryWhereNoSocketCanBe) {
  const TemporaryDirectory directory;
  const struct {
    std::string path;
    tcResult_t code;
  } bad[] = {{directory.path() + "/absent", tcInvalidArgument},
             {"/proc/self/status", tcInvalidArgument},
             {"/proc/self", tcSystemError},  // nobody can make a file there
             {directory.path() + "/" + std::string(100, 'x'), tcInvalidArgument}};
  ASSERT_TRUE(std::filesystem::create_directory(bad[3].path));
  for (const auto& [path, code] : bad) {
    Bootstrap::Options options = OptionsOf(NewId(), 2, 0, milliseconds(500));
    options.directory = path;
    ExpectAll(ConnectAll({options}), code, "TC_BOOTSTRAP_DIR");
  }
}

TEST(Bootstrap, NamesARankThatDiedBeforeAllHadJoined) {
  const UniqueId id = NewId();
  const int before = OpenFds();
  const pid_t child = ::fork();
  if (child == 0) {
    std::unique_ptr<Bootstrap> never;
    (void)Bootstrap::Connect(OptionsOf(id, 4, 2), &never);
    ::_exit(0);
  }
  std::thread killer([child] {
    std::this_thread::sleep_for(milliseconds(400));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
  });
  const auto start = steady_clock::now();
  const std::vector<Status> statuses = ConnectAll({OptionsOf(id, 4, 0), OptionsOf(id, 4, 1)});
  killer.join();
  ExpectAll(statuses, tcRemoteError, "rank 2 ");
  EXPECT_LT(steady_clock::now() - start, kPrompt);
  EXPECT_EQ(OpenFds(), before);
}

// ---- strangers

UniqueFd DialRankZero(const UniqueId& id) {
  SocketAddress address;
  EXPECT_TRUE(SocketAddress::Make(id, "", &address).ok());
  UniqueFd fd;
  for (int tries = 0; Dial(address, &fd) != 0 && tries < 5000; ++tries) std::this_thread::sleep_for(milliseconds(1));
  EXPECT_TRUE(fd.valid());
  return fd;
}

std::string HelloBytes(const std::array<uint8_t, 32>& secret, uint32_t version = Hello::kVersion) {
  Hello hello;
  hello.secret = secret;
  hello.version = version;
  return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello));
}

bool IsDropped(int fd, milliseconds within) {
  std::vector<pollfd> entry = {{fd, POLLIN, 0}};
  char byte;
  return PollUntil(&entry, After(within)) && ::recv(fd, &byte, 1, MSG_DONTWAIT) <= 0;
}

// While rank 2 is awaited, a stranger comes; then rank 2 comes and all is well. What the stranger found is returned.
bool RendezvousWithStranger(const std::function<bool(const UniqueId&)>& stranger) {
  const UniqueId id = NewId();
  bool found = false;
  std::atomic<bool> stranger_was_here = false;
  const auto start = steady_clock::now();
  ExpectOk(InThreads(4, [&](int i) {
    if (i == 3) {
      found = stranger(id);
      stranger_was_here = true;
      return Status();
    }
    while (i == 2 && !stranger_was_here) std::this_thread::sleep_for(milliseconds(1));
    return ConnectAndGather(OptionsOf(id, 3, i));
  }));
  EXPECT_LT(steady_clock::now() - start, kPrompt);
  return found;
}

TEST(Stranger, WithAWrongSecretIsDropped) {
  EXPECT_TRUE(RendezvousWithStranger([](const UniqueId& id) {
    Channel channel(DialRankZero(id));
    channel.Queue(kHello, HelloBytes(id.root_secret));
    EXPECT_EQ(channel.Send(), Io::kDone);
    return IsDropped(channel.fd(), kPrompt);
  }));
}

TEST(Stranger, WithGarbageIsDropped) {
  EXPECT_TRUE(RendezvousWithStranger([](const UniqueId& id) {
    const UniqueFd fd = DialRankZero(id);
    const std::string garbage(1000, 'G');
    EXPECT_GT(::send(fd.get(), garbage.data(), garbage.size(), MSG_NOSIGNAL), 0);
    return IsDropped(fd.get(), kPrompt);
  }));
}

TEST(Stranger, ThatClaimsAnEndlessMessageIsDropped) {
  EXPECT_TRUE(RendezvousWithStranger([](const UniqueId& id) {
    Channel channel(DialRankZero(id));
    channel.Queue(kHello, std::string(1'000'000, 'x'));
    (void)channel.Send();
    return IsDropped(channel.fd(), milliseconds(1000));  // for what it claims, not because its time is over
  }));
}

TEST(Stranger, ThatSaysNothingOrHalfOrHangsUpDelaysNobody) {
  std::vector<UniqueFd> silent;
  EXPECT_TRUE(RendezvousWithStranger([&](const UniqueId& id) {
    for (int i = 0; i < 100; ++i) silent.push_back(DialRankZero(id));  // more than rank 0 keeps at once
    silent.push_back(DialRankZero(id));
    EXPECT_EQ(::send(silent.back().get(), "TC", 2, MSG_NOSIGNAL), 2);
    DialRankZero(id).Reset();
    return IsDropped(silent[0].get(), milliseconds(1000));  // the oldest makes room
  }));
}

TEST(Stranger, ThatStallsIsDroppedWhileRanksAreStillAwaited) {
  EXPECT_TRUE(RendezvousWithStranger([](const UniqueId& id) {
    const UniqueFd fd = DialRankZero(id);
    EXPECT_EQ(::send(fd.get(), "TC", 2, MSG_NOSIGNAL), 2);
    return IsDropped(fd.get(), kPrompt);
  }));
}

TEST(Stranger, OfAnotherUserIsDropped) {
  if (::geteuid() != 0) GTEST_SKIP() << "only root can become another user";
  const UniqueId id = NewId();
  const pid_t child = ::fork();
  if (child == 0) {
    SocketAddress address;
    (void)SocketAddress::Make(id, "", &address);  // under our user's name, before the user changes
    if (::setuid(65534) != 0) ::_exit(2);
    UniqueFd fd;
    while (Dial(address, &fd) != 0) std::this_thread::sleep_for(milliseconds(1));
    Channel channel(std::move(fd));
    channel.Queue(kHello, HelloBytes(id.joiner_secret));  // even with the right secret
    (void)channel.Send();
    ::_exit(IsDropped(channel.fd(), kPrompt) ? 0 : 1);
  }
  int status = -1;
  ExpectOk(InThreads(2, [&](int rank) {
    if (rank == 1) ::waitpid(child, &status, 0);
    return ConnectAndGather(OptionsOf(id, 2, rank));
  }));
  EXPECT_EQ(status, 0);
}

TEST(Stranger, CannotMakeRankZeroKeepItsDescriptors) {
  const int before = OpenFds();
  EXPECT_TRUE(RendezvousWithStranger([](const UniqueId& id) {
    Channel channel(DialRankZero(id));
    channel.Queue(kHello, std::make_shared<const std::string>(HelloBytes(id.root_secret)), {0, 1, 2});
    EXPECT_EQ(channel.Send(), Io::kDone);
    return IsDropped(channel.fd(), kPrompt);
  }));
  EXPECT_EQ(OpenFds(), before);
}

// Listens in rank 0's place and answers a joiner with `answer` (empty: hangs up).
Status JoinAtSquatter(const std::string& answer, milliseconds timeout, const UniqueId& id = NewId()) {
  SocketAddress address;
  EXPECT_TRUE(SocketAddress::Make(id, "", &address).ok());
  Listener listener(address);
  bool taken = false;
  EXPECT_TRUE(listener.Open(&taken).ok());
  std::atomic<bool> done = false;
  std::thread squatter([&] {
    std::vector<Channel> channels;
    while (!done) {
      int error = 0;
      UniqueFd fd = listener.Accept(&error);
      if (fd.valid() && !answer.empty()) {
        channels.emplace_back(std::move(fd));
        channels.back().Queue(kHello, answer);
        (void)channels.back().Send();
      }
      std::this_thread::sleep_for(milliseconds(1));
    }
  });
  std::unique_ptr<Bootstrap> bootstrap;
  const Status status = Bootstrap::Connect(OptionsOf(id, 2, 1, timeout), &bootstrap);
  done = true;
  squatter.join();
  return status;
}

TEST(Stranger, InRankZerosPlaceIsFoundOut) {
  ExpectAll({JoinAtSquatter("garbage", kPrompt)}, tcSystemError, "is not rank 0 of this id");
  ExpectAll({JoinAtSquatter(HelloBytes(NewId().root_secret), kPrompt)}, tcSystemError, "is not rank 0 of this id");
  ExpectAll({JoinAtSquatter("", milliseconds(300))}, tcTimeout, "did not show the id's secret");
}

TEST(Bootstrap, DialsAgainWhenAListenerHangsUp) {
  const UniqueId id = NewId();
  ExpectOk(InThreads(2, [&](int rank) {
    if (rank == 0) {
      SocketAddress address;
      TC_RETURN_IF_ERROR(SocketAddress::Make(id, "", &address));
      Listener dying(address);
      bool taken = false;
      TC_RETURN_IF_ERROR(dying.Open(&taken));
      int error = EAGAIN;
      while (!dying.Accept(&error).valid()) std::this_thread::sleep_for(milliseconds(1));
    }
    return ConnectAndGather(OptionsOf(id, 2, rank));
  }));
}

TEST(Bootstrap, SaysAtRankZeroThatTheAddressIsTaken) {
  const UniqueId id = NewId();
  SocketAddress address;
  ASSERT_TRUE(SocketAddress::Make(id, "", &address).ok());
  Listener squatter(address);
  bool taken = false;
  ASSERT_TRUE(squatter.Open(&taken).ok());
  ExpectAll(ConnectAll({OptionsOf(id, 2, 0, milliseconds(300))}), tcInvalidUsage,
            "another rank 0 listens on @tilecomm-");
}

TEST(Bootstrap, PrintsBothSidesOfDifferentProtocolVersions) {
  const UniqueId id = NewId();
  const auto start = steady_clock::now();
  const std::vector<Status> statuses = InThreads(2, [&](int i) {
    std::unique_ptr<Bootstrap> bootstrap;
    if (i == 0) return Bootstrap::Connect(OptionsOf(id, 2, 0), &bootstrap);
    Channel channel(DialRankZero(id));
    channel.Queue(kHello, HelloBytes(id.joiner_secret, 7));
    EXPECT_EQ(channel.Send(), Io::kDone);
    Frame answer;
    EXPECT_EQ(channel.ReceiveBy(After(kPrompt), &answer), Io::kDone);
    EXPECT_EQ(answer.body.size(), sizeof(Hello));
    return Status();
  });
  EXPECT_LT(steady_clock::now() - start, kPrompt);
  ExpectAll({statuses[0]}, tcInvalidUsage, "speaks bootstrap protocol 7, rank 0 speaks 1");

  ExpectAll({JoinAtSquatter(HelloBytes(id.root_secret, 7), kPrompt, id)}, tcInvalidUsage,
            "speaks bootstrap protocol 1, rank 0 speaks 7");
}

// ---- calls that fail

// Connects n threads as ranks and runs `rank_main` with each rank's bootstrap, which it may destroy.
std::vector<Status> WithRanks(int n_ranks, milliseconds timeout,
                              const std::function<Status(std::unique_ptr<Bootstrap>)>& rank_main) {
  const UniqueId id = NewId();
  return InThreads(n_ranks, [&](int rank) {
    std::unique_ptr<Bootstrap> bootstrap;
    TC_RETURN_IF_ERROR(Bootstrap::Connect(OptionsOf(id, n_ranks, rank, timeout), &bootstrap));
    return rank_main(std::move(bootstrap));
  });
}

TEST(AllGather, GivesTheLowestFailingRanksErrorToAllAndStaysUsable) {
  for (const int failing : {0, 2}) {
    ExpectOk(WithRanks(5, kPrompt, [failing](std::unique_ptr<Bootstrap> bootstrap) {
      const int rank = bootstrap->rank();
      const bool fails = rank == failing || rank == 3;
      std::vector<std::string> all;
      const Status status =
          bootstrap->AllGather(fails ? Error(tcInvalidUsage, "shape of %d", rank) : Status(), "payload", &all);
      const std::string prefix = rank == failing ? "" : Format("rank %d: ", failing);
      EXPECT_EQ(status.code(), tcInvalidUsage);
      EXPECT_EQ(status.sentence(), prefix + Format("shape of %d", failing));
      return GatherPayloads(bootstrap.get(), 3);
    }));
  }
}

TEST(AllGather, NamesARankThatDies) {
  for (const int dying : {1, 0}) {
    const int before = OpenFds();
    std::vector<Status> statuses = WithRanks(4, milliseconds(30'000), [dying](std::unique_ptr<Bootstrap> bootstrap) {
      if (bootstrap->rank() == dying) return Status();  // gone, while the others are in the call
      const auto start = steady_clock::now();
      std::vector<std::string> all;
      const Status status = bootstrap->AllGather(Status(), PayloadOf(2, 0), &all);
      EXPECT_LT(steady_clock::now() - start, milliseconds(1000));
      EXPECT_EQ(bootstrap->AllGather(Status(), "", &all).sentence(), status.sentence()) << "a later call";
      EXPECT_LT(steady_clock::now() - start, milliseconds(1000));
      return status;
    });
    statuses.erase(statuses.begin() + dying);
    ExpectAll(statuses, tcRemoteError, Format("rank %d died", dying));
    EXPECT_EQ(OpenFds(), before);
  }
}

TEST(AllGather, NamesAKilledProcess) {
  const UniqueId id = NewId();
  const pid_t child = ::fork();
  if (child == 0) {
    std::unique_ptr<Bootstrap> bootstrap;
    if (!Bootstrap::Connect(OptionsOf(id, 3, 2), &bootstrap).ok()) ::_exit(1);
    ::raise(SIGKILL);
  }
  ExpectAll(InThreads(2,
                      [&](int rank) {
                        std::unique_ptr<Bootstrap> bootstrap;
                        TC_RETURN_IF_ERROR(Bootstrap::Connect(OptionsOf(id, 3, rank), &bootstrap));
                        std::vector<std::string> all;
                        return bootstrap->AllGather(Status(), "x", &all);
                      }),
            tcRemoteError, "rank 2 died");
  ::waitpid(child, nullptr, 0);
}

TEST(AllGather, NoticesAtOnceWhenARankDiesThatWaitsForOthers) {
  const UniqueId id = NewId();
  const pid_t child = ::fork();
  if (child == 0) {
    std::unique_ptr<Bootstrap> bootstrap;
    std::vector<std::string> all;
    if (Bootstrap::Connect(OptionsOf(id, 3, 2), &bootstrap).ok()) (void)bootstrap->AllGather(Status(), "", &all);
    ::_exit(0);
  }
  const auto start = steady_clock::now();
  ExpectAll(InThreads(2,
                      [&](int rank) {
                        std::unique_ptr<Bootstrap> bootstrap;
                        TC_RETURN_IF_ERROR(Bootstrap::Connect(OptionsOf(id, 3, rank), &bootstrap));
                        if (rank == 1) {  // comes to the call only after rank 2, already in it, was killed
                          std::this_thread::sleep_for(milliseconds(400));
                          ::kill(child, SIGKILL);
                          std::this_thread::sleep_for(milliseconds(200));
                        }
                        std::vector<std::string> all;
                        return bootstrap->AllGather(Status(), PayloadOf(2, 0), &all);
                      }),
            tcRemoteError, "rank 2 died");
  EXPECT_LT(steady_clock::now() - start, kPrompt);
  ::waitpid(child, nullptr, 0);
}

TEST(AllGather, NamesTheRanksThatDidNotCome) {
  std::atomic<int> returned = 0;
  std::vector<Status> statuses = WithRanks(4, milliseconds(400), [&](std::unique_ptr<Bootstrap> bootstrap) {
    std::vector<std::string> all;
    if (bootstrap->rank() == 3) {
      while (returned < 3) std::this_thread::sleep_for(milliseconds(1));
      return bootstrap->AllGather(Status(), PayloadOf(2, 0), &all);  // too late: the same sentence, at once
    }
    const Status status = bootstrap->AllGather(Status(), "x", &all);
    ++returned;
    return status;
  });
  ExpectAll(statuses, tcTimeout, "rank 3 of 4 did not come to AllGather (call 1 of the bootstrap) within 400 ms");
}

TEST(AllGather, SaysThatRankZeroDidNotCome) {
  std::atomic<int> returned = 0;
  std::vector<Status> statuses = WithRanks(3, milliseconds(300), [&](std::unique_ptr<Bootstrap> bootstrap) {
    while (bootstrap->rank() == 0 && returned < 2) std::this_thread::sleep_for(milliseconds(1));
    std::vector<std::string> all;
    const Status status = bootstrap->AllGather(Status(), PayloadOf(2, 0), &all);
    ++returned;
    return status;
  });
  EXPECT_EQ(statuses[0].code(), tcRemoteError) << statuses[0].sentence();
  statuses.erase(statuses.begin());
  ExpectAll(statuses, tcTimeout, "rank 0 did not come to AllGather");
}

TEST(AllGather, OfRanksThatDidNotComeIsOneAnswerAlsoWhenRankZeroWasLate) {
  ExpectAll(WithRanks(3, milliseconds(600),
                      [](std::unique_ptr<Bootstrap> bootstrap) {
                        const int delay_ms[] = {400, 0, 1400};
                        std::this_thread::sleep_for(milliseconds(delay_ms[bootstrap->rank()]));
                        std::vector<std::string> all;
                        return bootstrap->AllGather(Status(), "x", &all);
                      }),
            tcTimeout, "rank 2 of 3 did not come");
}

TEST(AllGather, RefusesRanksInDifferentCallsAndStaysUsable) {
  ExpectOk(WithRanks(3, kPrompt, [](std::unique_ptr<Bootstrap> bootstrap) {
    std::vector<std::string> all;
    std::vector<UniqueFd> fds;
    const Status status =
        bootstrap->rank() == 2 ? bootstrap->AllGatherFds(0, &fds) : bootstrap->AllGather(Status(), "", &all);
    EXPECT_EQ(status.code(), tcInvalidUsage);
    EXPECT_NE(status.sentence().find("called AllGatherFds where rank 0 called AllGather"), std::string::npos);
    return GatherPayloads(bootstrap.get(), 1);
  }));
}

// ---- descriptors

UniqueFd MemoryOf(int rank) {
  UniqueFd fd(::memfd_create("bootstrap_test", MFD_CLOEXEC));
  const std::string text = Format("memory of rank %d", rank);
  EXPECT_EQ(::write(fd.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  return fd;
}

TEST_P(BootstrapOfRanks, SharesTheSameMemoryByDescriptors) {
  const int before = OpenFds();
  ExpectOk(WithRanks(GetParam(), kPrompt, [](std::unique_ptr<Bootstrap> bootstrap) {
    const UniqueFd own = MemoryOf(bootstrap->rank());
    std::vector<UniqueFd> fds;
    TC_RETURN_IF_ERROR(bootstrap->AllGatherFds(own.get(), &fds));
    EXPECT_EQ(fds.size(), static_cast<size_t>(bootstrap->n_ranks()));
    EXPECT_NE(fds[static_cast<size_t>(bootstrap->rank())].get(), own.get());
    for (int rank = 0; rank < bootstrap->n_ranks(); ++rank) {
      const int fd = fds[static_cast<size_t>(rank)].get();
      const std::string expected = Format("memory of rank %d", rank);
      std::string text(expected.size(), '\0');
      EXPECT_EQ(::pread(fd, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
      EXPECT_EQ(text, expected);
      EXPECT_NE(::fcntl(fd, F_GETFD) & FD_CLOEXEC, 0);
      const char mark = static_cast<char>('a' + bootstrap->rank());  // each rank leaves its mark in each memory
      EXPECT_EQ(::pwrite(fd, &mark, 1, 100 + bootstrap->rank()), 1);
    }
    TC_RETURN_IF_ERROR(GatherPayloads(bootstrap.get(), 1));
    for (int rank = 0; rank < bootstrap->n_ranks(); ++rank) {
      char mark = 0;
      EXPECT_EQ(::pread(own.get(), &mark, 1, 100 + rank), 1);
      EXPECT_EQ(mark, static_cast<char>('a' + rank));
    }
    return Status();
  }));
  EXPECT_EQ(OpenFds(), before);
}

TEST(AllGatherFds, OfADescriptorThatIsNotOpenIsEverybodysErrorAndStaysUsable) {
  const int before = OpenFds();
  ExpectOk(WithRanks(3, kPrompt, [](std::unique_ptr<Bootstrap> bootstrap) {
    std::vector<UniqueFd> fds;
    const Status status = bootstrap->AllGatherFds(bootstrap->rank() == 1 ? -1 : 0, &fds);
    EXPECT_EQ(status.code(), tcSystemError);
    EXPECT_NE(status.sentence().find("file descriptor -1 could not be shared"), std::string::npos);
    EXPECT_TRUE(fds.empty());
    return GatherPayloads(bootstrap.get(), 1);
  }));
  EXPECT_EQ(OpenFds(), before);
}

TEST(AllGatherFds, LeaksNothingWhenARankDiesHalfWay) {
  const int before = OpenFds();
  for (int cycle = 0; cycle < 20; ++cycle) {
    for (const int dying : {0, 2}) {
      WithRanks(4, kPrompt, [dying](std::unique_ptr<Bootstrap> bootstrap) {
        const UniqueFd own = MemoryOf(bootstrap->rank());
        if (bootstrap->rank() == dying) return Status();
        std::vector<UniqueFd> fds;
        const Status status = bootstrap->AllGatherFds(own.get(), &fds);
        EXPECT_EQ(status.code(), tcRemoteError) << status.sentence();
        return status;
      });
    }
  }
  EXPECT_EQ(OpenFds(), before);
}

TEST(AllGatherFds, SaysOnAllRanksThatOneHasTooManyOpenFiles) {
  const UniqueId id = NewId();
  const pid_t child = ::fork();
  if (child == 0) {  // a process of its own, whose limit can be used up
    std::unique_ptr<Bootstrap> bootstrap;
    if (!Bootstrap::Connect(OptionsOf(id, 3, 1), &bootstrap).ok()) ::_exit(1);
    const rlimit few = {128, 128};
    ::setrlimit(RLIMIT_NOFILE, &few);
    std::vector<UniqueFd> hoard, fds;
    while (hoard.empty() || hoard.back().valid()) hoard.emplace_back(::dup(0));
    for (int i = 0; i < 3; ++i) hoard.pop_back();  // the invalid one, and room for the own duplicate and one more
    ::_exit(bootstrap->AllGatherFds(0, &fds).code() == tcSystemError && GatherPayloads(bootstrap.get(), 1).ok() ? 0
                                                                                                                : 2);
  }
  ExpectOk(InThreads(2, [&](int i) {
    std::unique_ptr<Bootstrap> bootstrap;
    TC_RETURN_IF_ERROR(Bootstrap::Connect(OptionsOf(id, 3, 2 * i), &bootstrap));
    std::vector<UniqueFd> fds;
    const Status status = bootstrap->AllGatherFds(0, &fds);
    EXPECT_EQ(status.code(), tcSystemError);
    EXPECT_NE(status.sentence().find("rank 1: this process could not take"), std::string::npos) << status.sentence();
    return GatherPayloads(bootstrap.get(), 1);
  }));
  int status = -1;
  ::waitpid(child, &status, 0);
  EXPECT_EQ(status, 0);
}

}  // namespace
}  // namespace tc
