#include "platform/render.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "platform/recorded_machine.h"
#include "platform/sysfs.h"

namespace tc::platform {
namespace {

Topology Machine(const std::string& name) {
  const RecordedMachine machine(RecordedMachine::Description(name));
  Topology topology;
  EXPECT_TRUE(ReadSysfs(machine.root(), &topology).ok());
  return topology;
}

TEST(Render, TheTextIsTheMatrixOfNvidiaSmi) {
  EXPECT_EQ(ToText(Machine("seed_4_gpus")),
            "      GPU0  GPU1  GPU2  GPU3  CPU Affinity  NUMA Affinity\n"
            "GPU0  X     PIX   NODE  NODE  64-127        1\n"
            "GPU1  PIX   X     NODE  NODE  64-127        1\n"
            "GPU2  NODE  NODE  X     PIX   64-127        1\n"
            "GPU3  NODE  NODE  PIX   X     64-127        1\n");
  Topology unknown;
  unknown.gpus.resize(1);
  EXPECT_EQ(ToText(unknown), "      GPU0  CPU Affinity  NUMA Affinity\nGPU0  X     N/A           N/A\n");
}

TEST(Render, TheJsonHoldsEverything) {
  const auto json = nlohmann::json::parse(ToJson(Machine("seed_4_gpus")));
  EXPECT_EQ(json["paths"][0], nlohmann::json({"X", "PIX", "NODE", "NODE"}));
  EXPECT_EQ(json["numaNodes"][1]["cpus"], "64-127");
  EXPECT_EQ(json["numaNodes"][1]["distances"], nlohmann::json({32, 10}));
  EXPECT_EQ(json["iommu"], true);
  EXPECT_EQ(json["kernelOptions"][0], "iommu=pt");
  const auto gpu = json["gpus"][1];
  EXPECT_EQ(gpu["busId"], "0000:a4:00.0");
  EXPECT_EQ(gpu["numaNode"], 1);
  EXPECT_EQ(gpu["hostBridge"], "pci0000:a0");
  EXPECT_EQ(gpu["bridges"], nlohmann::json({"0000:a2:01.0", "0000:a1:00.0", "0000:a0:01.1"}));
  EXPECT_EQ(gpu["link"]["generation"], 5);
  EXPECT_EQ(gpu["link"]["widthMost"], 16);
  EXPECT_EQ(gpu["iommuGroup"], 40);
  EXPECT_TRUE(gpu["uuid"].is_null());
  EXPECT_EQ(json["bridges"].size(), 8u);
  EXPECT_EQ(json["bridges"][0]["acs"]["redirects"], false);
  EXPECT_EQ(json["bridges"][1]["acs"], "none");
  EXPECT_EQ(json["sharedUplinks"][0]["bridge"], "0000:a1:00.0");
  EXPECT_EQ(json["sharedUplinks"][0]["gpus"], nlohmann::json({0, 1}));
  EXPECT_EQ(json["bestGroups"].size(), 3u);
  EXPECT_EQ(json["bestGroups"][0]["groups"], nlohmann::json({{0, 1}, {2, 3}}));
  EXPECT_TRUE(json["findings"].empty());
}

TEST(Render, FindingsNameTheirCure) {
  const auto json = nlohmann::json::parse(ToJson(Machine("root_ports")));
  ASSERT_EQ(json["findings"].size(), 1u);
  EXPECT_EQ(json["findings"][0]["cure"],
            "switch ACS off in the firmware's setup, or as root, after every boot: setpci -s 0000:40:01.1 "
            "ECAP_ACS+6.w=0000.");
}

TEST(Render, BytesThatAreNoTextDoNotBreakTheJson) {
  Topology topology;
  topology.cpu = "CPU \xff\"\n";
  EXPECT_EQ(nlohmann::json::parse(ToJson(topology))["cpu"], "CPU \xef\xbf\xbd\"\n");
  EXPECT_EQ(nlohmann::json::parse(ToJson(topology))["gpus"], nlohmann::json::array());
}

}  // namespace
}  // namespace tc::platform
