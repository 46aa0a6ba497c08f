// Which planes a communicator uses after its ranks have verified each other's memory: on host threads, with a backend
// whose memory is wrong where a test wants it.
#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <filesystem>
#include <functional>
#include <thread>
#include <vector>

#include "base/log.h"
#include "host/backend.h"
#include "ops/operators.h"
#include "ops/rank_threads.h"

namespace tc {
namespace {

constexpr int kRanks = 3;

struct Fault {
  PeerCheck check;
  int from, to;
};

// Goes through the steps of a verification with copies by the CPU.
class VerifyingBackend final : public host::HostBackend {
 public:
  VerifyingBackend(const std::vector<Fault>& faults, std::atomic<int>* steps)
      : HostBackend(0, 1), faults_(faults), steps_(*steps) {}

  uint32_t planes() const override { return 1u << tcPlanePush | 1u << tcPlanePull | 1u << tcPlaneCopyEngine; }
  std::string CheckKey() const override { return "a machine of the test"; }

  Status RunCheck(const CheckStep& step, const CheckArea& area, RankSet* wrong) override {
    ++steps_;
    const bool fetches = step.check == PeerCheck::kLoads || step.check == PeerCheck::kCopies;
    for (int peer = 0; peer < area.n_ranks; ++peer) {
      if (!step.compares) {
        std::byte* const to = fetches ? area.Offered(area.rank) : area.Received(peer, area.rank);
        for (uint64_t i = 0; i < step.bytes / 8; ++i) {
          const uint64_t word = CheckWord(step.seed, area.rank, i);
          std::memcpy(to + 8 * i, &word, 8);
        }
        if (!fetches && IsFaulty(step.check, area.rank, peer)) to[step.bytes - 1] ^= std::byte{1};
        continue;
      }
      std::vector<std::byte> come(step.bytes);
      std::memcpy(come.data(), fetches ? area.Offered(peer) : area.Received(area.rank, peer), step.bytes);
      if (fetches && IsFaulty(step.check, peer, area.rank)) come[0] ^= std::byte{128};
      for (uint64_t i = 0; i < step.bytes / 8; ++i) {
        const uint64_t word = CheckWord(step.seed, peer, i);
        if (std::memcmp(&come[8 * i], &word, 8) != 0) *wrong |= static_cast<RankSet>(1u << peer);
      }
    }
    return {};
  }

 private:
  bool IsFaulty(PeerCheck check, int from, int to) const {
    for (const Fault& fault : faults_) {
      if (fault.check == check && fault.from == from && fault.to == to) return true;
    }
    return false;
  }

  const std::vector<Fault> faults_;
  std::atomic<int>& steps_;
};

// What an operator would run on. The host backend has kernels for push alone, and says of which plane it has none.
void ExpectDecided(const Communicator& comm, const std::string& plane) {
  tcOpDesc_t desc;
  TC_OP_DESC_INIT(&desc);
  desc.op = tcOpAllGather;
  desc.type = tcFloat32;
  desc.count = 1;
  const Status status = OperatorSupported(comm, desc);
  EXPECT_NE(status.sentence().find(plane), std::string::npos) << status.sentence();
}

class VerifiedPlanes : public ::testing::Test {
 protected:
  VerifiedPlanes() {
    char name[] = "/tmp/tc_planes_XXXXXX";
    settings_.cache_dir = ::mkdtemp(name);
    settings_.workspace_bytes = kTestWorkspace;
    settings_.init_timeout = std::chrono::seconds(20);
    SetLogCallback(
        [](int level, const char* message, void* user) {
          if (level == tcLogWarn) static_cast<VerifiedPlanes*>(user)->Warn(message);
        },
        this);
  }
  ~VerifiedPlanes() override {
    SetLogCallback(nullptr, nullptr);
    std::filesystem::remove_all(settings_.cache_dir);
  }

  // Every rank makes its communicator; body(what came of it, the communicator). Returns how many steps ranks ran.
  int Run(const std::vector<Fault>& faults, const std::function<void(const Status&, Communicator*)>& body) {
    UniqueId id;
    EXPECT_TRUE(MakeUniqueId(&id).ok());
    std::atomic<int> steps = 0;
    std::vector<std::thread> threads;
    for (int rank = 0; rank < kRanks; ++rank) {
      threads.emplace_back([&, rank] {
        std::shared_ptr<Communicator> comm;
        const Status made = Communicator::Create(id, kRanks, rank, settings_,
                                                 std::make_unique<VerifyingBackend>(faults, &steps), &comm);
        body(made, comm.get());
      });
    }
    for (std::thread& thread : threads) thread.join();
    return steps;
  }

