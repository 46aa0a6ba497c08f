#include "platform/fact_table.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "platform/mutated_text.h"
#include "platform/recorded_table.h"

namespace tc::platform {
namespace {

constexpr const char* kTables[] = {"rtx-pro-5000-x4", "h200-x2"};

// The seed's table with one passage replaced by another.
std::string With(const std::string& passage, const std::string& replacement) {
  std::string text = TableText("rtx-pro-5000-x4");
  const size_t at = text.find(passage);
  EXPECT_NE(at, std::string::npos) << passage;
  return text.replace(at, passage.size(), replacement);
}

void ExpectRefused(const std::string& text, const std::string& sentence) {
  FactTable table;
  table.name = "untouched";
  const Status status = ParseFactTable(text, &table);
  EXPECT_EQ(status.code(), tcInvalidArgument) << sentence;
  EXPECT_EQ(status.sentence(), sentence);
  EXPECT_EQ(table.name, "untouched");
}

TEST(FactTable, HoldsTheSeedsFacts) {
  const FactTable table = RecordedTable("rtx-pro-5000-x4");
  EXPECT_EQ(table.gpus, 4);
  EXPECT_EQ(table.gpu.sms, 110);
  EXPECT_EQ(table.gpu.arch, "sm_120");
  EXPECT_EQ(table.paths[0][1], "PIX");
  EXPECT_EQ(table.paths[3][0], "NODE");
  EXPECT_TRUE(table.p2p);
  EXPECT_FALSE(table.built_in);
  const PlaneFacts& push = table.planes.at(tcPlanePush);
  EXPECT_EQ(push.alone.at("NODE"), 51.0);
  EXPECT_EQ(push.by_sms.at(2), 38.5);
  EXPECT_EQ(push.saturating_sms, 4);
  EXPECT_EQ(push.at_once.at(Pattern::kRing), (RateByPath{{"NODE", 49.8}, {"PIX", 49.8}}));
  const PlaneFacts& pull = table.planes.at(tcPlanePull);
  EXPECT_EQ(pull.alone.at("PIX"), 50.8);
  EXPECT_EQ(pull.at_once.at(Pattern::kRing), (RateByPath{{"NODE", 23.5}}));  // a GPU's that reads from the other pair
  EXPECT_EQ(table.planes.at(tcPlaneCopyEngine).saturating_sms, 0);
  EXPECT_TRUE(table.planes.at(tcPlaneCopyEngine).at_once.empty());
  EXPECT_FALSE(table.host_staged);
  EXPECT_EQ(table.nccl_busbw.at("all_gather"), 30.5);
  EXPECT_EQ(table.nccl_sms, 16);
  EXPECT_EQ(*table.small_message, 25.0);
  EXPECT_EQ(table.latency.at("slot_barrier_4").low, 9.0);
  EXPECT_EQ(table.latency.at("slot_barrier_4").high, 11.7);
  EXPECT_EQ(table.latency.at("signal_rtt_NODE").high, 2.87);
  EXPECT_EQ(table.gemm_slowdown.at(16).low, 0.08);
  EXPECT_EQ(table.gemm_slowdown.at(16).high, 0.16);
  EXPECT_EQ(table.bandwidth_interference, 0);
}

TEST(FactTable, HoldsTheFactsOfTheNvlinkMachine) {
  const FactTable table = RecordedTable("h200-x2");
  EXPECT_EQ(table.paths[0][1], "NV18");
  EXPECT_EQ(table.planes.at(tcPlanePush).by_sms.at(132), 368.7);
  EXPECT_EQ(table.planes.at(tcPlaneCopyEngine).at_once.at(Pattern::kBothWays).at("NV18"), 391);
  ASSERT_TRUE(table.host_staged);
  EXPECT_EQ(table.host_staged->at_once, 36);
  EXPECT_EQ(table.nccl_busbw.at("all_gather_128_mib"), 294);
  EXPECT_EQ(*table.gpu.bf16_tflops, 794);
}

TEST(FactTable, WhatIsWrittenIsReadAgain) {
  for (const char* name : kTables) {
    const FactTable table = RecordedTable(name);
    const std::string text = ToJson(table);
    EXPECT_NE(text.find("\"version\": 1"), std::string::npos);
    FactTable again;
    const Status status = ParseFactTable(text, &again);
    ASSERT_TRUE(status.ok()) << status.sentence() << "\n" << text;
    EXPECT_EQ(ToJson(again), text);
    EXPECT_EQ(again.planes.at(tcPlanePull).at_once, table.planes.at(tcPlanePull).at_once);
    EXPECT_EQ(again.planes.at(tcPlanePull).by_sms, table.planes.at(tcPlanePull).by_sms);
    EXPECT_EQ(again.native_atomics, table.native_atomics);
  }
}

TEST(FactTable, WhatIsWrongIsSaidWithItsPlace) {
  ExpectRefused("", "line 1, column 1: this is no JSON, or it ends too early");
  const std::string text = TableText("rtx-pro-5000-x4");
  ExpectRefused(text.substr(0, text.find("\"arch\"") + 8), "line 5, column 44: this is no JSON, or it ends too early");
  ExpectRefused("[1]", "the table: is [1]; it must be an object");
  for (const size_t deep : {40, 500'000}) {  // a file may be as large
    ExpectRefused("{\"name\": " + std::string(deep, '[') + std::string(deep, ']') + "}",
                  "the table: is nested more than 32 deep");
  }
  ExpectRefused(With("\"gpus\": 4", "\"version\": 2, \"bandwidth\": 4"), "version: is 2; this library reads version 1");
  ExpectRefused(With("\"gpus\": 4,", ""), "the table: has no \"gpus\"");
  ExpectRefused(With("\"gpus\": 4", "\"gpus\": 4, \"gpus\": 4"),
                "the table: has the field \"gpus\" twice in one object");
  ExpectRefused(With("\"gpus\": 4", "\"gpus\": 4, \"gpu_count\": 4"), "gpu_count: is no field of a fact table");
  ExpectRefused(With("\"latency_us\"", "\"latency_ms\""), "the table: has no \"latency_us\"");
  ExpectRefused(With("\"saturating_sms\": 4", "\"saturating_smx\": 4"),
                "planes_gb_s.push.saturating_smx: is no field of a fact table; did you mean \"saturating_sms\"?");
  ExpectRefused(With("\"4\": 50.1", "\"4\": -50.1"),
                "planes_gb_s.push.by_blocks.4: is -50.1; it must be from 0.001 to 1e+06");
  ExpectRefused(With("\"4\": 50.1", "\"four\": 50.1"),
                "planes_gb_s.push.by_blocks.four: a number of SMs from 1 to 4096 must stand there");
  ExpectRefused(With("\"sms\": 110", "\"sms\": 1.5"), "gpu.sms: is 1.5; it must be a whole number");
  ExpectRefused(With("\"sms\": 110", "\"sms\": \"many\""), "gpu.sms: is \"many\"; it must be a number");
  ExpectRefused(With("[9.0, 11.7]", "[11.7, 9.0]"),
                "latency_us.slot_barrier_4: is [11.7,9.0]; the least must come first");
  ExpectRefused(With("[9.0, 11.7]", "[9.0]"),
                "latency_us.slot_barrier_4: has 1 elements; it must be a number or [least, most]");
  ExpectRefused(With("[\"X\", \"PIX\"", "[\"X\", \"PIXX\""),
                "topology[0][1]: is \"PIXX\"; it must be a path as nvidia-smi topo -m names them (NV18, PIX, PXB, PHB, "
                "NODE, SYS)");
  ExpectRefused(With("[\"X\", \"PIX\"", "[\"X\", \"SYS\""),
                "topology[1][0]: is \"PIX\"; topology[0][1] says otherwise");
  ExpectRefused(With("[\"X\", \"PIX\"", "[\"PIX\", \"PIX\""), "topology[0][0]: is \"PIX\"; it must be \"X\"");
  ExpectRefused(With("\"gpus\": 4", "\"gpus\": 5"), "topology: it must have a row for each of 5 GPUs");
  ExpectRefused(With("sm_120", "sm_7"),
                "gpu: of the architecture \"sm_7\" nothing is known; say its bf16_tflops_cublas_8192 and "
                "hbm_copy_gb_s");
  ExpectRefused(With("\"access\": true", "\"access\": true, \"failed_planes\": [\"shove\"]"),
                "p2p.failed_planes[0]: is \"shove\", which is no plane");
}

TEST(FactTable, AFileThatIsNoneIsRefusedByName) {
  char name[] = "/tmp/tc_facts_XXXXXX";
  const std::filesystem::path folder = ::mkdtemp(name);
  FactTable table;
  const auto sentence = [&](const std::filesystem::path& path) {
    const Status status = ReadFactTable(path, &table);
    EXPECT_EQ(status.code(), tcInvalidArgument);
    EXPECT_NE(status.sentence().find(path), std::string::npos) << status.sentence();
    return status.sentence();
  };
  EXPECT_NE(sentence(folder / "none").find("No such file"), std::string::npos);
  EXPECT_NE(sentence(folder).find("not a regular file"), std::string::npos);
  ASSERT_EQ(::mkfifo((folder / "pipe").c_str(), 0600), 0);
  EXPECT_NE(sentence(folder / "pipe").find("not a regular file"), std::string::npos);  // and does not wait for a writer
  std::ofstream(folder / "large") << std::string(5 << 20, ' ');
  EXPECT_NE(sentence(folder / "large").find("larger than"), std::string::npos);
  std::ofstream(folder / "torn") << TableText("h200-x2").substr(0, 300);
  EXPECT_NE(sentence(folder / "torn").find("line 6"), std::string::npos);
  EXPECT_NE(sentence(folder / "torn").find("correct it, or have the machine measured again"), std::string::npos);
  std::filesystem::remove_all(folder);
}

TEST(FactTable, FallsBackToTheBuiltInModel) {
  const MachineKind kind{.arch = "sm_90", .sms = 132, .paths = {{"X", "NV18"}, {"NV18", "X"}}};
  std::string warning;
  EXPECT_FALSE(FactsOrBuiltIn(TableFile("h200-x2"), kind, &warning).built_in);
  EXPECT_EQ(warning, "");
  EXPECT_TRUE(FactsOrBuiltIn("", kind, &warning).built_in);
  EXPECT_EQ(warning, "");
  const FactTable table = FactsOrBuiltIn("/none/facts.json", kind, &warning);
  EXPECT_TRUE(table.built_in);
  EXPECT_EQ(table.planes.at(tcPlanePush).alone.at("NV18"), 369);
  EXPECT_NE(warning.find("/none/facts.json"), std::string::npos);
  EXPECT_NE(warning.find("the built-in model is used"), std::string::npos);
}

TEST(FactTable, BuiltInModelsAreTables) {
  const std::vector<std::vector<std::string>> nvlink = {{"X", "NV6"}, {"NV6", "X"}}, far = {{"X", "SYS"}, {"SYS", "X"}};
  for (const MachineKind& kind :
       {MachineKind{.host = true}, MachineKind{.host = true, .paths = {{"X", "SHM"}, {"SHM", "X"}}},
        MachineKind{.arch = "sm_90", .sms = 132, .paths = nvlink}, MachineKind{.arch = "sm_90", .sms = 114},
        MachineKind{.arch = "sm_61", .sms = 20, .paths = far}}) {
    FactTable again;
    const Status status = ParseFactTable(ToJson(BuiltInFacts(kind)), &again);
    EXPECT_TRUE(status.ok()) << status.sentence();
    EXPECT_TRUE(again.built_in);
  }
}

// What a file says, in memory: a disk would take a minute.
TEST(FactTable, TenThousandMutatedFilesCrashNothing) {
  std::mt19937_64 random(20261201);
  int refused = 0;
  for (int i = 0; i < 10000; ++i) {
    const std::string text = Mutated(TableText(kTables[i % 2]), random);
    FactTable table;
    const Status status = ParseFactTable(text, &table);
    EXPECT_TRUE(status.ok() || (status.code() == tcInvalidArgument && !status.sentence().empty())) << text;
    refused += !status.ok();
    // One that is read in spite of its mistakes can be written, and read again.
    FactTable again;
    if (status.ok()) {
      EXPECT_TRUE(ParseFactTable(ToJson(table), &again).ok()) << text;
    }
  }
  EXPECT_GT(refused, 5000);
  EXPECT_LT(refused, 9900);
}

TEST(FactTable, MutatedFilesFallBackToTheBuiltInModel) {
  char name[] = "/tmp/tc_facts_XXXXXX";
  const int file = ::mkstemp(name);
  ASSERT_GE(file, 0);
  ::close(file);
  std::mt19937_64 random(7);
  const MachineKind kind{.arch = "sm_120", .sms = 110};
  int refused = 0;
  for (int i = 0; i < 100; ++i) {
    std::ofstream(name, std::ios::trunc | std::ios::binary) << Mutated(TableText(kTables[i % 2]), random);
    std::string warning;
    const FactTable table = FactsOrBuiltIn(name, kind, &warning);
    EXPECT_EQ(table.built_in, !warning.empty()) << warning;
    EXPECT_EQ(table.built_in, warning.find(name) != std::string::npos) << warning;
    refused += table.built_in;
  }
  EXPECT_GT(refused, 50);
  ::unlink(name);
}

}  // namespace
}  // namespace tc::platform
