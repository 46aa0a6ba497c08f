// Runs tc_plan as its user does, on the tables of two machines.
#include "binary_test.h"

namespace tc::perf {
namespace {

class TcPlanTest : public PerfBinaryTest {
 protected:
  Ended Plan(const std::string& arguments) const { return Wait(Start(TC_PERF_BINARY, arguments)); }

  static std::string Facts(const std::string& name) { return "--facts '" TC_TESTDATA "/" + name + ".json' "; }

  nlohmann::json Json(const std::string& arguments) const {
    const Ended ended = Plan(arguments + " --json");
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_EQ(ended.err, "");
    return nlohmann::json::parse(ended.out);
  }
};

constexpr const char* kSeed = "rtx-pro-5000-x4";
constexpr const char* kNvlink = "h200-x2";

TEST_F(TcPlanTest, GivesChoiceAlternativesAndReason) {
  const auto plan = Json(Facts(kSeed) + "--op allgather_gemm -M 8K -N 1K -K 8K --ranks 4");
  EXPECT_EQ(plan["choice"]["plane"], "push");
  EXPECT_EQ(plan["choice"]["commSms"], 4);
  EXPECT_EQ(plan["choice"]["order"], "rotated");
  EXPECT_EQ(plan["bound"], "communication");
  EXPECT_EQ(plan["facts"]["name"], kSeed);
  EXPECT_FALSE(plan["facts"]["builtIn"]);
  std::map<std::string, double> totals;
  for (const auto& other : plan["alternatives"]) {
    EXPECT_GE(other["totalUs"], plan["choice"]["totalUs"]);
    if (other["way"] == "one_kernel") totals[other["plane"]] = other["gbPerS"];
    if (other["way"] == "nccl") totals["nccl"] = other["gbPerS"];
  }
  EXPECT_EQ(totals.size(), 4u) << plan;
  EXPECT_NEAR(totals["pull"], 23.5, 0.01);
  EXPECT_NEAR(totals["nccl"], 30.5, 0.01);
  EXPECT_EQ(std::string(plan["reason"]).rfind("Communication bounds it", 0), 0u) << plan["reason"];
}

TEST_F(TcPlanTest, TellsPeopleTheSame) {
  const std::string arguments = Facts(kSeed) + "--op allgather_gemm -M 8K -N 1K -K 8K -r 4";
  const Ended ended = Plan(arguments);
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_EQ(ended.err, "");
  const auto rows = Rows(ended.out);
  ASSERT_EQ(rows.size(), 9u) << ended.out;  // four planes, in one kernel and in turn, and NCCL
  EXPECT_EQ(rows[0][0], "one_kernel");
  EXPECT_EQ(rows[0][1], "push");
  EXPECT_NE(ended.out.find("# " + std::string(Json(arguments)["reason"])), std::string::npos) << ended.out;
  EXPECT_GT(Rows(Plan(arguments + " -a").out).size(), 100u);
}

TEST_F(TcPlanTest, AnswersForMachinesThatNobodyHas) {
  const auto plan = Json(Facts(kNvlink) + "--op allgather_gemm -M 512K -N 8K -K 8K --ranks 16 --nodes 64");
  EXPECT_EQ(plan["ranks"], 16);
  EXPECT_EQ(plan["nodes"], 64);
  EXPECT_GT(plan["choice"]["totalUs"], 0);
  ASSERT_EQ(plan["assumptions"].size(), 2u) << plan;
  EXPECT_NE(std::string(plan["assumptions"][0]).find("16 ranks on a node whose table has 2 GPUs"), std::string::npos);
  EXPECT_NE(std::string(plan["assumptions"][1]).find("between nodes"), std::string::npos);
  // With the table's own numbers nothing is assumed between nodes.
  auto table = nlohmann::json::parse(ReadFile(TC_TESTDATA "/h200-x2.json"));
  table["between_nodes"] = {{"gb_s_per_gpu", 5}, {"latency_us", 20}};
  std::ofstream(Path("facts.json")) << table;
  const auto slower = Json("--facts facts.json --op allgather_gemm -M 512K -N 8K -K 8K --ranks 16 --nodes 64");
  EXPECT_EQ(slower["assumptions"].size(), 1u);
  EXPECT_GT(slower["choice"]["commUs"], plan["choice"]["commUs"]);
}

TEST_F(TcPlanTest, ABrokenTableIsSaidAndTheBuiltInModelAnswers) {
  const std::string whole = ReadFile(TC_TESTDATA "/h200-x2.json");
  const std::string operation = " --op barrier --ranks 2 ";
  const auto expect = [&](const std::string& text, const std::string& words) {
    std::ofstream(Path("facts.json"), std::ios::trunc) << text;
    const Ended ended = Plan("--facts facts.json --json" + operation);
    EXPECT_EQ(ended.exit_code, 0) << ended.err;
    EXPECT_NE(ended.err.find("the fact table facts.json: " + words), std::string::npos) << ended.err;
    EXPECT_NE(ended.err.find("the built-in model is used"), std::string::npos) << ended.err;
    EXPECT_TRUE(nlohmann::json::parse(ended.out)["facts"]["builtIn"]);
  };
  expect(whole.substr(0, whole.size() / 2), "line 1");
  expect("{\"version\": 99}", "version: is 99; this library reads version 1");
  expect("nonsense", "line 1, column 2: this is no JSON");
  const auto model = Json("--built-in nvlink" + operation);
  EXPECT_NE(std::string(model["facts"]["name"]).find("NVLink"), std::string::npos);
}

TEST_F(TcPlanTest, TakesGpusPlanesAndVerdicts) {
  const std::string pair = Facts(kSeed) + "--op allgather -c 64M -d int8 --ranks 2 --plane pull ";
  EXPECT_GT(Json(pair)["choice"]["gbPerS"], 45);
  EXPECT_NEAR(Json(pair + "--gpus 0,2")["choice"]["gbPerS"], 29, 0.1);
  EXPECT_EQ(Json(pair + "--comm-sms 3")["choice"]["commSms"], 3);
  const auto failed = Json(Facts(kSeed) + "--op allgather -c 64M -d int8 --ranks 4 --failed push,copy_engine");
  EXPECT_EQ(failed["notConsidered"]["push"], "its verification failed: as --failed says");
  EXPECT_NE(failed["choice"]["plane"], "push");
}

TEST_F(TcPlanTest, RefusesWhatItCannotRead) {
  ExpectRefused(Plan("--op allgather_gemm -M 8K"), "allgather_gemm needs -M, -N and -K");
  ExpectRefused(Plan("--op allgather -M 8K"), "allgather takes -c");
  ExpectRefused(Plan("--op allgather"), "allgather needs -c");
  ExpectRefused(Plan("--op scatter -c 1"), "'scatter' is no operator; there are allgather_gemm");
  ExpectRefused(Plan("--op allgather -c 1 -d f64"), "'f64' is not a type");
  ExpectRefused(Plan("--op allgather -c 1 --plane air"), "'air' is no plane");
  ExpectRefused(Plan("--op allgather -c 1 --ranks 0"), "-r/--ranks");
  ExpectRefused(Plan("--op allgather -c 1 --ranks 2 --gpus 1"), "--gpus names 1 GPUs for 2 ranks");
  ExpectRefused(Plan("--op allgather -c 1 --ranks 2 --gpus 1,9"), "--gpus");
  ExpectRefused(Plan(""), "--op is required");
  const Ended none = Plan("--op allgather_gemm -M 0 -N 1 -K 1");
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_NE(none.err.find("m, n and k are 0, 1 and 1"), std::string::npos) << none.err;
}

}  // namespace
}  // namespace tc::perf
