// Runs barrier_perf as its user does, and looks at what the user gets.
#include "binary_test.h"

namespace tc::perf {
namespace {

TEST_F(PerfBinaryTest, BarriersOfProcessesHold) {
  ExpectRight(Run("-r 1,2,3 -n 20 -w 2"), 3);
  ExpectFiles({});
}

TEST_F(PerfBinaryTest, BarriersOfThreadsHold) {
  const Ended ended = Run("--threads -r 2,4 -n 20 -w 2");
  ExpectRight(ended, 2);
  EXPECT_NE(ended.out.find("# Using 4 ranks: threads of one process\n"), std::string::npos) << ended.out;
  EXPECT_EQ(Rows(ended.out).at(1).at(0), "4");
}

TEST_F(PerfBinaryTest, NothingIsCheckedWithoutCheck) {
  const Ended ended = Run("-c 0 -n 2");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("# Out of bounds values : 0 OK (not checked)\n"), std::string::npos) << ended.out;
  EXPECT_EQ(Rows(ended.out).at(0).back(), "N/A");
}

TEST_F(PerfBinaryTest, RefusesWhatItCannotRun) {
  ExpectRefused(Run("-d half"), "-d");
  ExpectRefused(Run("-r 17"), "'17' is not a whole number");
  ExpectRefused(Run("-J none/report.json"), "cannot write none/report.json: No such file or directory");
  ExpectRefused(Run("-G 10"), "leave --backend host away");
}

TEST_F(PerfBinaryTest, WritesAReport) {
  ExpectRight(Run("-r 2,3 -n 7 -w 1 --seed 5 -J report.json"), 2);
  ExpectFiles({"report.json"});
  const auto report = nlohmann::json::parse(ReadFile(Path("report.json")));
  EXPECT_EQ(report["config"]["program"], "barrier_perf");
  EXPECT_EQ(report["config"]["iters"], 7);
  EXPECT_EQ(report["out_of_bounds"], nlohmann::json({{"count", 0}, {"okay", true}}));
  EXPECT_TRUE(report["error"].is_null());
  ASSERT_EQ(report["results"].size(), 2u);
  const auto& result = report["results"][1];
  EXPECT_EQ(result["ranks"], 3);
  EXPECT_EQ(result["backend"], "host");
  EXPECT_EQ(result["nwrong"], 0);
  EXPECT_EQ(result["times_us"].size(), 7u);
  EXPECT_EQ(result["times_us_of_ranks"].size(), 3u);
  EXPECT_GT(result["median_us"], 0);
  EXPECT_GE(result["p99_us"], result["median_us"]);
}

class FaultTest : public PerfBinaryTest, public ::testing::WithParamInterface<const char*> {
 protected:
  const std::string mode_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(, FaultTest, ::testing::Values("", "--threads"),
                         [](const auto& tested) { return *tested.param == '\0' ? "Processes" : "Threads"; });

TEST_P(FaultTest, NoFaultIsRight) { ExpectRight(RunFaulty("", mode_ + " -n 4"), 1); }

TEST_P(FaultTest, SeesABarrierThatHoldsNobodyBack) {
  const Ended ended = RunFaulty("open barrier", mode_ + " -n 4 -w 1");
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("times before a peer had come to it"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find("rank 1: tcCommGetStats is wrong by 8 barriers"), std::string::npos) << ended.out;
  EXPECT_NE(ended.out.find(" FAILED\n"), std::string::npos) << ended.out;
}

TEST_P(FaultTest, SeesBarriersTooMany) {
  const Ended ended = RunFaulty("two barriers", mode_ + " -n 4 -w 1 -J report.json");
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_EQ(Rows(ended.out).at(0).back(), "16") << ended.out;  // two ranks, four iterations of two barriers
  EXPECT_EQ(ended.out.find("before a peer"), std::string::npos) << ended.out;
  EXPECT_EQ(nlohmann::json::parse(ReadFile(Path("report.json")))["results"][0]["nwrong"], 16);
}

TEST_P(FaultTest, EndsAtTheTimeLimit) {
  const Ended ended = Wait(Start(TC_PERF_BINARY, mode_ + " --backend host -T 1 -n 1000000000 -c 0"));
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.err.find("time limit"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("in the case barrier"), std::string::npos) << ended.err;
}

TEST_F(GpuPerfTest, SeesABarrierThatHoldsNobodyBack) {
  ExpectRight(RunFaulty("", std::string(kOnOneGpu) + "-n 4", "cuda"), 1);
  const Ended ended = RunFaulty("open barrier", std::string(kOnOneGpu) + "-n 20", "cuda");
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.out.find("times before a peer had come to it"), std::string::npos) << ended.out << ended.err;
}

TEST_F(GpuPerfTest, SeesBarriersTooManyInAGraph) {
  const Ended ended = RunFaulty("two barriers", std::string(kOnOneGpu) + "-n 4 -G 10", "cuda");
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  ASSERT_EQ(Rows(ended.out).size(), 1u) << ended.out << ended.err;
  EXPECT_EQ(Rows(ended.out)[0].back(), "88") << ended.out;  // two ranks, four iterations of 11 barriers
}

TEST_F(GpuPerfTest, ReportsTheGpu) {
  const std::string arguments = std::string("--backend cuda -T 240 -n 5 -G 10 -J r.json ") + kOnOneGpu;
  const Ended ended = Wait(Start(TC_PERF_BINARY, arguments));
  ExpectRight(ended, 1);
  EXPECT_NE(ended.out.find("a graph of 10 barriers"), std::string::npos) << ended.out;
  const auto report = nlohmann::json::parse(ReadFile(Path("r.json")));
  EXPECT_EQ(report["config"]["cudagraph"], 10);
  EXPECT_EQ(report["results"][0]["gpus"], 1);
  EXPECT_EQ(report["environment"]["gpus"].size(), 1u);
}

}  // namespace
}  // namespace tc::perf
