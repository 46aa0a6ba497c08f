#include "plan/decide.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <mutex>
#include <set>
#include <thread>

#include "base/log.h"
#include "host/backend.h"

namespace tc {
namespace {

using platform::FactTable;
using platform::Pattern;

std::string TestFile(const std::string& name) { return std::string(TC_TESTDATA) + "/" + name + ".json"; }

FactTable Seed() {
  FactTable table;
  EXPECT_TRUE(ReadFactTable(TestFile("rtx-pro-5000-x4"), &table).ok());
  return table;
}

// A table in a file.
class FactsFile {
 public:
  explicit FactsFile(const FactTable& table) {
    char name[] = "/tmp/tc_facts_XXXXXX";
    const int file = ::mkstemp(name);
    EXPECT_GE(file, 0);
    ::close(file);
    path_ = name;
    std::ofstream(path_) << platform::ToJson(table);
  }
  ~FactsFile() { std::filesystem::remove(path_); }

  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

// Each of four ranks on the host backend, of which the first alone has `facts_file`.
void RunRanks(const std::string& facts_file, const std::function<void(const Communicator&)>& body,
              tcPlane_t plane = tcPlaneAuto) {
  constexpr int kRanks = 4;
  UniqueId id;
  ASSERT_TRUE(MakeUniqueId(&id).ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      CommSettings settings;
      settings.plane = plane;
      settings.workspace_bytes = size_t{1} << 20;
      settings.init_timeout = std::chrono::seconds(20);
      if (rank == 0) settings.fact_sources.facts_file = facts_file;
      if (rank == 1) settings.fact_sources.facts_file = "/none/of/this/rank.json";
      std::shared_ptr<Communicator> comm;
      const Status made =
          Communicator::Create(id, kRanks, rank, settings, std::make_unique<host::HostBackend>(rank, 1), &comm);
      ASSERT_TRUE(made.ok()) << made.sentence();
      body(*comm);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Bound by communication on the seed's machine.
PlanRequest BareGather() {
  PlanRequest shape;
  shape.op = tcOpAllGatherGemm;
  shape.type = tcBfloat16;
  shape.m = shape.k = 8192;
  shape.n = 1024;
  return shape;
}

TEST(Decide, AllRanksPlanByRankZerosTable) {
  std::mutex mutex;
  std::set<std::string> explained, tables;
  SetLogCallback([](int level, const char* message, void*) { EXPECT_GT(level, tcLogWarn) << message; }, nullptr);
  RunRanks(TestFile("rtx-pro-5000-x4"), [&](const Communicator& comm) {
    Decision decision;
    ASSERT_TRUE(Decide(BareGather(), tcPlaneAuto, comm, &decision).ok());
    EXPECT_EQ(decision.plane, tcPlanePush);
    EXPECT_EQ(decision.comm_sms, 4);
    EXPECT_STREQ(decision.row->name, "host_all_gather_gemm");
    std::string json;
    ASSERT_TRUE(Explain(BareGather(), tcPlaneAuto, 0, comm, &json).ok());
    const std::lock_guard lock(mutex);
    explained.insert(json);
    tables.insert(platform::ToJson(comm.facts().table));
  });
  SetLogCallback(nullptr, nullptr);
  EXPECT_EQ(explained.size(), 1u);
  EXPECT_EQ(tables, std::set<std::string>{platform::ToJson(Seed())});
}

TEST(Decide, IsPushByTheBuiltInModel) {
  RunRanks("", [](const Communicator& comm) {
    EXPECT_TRUE(comm.facts().table.built_in);
    EXPECT_EQ(comm.facts().table.paths[0][3], "SHM");
    Decision decision;
    ASSERT_TRUE(Decide(BareGather(), tcPlaneAuto, comm, &decision).ok());
    EXPECT_EQ(decision.plane, tcPlanePush);
    EXPECT_EQ(decision.comm_sms, 0);
    EXPECT_TRUE(comm.choices().empty());
  });
}

TEST(Decide, PlansAnOperatorOnce) {
  RunRanks(TestFile("h200-x2"), [](const Communicator& comm) {
    Decision decision;
    for (int call = 0; call < 3; ++call) ASSERT_TRUE(Decide(BareGather(), tcPlaneAuto, comm, &decision).ok());
    EXPECT_EQ(comm.choices().size(), 1u);
    PlanRequest other = BareGather();
    other.n = 4096;
    ASSERT_TRUE(Decide(other, tcPlaneAuto, comm, &decision).ok());
    EXPECT_EQ(comm.choices().size(), 2u);
    // Remembered choices are those that are made anew.
    for (auto& [key, choice] : comm.choices()) choice.comm_sms = 7;
    ASSERT_TRUE(Decide(other, tcPlaneAuto, comm, &decision).ok());
    EXPECT_EQ(decision.comm_sms, 7);
    // A choice decides the plane, too: to this one there is no kernel.
    for (auto& [key, choice] : comm.choices()) choice.plane = tcPlanePull;
    const Status refused = Decide(other, tcPlaneAuto, comm, &decision);
    EXPECT_NE(refused.sentence().find("no kernel for plane 2 (pull)"), std::string::npos) << refused.sentence();
  });
}

TEST(Decide, WithoutPeerAccessAllGoesThroughTheHost) {
  FactTable apart = Seed(), broken = Seed(), copies = Seed();
  apart.p2p = false;
  broken.failed_planes = {tcPlanePush};
  copies.failed_planes = {tcPlaneCopyEngine};
  const auto expect = [](const FactTable& table, tcPlane_t plane) {
    const FactsFile file(table);
    RunRanks(file.path(), [&](const Communicator& comm) {
      EXPECT_EQ(comm.settings().plane, plane);
      EXPECT_EQ(comm.view().landing != nullptr, plane == tcPlaneHostStaged);
      Decision decision;
      ASSERT_TRUE(Decide(BareGather(), tcPlaneAuto, comm, &decision).ok());
      EXPECT_EQ(decision.plane, plane == tcPlaneAuto ? tcPlanePush : plane);
    });
  };
  expect(apart, tcPlaneHostStaged);
  expect(broken, tcPlaneHostStaged);  // signals are stores
  expect(copies, tcPlaneAuto);
}

TEST(Decide, APlaneThatFailedIsRefusedWhoeverAsksForIt) {
  FactTable table = Seed();
  table.failed_planes = {tcPlanePush};
  const FactsFile file(table);
  RunRanks(
      file.path(),
      [](const Communicator& comm) {
        Decision decision;
        const Status refused = Decide(BareGather(), tcPlaneAuto, comm, &decision);
        EXPECT_EQ(refused.code(), tcUnsupported);
        EXPECT_NE(refused.sentence().find("plane push failed its verification"), std::string::npos)
            << refused.sentence();
      },
      tcPlanePush);  // TC_PLANE
}

TEST(Decide, TakesThePlaneThatThePlanPrefersOfThoseThatAreBuilt) {
  const uint32_t push = 1u << tcPlanePush | 1u << tcPlaneHostStaged, pull = 1u << tcPlanePull;
  const std::vector<KernelRow> rows = {
      {"gather", tcOpAllGather, "device", ~0u, push | pull, nullptr},
      {"other backend", tcOpAllGather, "host", ~0u, 1u << tcPlaneCopyEngine, nullptr},
      {"other type", tcOpAllGather, "device", 1u << tcInt8, 1u << tcPlaneCopyEngine, nullptr},
      {"fused", tcOpAllGatherGemm, "device", ~0u, push, nullptr},
  };
  FactTable collapsing = Seed();
  collapsing.planes[tcPlanePush].at_once[Pattern::kAllToAll] = {{"PIX", 3}, {"NODE", 3}};
  collapsing.planes[tcPlanePull].at_once[Pattern::kAllToAll] = {{"PIX", 50}, {"NODE", 23.5}};
  const auto choice = [&](tcOp_t op, const FactTable& table, bool host_staged) {
    PlanRequest request = BareGather();
    request.op = op;
    request.count = uint64_t{1} << 24;
    request.ranks = 4;
    request.kernels = BuiltKernels(rows, op, tcBfloat16, "device", host_staged, table.gpu.arch);
    EXPECT_EQ(request.kernels.size(), 1u);
    Plan plan;
    EXPECT_TRUE(MakePlan(request, table, &plan).ok());
    return ChoiceOf(plan);
  };
  EXPECT_EQ(choice(tcOpAllGather, Seed(), false).plane, tcPlanePush);
  EXPECT_EQ(choice(tcOpAllGather, collapsing, false).plane, tcPlanePull);
  EXPECT_EQ(choice(tcOpAllGatherGemm, collapsing, false).plane, tcPlanePush);  // there is no other
  EXPECT_EQ(choice(tcOpAllGather, Seed(), true).plane, tcPlaneHostStaged);
  FactTable fused_slowly = Seed();
  fused_slowly.gpu.own_gemm_of_cublas = 0.01;
  EXPECT_EQ(choice(tcOpAllGatherGemm, fused_slowly, false).plane, tcPlanePush);  // not first, but the first of its own
}

TEST(AgreedFacts, ArriveAsTheyLeft) {
  AgreedFacts facts{Seed(), {3, 0, 2}}, got;
  ASSERT_TRUE(Unpack(Pack(facts), 3, &got).ok());
  EXPECT_EQ(platform::ToJson(got.table), platform::ToJson(facts.table));
  EXPECT_EQ(got.gpu_of_rank, facts.gpu_of_rank);
  EXPECT_EQ(Unpack(Pack(facts), 4, &got).code(), tcInternalError);
  EXPECT_EQ(Unpack("", 1, &got).code(), tcInternalError);
}

}  // namespace
}  // namespace tc
