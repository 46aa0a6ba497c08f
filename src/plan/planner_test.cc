#include "plan/planner.h"

#include <gtest/gtest.h>

#include <cmath>

#include "base/data_type.h"
#include "platform/mutated_text.h"
#include "platform/recorded_table.h"

namespace tc {
namespace {

using platform::FactTable;
using platform::Pattern;

FactTable Seed() { return platform::RecordedTable("rtx-pro-5000-x4"); }
FactTable Nvlink() { return platform::RecordedTable("h200-x2"); }

Plan Planned(const PlanRequest& request, const FactTable& table) {
  Plan plan;
  const Status status = MakePlan(request, table, &plan);
  EXPECT_TRUE(status.ok()) << status.sentence();
  return plan;
}

// The best of those that run in one kernel on this plane.
Candidate On(tcPlane_t plane, const Plan& plan) {
  for (const Candidate& candidate : plan.ranked) {
    if (candidate.plane == plane && candidate.way == Way::kOne) return candidate;
  }
  ADD_FAILURE() << PlaneName(plane) << " is not among the candidates: " << plan.reason;
  return {};
}

Candidate By(Way way, const Plan& plan) {
  for (const Candidate& candidate : plan.ranked) {
    if (candidate.way == way) return candidate;
  }
  ADD_FAILURE() << WayName(way) << " is not among the candidates: " << plan.reason;
  return {};
}

bool Considers(tcPlane_t plane, const Plan& plan) {
  return std::any_of(plan.ranked.begin(), plan.ranked.end(), [&](const auto& c) { return c.plane == plane; });
}

PlanRequest GatherGemm(uint64_t m, uint64_t n, uint64_t k, int ranks) {
  return {.op = tcOpAllGatherGemm, .type = tcBfloat16, .m = m, .n = n, .k = k, .ranks = ranks};
}

PlanRequest Gather(uint64_t bytes, int ranks) {
  return {.op = tcOpAllGather, .type = tcInt8, .count = bytes, .ranks = ranks};
}

// 12.6 MB reach each rank, below a GEMM that takes four times as long.
PlanRequest HiddenGather() { return GatherGemm(2048, 14336, 4096, 4); }
// A GEMM of a third of what its gather takes.
PlanRequest BareGather() { return GatherGemm(8192, 1024, 8192, 4); }

TEST(PlannerOnTheSeedsMachine, PushesWithFourSmsWhenCommunicationBounds) {
  const Plan plan = Planned(BareGather(), Seed());
  EXPECT_EQ(plan.best().bound, Bound::kCommunication) << plan.reason;
  EXPECT_EQ(plan.best().way, Way::kOne) << plan.reason;
  EXPECT_EQ(plan.best().plane, tcPlanePush) << plan.reason;
  EXPECT_EQ(plan.best().comm_sms, 4) << plan.reason;
  EXPECT_NEAR(plan.best().gb_s, 49.8, 0.1);
  const Plan collective = Planned(Gather(uint64_t{64} << 20, 4), Seed());
  EXPECT_EQ(collective.best().plane, tcPlanePush) << collective.reason;
  EXPECT_EQ(collective.best().comm_sms, 4) << collective.reason;
}

TEST(PlannerOnTheSeedsMachine, SmsGivenToCommunicationCostTheGemmTheirShare) {
  const FactTable table = Seed();
  const PlanRequest request = GatherGemm(16384, 14336, 4096, 4);
  const PlannedKernel kernel{.name = "tile", .planes = ~0u, .tile_m = 128, .tile_n = 128};
  const double alone = GemmTime(table, kernel, request, table.gpu.sms);
  const double with_4 = GemmTime(table, kernel, request, table.gpu.sms - 4) / alone - 1;
  const double with_16 = GemmTime(table, kernel, request, table.gpu.sms - 16) / alone - 1;
  EXPECT_NEAR(with_4, 0.04, 0.005);
  EXPECT_GE(with_16, 0.08);
  EXPECT_LE(with_16, 0.18);
}

TEST(PlannerOnTheSeedsMachine, PullAcrossHostBridgesIsSlowAndNotChosenWhereItBounds) {
  const Plan plan = Planned(BareGather(), Seed());
  const Candidate pull = On(tcPlanePull, plan);
  EXPECT_NEAR(pull.gb_s, 23.5, 0.01);
  EXPECT_EQ(pull.bound, Bound::kCommunication);
  EXPECT_NE(plan.best().plane, tcPlanePull);
  EXPECT_GT(pull.total_us, 1.5 * plan.best().total_us);
  // Between two GPUs of one switch it has no such weakness.
  PlanRequest pair = GatherGemm(8192, 1024, 8192, 2);
  EXPECT_GT(On(tcPlanePull, Planned(pair, Seed())).gb_s, 45);
  pair.gpu_of_rank = {0, 2};
  EXPECT_NEAR(On(tcPlanePull, Planned(pair, Seed())).gb_s, 29, 0.1);
}

TEST(PlannerOnTheSeedsMachine, PlanesDifferLittleBelowAGemmThatHidesThem) {
  PlanRequest request = HiddenGather();
  request.local_hop = true;
  const Plan plan = Planned(request, Seed());
  EXPECT_EQ(plan.best().bound, Bound::kCompute) << plan.reason;
  const double push = On(tcPlanePush, plan).total_us, pull = On(tcPlanePull, plan).total_us;
  EXPECT_LT(push / pull, 1.02);
  EXPECT_LT(On(tcPlaneCopyEngine, plan).total_us / pull, 1.02);
  // The plane without the local hop.
  EXPECT_GT(push, pull);
  EXPECT_EQ(plan.best().plane, tcPlanePull) << plan.reason;
  // It is the hop that decides: without one the planes are equal, and push moves sooner.
  request.local_hop = false;
  const Plan straight = Planned(request, Seed());
  EXPECT_NEAR(On(tcPlanePush, straight).total_us / On(tcPlanePull, straight).total_us, 1, 0.002);
  EXPECT_LT(On(tcPlanePush, straight).comm_us, On(tcPlanePull, straight).comm_us);
  EXPECT_EQ(straight.best().plane, tcPlanePush) << straight.reason;
}

TEST(PlannerOnTheSeedsMachine, SlotsBeatNcclForSmallOperators) {
  for (const uint64_t bytes : {uint64_t{16}, uint64_t{1} << 10, uint64_t{8} << 10, uint64_t{32} << 10}) {
    const Plan plan = Planned(Gather(bytes, 4), Seed());
    EXPECT_EQ(plan.best().way, Way::kOne) << plan.reason;
    EXPECT_EQ(plan.best().bound, Bound::kLatency) << plan.reason;
    EXPECT_LT(plan.best().total_us, 24) << plan.reason;
    EXPECT_GE(By(Way::kNccl, plan).total_us, 24);
  }
  const Plan reduce = Planned({.op = tcOpAllReduce, .type = tcFloat32, .count = 256, .ranks = 4}, Seed());
  EXPECT_EQ(reduce.best().way, Way::kOne) << reduce.reason;
  EXPECT_LT(reduce.best().total_us, 24);
  const Plan barrier = Planned({.op = tcOpBarrier, .type = tcInt8, .ranks = 4}, Seed());
  EXPECT_NEAR(barrier.best().total_us, 11.7, 0.01);
}

// Concurrent writes 52 -> 3 GB/s; reads as fast as ever.
FactTable Collapsing() {
  FactTable table = Seed();
  table.planes[tcPlanePush].at_once[Pattern::kAllToAll] = {{"PIX", 3.0}, {"NODE", 3.0}};
  platform::PlaneFacts& pull = table.planes[tcPlanePull];
  pull.alone = {{"PIX", 52}, {"NODE", 52}};
  pull.at_once = {{Pattern::kRing, pull.alone}, {Pattern::kAllToAll, pull.alone}};
  return table;
}

TEST(Planner, PullsOrStagesWhereConcurrentWritesCollapse) {
  FactTable table = Collapsing();
  for (const PlanRequest& request : {BareGather(), Gather(uint64_t{64} << 20, 4)}) {
    const Plan plan = Planned(request, table);
    const Candidate& best = plan.best();
    EXPECT_TRUE(best.plane == tcPlanePull || best.order == Order::kStaged) << plan.reason;
    EXPECT_GT(best.gb_s, 45) << plan.reason;
    for (const Candidate& other : plan.ranked) {
      if (other.plane == tcPlanePush && other.order == Order::kRotated) {
        EXPECT_LE(other.gb_s, 3.001);
      }
    }
  }
  // Where nothing can be read, nor copied, it stages.
  table.planes.erase(tcPlanePull);
  table.planes.erase(tcPlaneCopyEngine);
  const Plan plan = Planned(BareGather(), table);
  EXPECT_EQ(plan.best().plane, tcPlanePush) << plan.reason;
  EXPECT_EQ(plan.best().order, Order::kStaged) << plan.reason;
  EXPECT_NE(plan.reason.find("staged because"), std::string::npos) << plan.reason;
}

TEST(Planner, WritesToTwoRootsCollapseOnlyWhereThereAreTwo) {
  FactTable table = Seed();
  table.planes[tcPlanePush].at_once[Pattern::kTwoRoots] = {{"PIX", 3}, {"NODE", 3}};
  table.planes.erase(tcPlanePull);
  EXPECT_EQ(Planned(BareGather(), table).best().order, Order::kRotated);
  table.gpus = 6;  // three switches
  for (auto& row : table.paths) row.insert(row.end(), {"NODE", "NODE"});
  table.paths.push_back({"NODE", "NODE", "NODE", "NODE", "X", "PIX"});
  table.paths.push_back({"NODE", "NODE", "NODE", "NODE", "PIX", "X"});
  EXPECT_EQ(Planned(GatherGemm(8192, 512, 8192, 6), table).best().order, Order::kStaged);
}

TEST(Planner, GoesThroughTheHostWithoutPeerToPeer) {
  FactTable table = Seed();
  table.p2p = false;
  table.nccl_busbw["all_gather_p2p_disabled"] = 12;
  const Plan plan = Planned(BareGather(), table);
  EXPECT_EQ(plan.best().plane, tcPlaneHostStaged) << plan.reason;
  EXPECT_FALSE(Considers(tcPlanePush, plan) || Considers(tcPlanePull, plan) || Considers(tcPlaneCopyEngine, plan));
  EXPECT_NE(plan.reason.find("do not reach each other's memory"), std::string::npos) << plan.reason;
  EXPECT_EQ(plan.assumptions.size(), 1u);  // the table has no figures of it
  table.host_staged = platform::HostStagedFacts{52, 50, 36, 4};
  EXPECT_NEAR(Planned(BareGather(), table).best().gb_s, 36, 0.1);
  EXPECT_EQ(By(Way::kNccl, plan).gb_s, 12);
}

TEST(Planner, CopiesByEngineWhereSmsAreFifteenTimesSlower) {
  FactTable table = Seed();
  table.planes[tcPlanePush].alone["NODE"] = 56 / 15.0;
  table.planes[tcPlanePull].alone["NODE"] = 56 / 15.0;
  table.planes[tcPlanePush].at_once[Pattern::kRing] = {{"PIX", 49.8}, {"NODE", 56 / 15.0}};
  table.planes[tcPlanePull].at_once.clear();
  for (const PlanRequest& request : {BareGather(), HiddenGather(), Gather(uint64_t{64} << 20, 4)}) {
    const Plan plan = Planned(request, table);
    EXPECT_EQ(plan.best().plane, tcPlaneCopyEngine) << plan.reason;
    EXPECT_EQ(plan.best().comm_sms, 0) << plan.reason;
  }
  // Between the GPUs of one switch SMs are as fast as ever: two ranks there need no engine.
  const Plan pair = Planned(GatherGemm(8192, 1024, 8192, 2), table);
  EXPECT_GT(On(tcPlanePush, pair).gb_s, 45);
}

TEST(Planner, NeverTakesAPlaneWhoseVerificationFailed) {
  const std::vector<tcPlane_t> planes = {tcPlanePush, tcPlanePull, tcPlaneCopyEngine, tcPlaneHostStaged};
  for (const FactTable& table : {Seed(), Nvlink(), Collapsing()}) {
    for (const PlanRequest& asked : {GatherGemm(4096, 4096, 4096, 2), Gather(1024, 2), Gather(uint64_t{1} << 26, 2)}) {
      for (unsigned failed = 1; failed < 16; ++failed) {
        PlanRequest request = asked;
        FactTable told = table;
        for (size_t i = 0; i < planes.size(); ++i) {
          if ((failed >> i & 1) == 0) continue;
          if (failed % 2 == 0) told.failed_planes.push_back(planes[i]);
          if (failed % 2 == 1) request.failed[planes[i]] = "stores were lost between ranks 0 and 1";
        }
        const Plan plan = Planned(request, told);
        for (size_t i = 0; i < planes.size(); ++i) {
          if ((failed >> i & 1) == 0) continue;
          EXPECT_FALSE(Considers(planes[i], plan)) << PlaneName(planes[i]);
          EXPECT_NE(plan.reason.find(PlaneName(planes[i]) + std::string(" (its verification failed")),
                    std::string::npos)
              << plan.reason;
        }
      }
    }
  }
}

TEST(Planner, TheUnfusedPathIsAlwaysACandidate) {
  for (const FactTable& table : {Seed(), Nvlink()}) {
    for (const tcOp_t op : {tcOpAllGatherGemm, tcOpGemmReduceScatter, tcOpGemmAllReduce}) {
      PlanRequest request = GatherGemm(4096, 8192, 8192, 2);
      request.op = op;
      const Plan plan = Planned(request, table);
      const Candidate turn = By(Way::kTurn, plan), nccl = By(Way::kNccl, plan);
      for (const Candidate& unfused : {turn, nccl}) {
        EXPECT_GE(unfused.total_us, unfused.comm_us + unfused.compute_us);
      }
      EXPECT_EQ(plan.best().way, Way::kOne) << plan.reason;
    }
  }
  // It wins where this library's GEMM is slow.
  FactTable slow = Nvlink();
  slow.gpu.own_gemm_of_cublas = 0.5;
  EXPECT_NE(Planned(GatherGemm(8192, 14336, 4096, 2), slow).best().way, Way::kOne);
}

// FACTS.md's cuBLAS column, us.
TEST(Planner, GemmTimesAreThoseMeasuredOnTheNvlinkMachine) {
  struct Row {
    uint64_t m, n, k;
    double us;
  };
  const FactTable table = Nvlink();
  const PlannedKernel kernel{.name = "tile", .planes = ~0u, .tile_m = 128, .tile_n = 256};
  for (const Row& row : {Row{512, 14336, 4096, 94.4}, Row{1024, 14336, 4096, 158.9}, Row{2048, 14336, 4096, 307.1},
                         Row{4096, 14336, 4096, 602.9}, Row{8192, 14336, 4096, 1196.5}, Row{4096, 8192, 8192, 677.5},
                         Row{8192, 8192, 8192, 1384.3}, Row{16384, 8192, 8192, 2764.4}}) {
    EXPECT_NEAR(GemmTime(table, kernel, GatherGemm(row.m, row.n, row.k, 2), 132) / row.us, 1, 0.1) << row.m;
  }
  // One token is bound by the weights' way from memory, not by tiles.
  EXPECT_GT(GemmTime(table, kernel, GatherGemm(1, 14336, 4096, 2), 132), 14336.0 * 4096 * 2 / 4200e3);
}

TEST(Planner, GivesFourSmsOverNvlinkWhereTheyCostNoWave) {
  const Plan plan = Planned(GatherGemm(8192, 14336, 4096, 2), Nvlink());
  EXPECT_EQ(plan.best().bound, Bound::kCompute) << plan.reason;
  // 28 waves on 128 SMs as on 132; with eight SMs it would be 29.
  EXPECT_EQ(On(tcPlanePush, plan).comm_sms, 4);
  EXPECT_NEAR(On(tcPlanePush, plan).compute_us,
              GemmTime(Nvlink(), DesignedKernels("sm_90")[1], GatherGemm(8192, 14336, 4096, 2), 132), 0.01);
  EXPECT_EQ(plan.best().plane, tcPlanePush) << plan.reason;  // pull would be no better
  EXPECT_LT(plan.best().total_us, By(Way::kNccl, plan).total_us);
}

TEST(Planner, GivesNoMoreSmsThanThereAreChunks) {
  PlanRequest request = Gather(1024, 4);
  request.chunks = {1024};
  EXPECT_EQ(Planned(request, Seed()).best().comm_sms, 3);
}

TEST(Planner, ChunksAreSmallEnoughForTheTailAndLargeEnoughForSignals) {
  const Plan plan = Planned(GatherGemm(32768, 2048, 8192, 4), Seed());
  std::map<uint64_t, double> by_chunk;
  for (const Candidate& c : plan.ranked) {
    if (c.way == Way::kOne && c.plane == tcPlanePush && c.comm_sms == 4 && c.order == Order::kRotated &&
        c.kernel == plan.best().kernel) {
      by_chunk[c.chunk_bytes] = c.total_us;
    }
  }
  ASSERT_GE(by_chunk.size(), 4u);
  EXPECT_GT(by_chunk.rbegin()->second, plan.best().total_us);  // a large last chunk waits for its tiles
  EXPECT_EQ(by_chunk.at(plan.best().chunk_bytes), plan.best().total_us);
  PlanRequest fixed = BareGather();
  fixed.chunks = {64};
  for (const Candidate& c : Planned(fixed, Seed()).ranked) {
    if (c.plane == tcPlanePush) {
      EXPECT_EQ(c.chunk_bytes, 64u * 8192 * 2);
    }
  }
}

TEST(Planner, TakesWhatTheCallerSays) {
  PlanRequest request = BareGather();
  request.plane = tcPlanePull;
  request.comm_sms = 7;
  for (const Candidate& c : Planned(request, Seed()).ranked) {
    EXPECT_EQ(c.plane, tcPlanePull);
    EXPECT_EQ(c.comm_sms, 7);
  }
  request = BareGather();
  request.kernels = {{.name = "only push", .planes = 1u << tcPlanePush, .tile_m = 64, .tile_n = 64}};
  const Plan plan = Planned(request, Seed());
  EXPECT_EQ(plan.best().kernel, "only push");
  EXPECT_EQ(plan.left_out.at(tcPlanePull), "there is no kernel for it");
}

TEST(Planner, AnswersForManyNodes) {
  PlanRequest request = GatherGemm(16 * 64 * 512, 8192, 8192, 16);
  request.nodes = 64;
  for (FactTable table : {Seed(), Nvlink()}) {
    const Plan assumed = Planned(request, table);
    const auto says = [&](const char* words, const Plan& plan) {
      return std::any_of(plan.assumptions.begin(), plan.assumptions.end(),
                         [&](const auto& sentence) { return sentence.find(words) != std::string::npos; });
    };
    EXPECT_TRUE(says("between nodes", assumed));
    EXPECT_TRUE(says("16 ranks on a node whose table has", assumed));
    table.between_nodes = platform::BetweenNodesFacts{2, 40};
    const Plan plan = Planned(request, table);
    EXPECT_FALSE(says("between nodes", plan));
    // 63 of 64 nodes' shards come through each GPU's 2 GB/s.
    EXPECT_GE(On(tcPlanePush, plan).comm_us, 63.0 * 512 * 8192 * 2 / 2e3);
    EXPECT_GT(On(tcPlanePush, plan).comm_us, On(tcPlanePush, assumed).comm_us);
    EXPECT_GE(On(tcPlanePush, plan).head_us, 40);
    EXPECT_GT(On(tcPlanePush, plan).compute_us,
              64 * 0.9 * On(tcPlanePush, Planned(GatherGemm(16 * 512, 8192, 8192, 16), table)).compute_us);
  }
}

TEST(Planner, ANodesOnlyRankMovesDataBetweenNodes) {
  PlanRequest request = Gather(1 << 20, 1);
  EXPECT_EQ(Planned(request, Nvlink()).best().total_us, 0);
  request.nodes = 4;
  FactTable table = Nvlink();
  table.between_nodes = platform::BetweenNodesFacts{10, 20};
  const Plan plan = Planned(request, table);
  EXPECT_NEAR(plan.best().comm_us, 3 * 1048576 / 10e3, 0.1) << plan.reason;
  EXPECT_EQ(By(Way::kNccl, plan).head_us, 20);
}

TEST(Planner, IsAFunction) {
  for (const FactTable& table : {Seed(), Nvlink()}) {
    const Plan a = Planned(HiddenGather(), table), b = Planned(HiddenGather(), table);
    ASSERT_EQ(a.ranked.size(), b.ranked.size());
    EXPECT_EQ(a.reason, b.reason);
    for (size_t i = 0; i < a.ranked.size(); ++i) {
      EXPECT_EQ(a.ranked[i].total_us, b.ranked[i].total_us);
      EXPECT_EQ(Describe(a.ranked[i]), Describe(b.ranked[i]));
    }
  }
}

TEST(Planner, RefusesWhatItCannotPlan) {
  Plan plan;
  const auto code = [&](const PlanRequest& request) { return MakePlan(request, Seed(), &plan).code(); };
  EXPECT_EQ(code({.op = tcOpMoeDispatch, .ranks = 2}), tcUnsupported);
  EXPECT_EQ(code(GatherGemm(0, 64, 64, 2)), tcInvalidArgument);
  EXPECT_EQ(code(GatherGemm(64, 64, 64, 0)), tcInvalidArgument);
  EXPECT_EQ(code(GatherGemm(64, 64, UINT64_MAX, 2)), tcInvalidArgument);
  PlanRequest none = Gather(64, 2);
  none.kernels = {{.name = "no plane"}};
  FactTable without_nccl = Seed();
  without_nccl.nccl_busbw.clear();
  EXPECT_EQ(MakePlan(none, without_nccl, &plan).code(), tcUnsupported);
}

// Whatever a table that was read says, times are numbers and the plan is whole.
TEST(Planner, PlansByTenThousandMutatedTables) {
  std::mt19937_64 random(20261202);
  const std::string texts[] = {platform::TableText("rtx-pro-5000-x4"), platform::TableText("h200-x2")};
  int planned = 0;
  for (int i = 0; i < 10000; ++i) {
    FactTable table;
    const std::string text = platform::Mutated(texts[i % 2], random);
    if (!ParseFactTable(text, &table).ok()) continue;
    PlanRequest requests[] = {BareGather(),
                              Gather(1 + random() % 1000000, 1 + static_cast<int>(random() % 16)),
                              {.op = tcOpAllReduce, .type = tcFloat32, .count = 1000, .ranks = 3, .nodes = 5}};
    for (const PlanRequest& request : requests) {
      Plan plan;
      const Status status = MakePlan(request, table, &plan);
      ASSERT_TRUE(status.ok()) << status.sentence() << text;
      for (const Candidate& c : plan.ranked) {
        ASSERT_TRUE(std::isfinite(c.total_us) && c.total_us >= 0 && c.total_us + 0.011 >= plan.best().total_us) << text;
      }
      ++planned;
    }
  }
  EXPECT_GT(planned, 1000);
}

}  // namespace
}  // namespace tc