  void Warn(const char* message) {
    std::lock_guard lock(mutex_);
    warnings_.push_back(message);
  }

  static int StepsOfAll() { return kRanks * static_cast<int>(CheckSteps().size()); }

  CommSettings settings_;
  std::mutex mutex_;
  std::vector<std::string> warnings_;
};

TEST_F(VerifiedPlanes, AreAllWhereAllIsRightWhichIsRemembered) {
  const auto expect_all = [](const Status& made, Communicator* comm) {
    ASSERT_TRUE(made.ok()) << made.sentence();
    EXPECT_EQ(comm->usual_plane(), tcPlanePush);
    for (const tcPlane_t plane : {tcPlanePush, tcPlanePull, tcPlaneCopyEngine}) EXPECT_TRUE(comm->MayUse(plane).ok());
  };
  EXPECT_EQ(Run({}, expect_all), StepsOfAll());
  EXPECT_EQ(Run({}, expect_all), 0);
  settings_.verify = Verify::kAlways;
  EXPECT_EQ(Run({}, expect_all), StepsOfAll());
  settings_.verify = Verify::kNever;
  std::filesystem::remove_all(settings_.cache_dir);
  EXPECT_EQ(Run({}, expect_all), 0);
  EXPECT_TRUE(warnings_.empty());
}

TEST_F(VerifiedPlanes, LeaveOutTheOneThatFailsAndSayWhichBetweenWhomAndWhy) {
  for (int round = 0; round < 2; ++round) {  // what fails is verified again
    warnings_.clear();
    const int steps = Run({{PeerCheck::kStores, 2, 0}}, [](const Status& made, Communicator* comm) {
      ASSERT_TRUE(made.ok()) << made.sentence();
      EXPECT_EQ(comm->usual_plane(), tcPlanePull);
      const Status push = comm->MayUse(tcPlanePush);
      EXPECT_EQ(push.code(), tcUnsupported);
      EXPECT_NE(push.sentence().find("rank 2's stores into rank 0's memory"), std::string::npos) << push.sentence();
      EXPECT_TRUE(comm->MayUse(tcPlaneCopyEngine).ok());
      ExpectDecided(*comm, "plane 2 (pull)");
    });
    EXPECT_EQ(steps, StepsOfAll());
    ASSERT_EQ(warnings_.size(), 1u);
    for (const char* part : {"rank 0: plane push is not used", "rank 2's stores into rank 0's memory", "ACS"}) {
      EXPECT_NE(warnings_[0].find(part), std::string::npos) << warnings_[0];
    }
  }
}

TEST_F(VerifiedPlanes, AreTheCopyEnginesWhereSmsReachNothing) {
  Run({{PeerCheck::kStores, 2, 0}, {PeerCheck::kLoads, 1, 2}}, [](const Status& made, Communicator* comm) {
    ASSERT_TRUE(made.ok()) << made.sentence();
    EXPECT_EQ(comm->usual_plane(), tcPlaneCopyEngine);
  });
}

TEST_F(VerifiedPlanes, AreTheHostStagedOneWhereFlagsFail) {
  Run({{PeerCheck::kFlags, 0, 1}}, [](const Status& made, Communicator* comm) {
    ASSERT_TRUE(made.ok()) << made.sentence();
    EXPECT_TRUE(comm->settings().host_staged());
    EXPECT_NE(comm->view().landing, nullptr);
    EXPECT_EQ(comm->MayUse(tcPlanePull).code(), tcUnsupported);
    EXPECT_TRUE(comm->MayUse(tcPlaneHostStaged).ok());
  });
}

TEST_F(VerifiedPlanes, TheOneThatIsAskedForAndFailedIsAnErrorOnEveryRank) {
  settings_.plane = tcPlanePush;
  std::atomic<int> refused = 0;
  Run({{PeerCheck::kStores, 1, 0}}, [&](const Status& made, Communicator*) {
    EXPECT_EQ(made.code(), tcUnsupported) << made.sentence();
    EXPECT_NE(made.sentence().find("rank 1's stores"), std::string::npos) << made.sentence();
    ++refused;
  });
  EXPECT_EQ(refused, kRanks);
}

TEST_F(VerifiedPlanes, FailuresCanBeInjected) {
  settings_.check_failures.Fail(PeerCheck::kStores, 0, 1);
  Run({}, [](const Status& made, Communicator* comm) {
    ASSERT_TRUE(made.ok()) << made.sentence();
    EXPECT_EQ(comm->usual_plane(), tcPlanePull);
  });
}

}  // namespace
}  // namespace tc
