#include "platform/sysfs.h"

#include <gtest/gtest.h>

#include "platform/discover.h"
#include "platform/recorded_machine.h"

namespace tc::platform {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOneGpu =
    "node 0 0-3 10\n"
    "dev pci0000:00/0000:00:01.0 vendor=8086 class=060400 numa=0 now=16.0x16 most=16.0x16 acs=0000\n"
    "dev pci0000:00/0000:00:01.0/0000:01:00.0 vendor=10de class=030200 numa=0 now=16.0x16 most=16.0x16 group=7:DMA\n";

Topology Read(const RecordedMachine& machine) {
  Topology topology;
  const Status status = ReadSysfs(machine.root(), &topology);
  EXPECT_TRUE(status.ok()) << status.sentence();
  return topology;
}

void ExpectRefused(const RecordedMachine& machine, const std::string& words) {
  Topology topology;
  const Status status = ReadSysfs(machine.root(), &topology);
  EXPECT_EQ(status.code(), tcInvalidArgument);
  EXPECT_NE(status.sentence().find(words), std::string::npos) << status.sentence();
}

TEST(Sysfs, AMachineWithoutGpusHasNodesAndProcessors) {
  const Topology topology = Read(RecordedMachine("node 1 4-7 21 10\nnode 0 0-3 10 21\n"));
  EXPECT_TRUE(topology.gpus.empty());
  EXPECT_TRUE(topology.bridges.empty());
  EXPECT_EQ(topology.iommu, std::nullopt);  // nothing says whether there is one
  EXPECT_EQ(topology.virtual_machine, false);
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].cpus, "0-3");
  EXPECT_EQ(topology.nodes[1].distances, (std::vector<int>{21, 10}));
}

TEST(Sysfs, AKernelWithoutNumaHasOneNodeOfAllProcessors) {
  const Topology topology = Read(RecordedMachine("file sys/devices/system/cpu/online 0-7\n"));
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].cpus, "0-7");
}

TEST(Sysfs, ThisMachineCanBeRead) {
  Topology topology;
  const Status status = DiscoverTopology(Env{}, &topology);
  EXPECT_TRUE(status.ok()) << status.sentence();
  EXPECT_FALSE(topology.nodes.empty());
}

TEST(Sysfs, MissingFilesLeaveTheirFieldsUnknown) {
  const RecordedMachine machine(
      "node 0 0-3 10\nnode 1 4-7 10\n"
      "dev pci0000:00/0000:00:01.0\n"
      "dev pci0000:00/0000:00:01.0/0000:01:00.0 vendor=10de class=030200\n");
  const Topology topology = Read(machine);
  ASSERT_EQ(topology.gpus.size(), 1u);
  EXPECT_EQ(topology.gpus[0].numa, -1);
  EXPECT_EQ(topology.gpus[0].now.width, 0);
  EXPECT_EQ(topology.gpus[0].iommu.number, -1);
  ASSERT_EQ(topology.bridges.size(), 1u);
  EXPECT_EQ(topology.bridges[0].acs.state, AcsState::kUnreadable);
}

TEST(Sysfs, ABridgesNodeStandsInForTheGpus) {
  const RecordedMachine machine(
      "node 0 0-3 10\nnode 1 4-7 10\n"
      "dev pci0000:00/0000:00:01.0 numa=1\n"
      "dev pci0000:00/0000:00:01.0/0000:01:00.0 vendor=10de class=030200 numa=-1\n");
  EXPECT_EQ(Read(machine).gpus.at(0).numa, 1);
}

TEST(Sysfs, OnlyNvidiasGpusCountAndNoSharesOfThem) {
  const RecordedMachine machine(
      "dev pci0000:00/0000:00:01.0 vendor=10de class=030000\n"
      "dev pci0000:00/0000:00:01.1 vendor=10de class=040300\n"
      "dev pci0000:00/0000:00:02.0 vendor=1a03 class=030000\n"
      "dev pci0000:00/0000:00:03.0 vendor=10de class=068000\n"
      "dev pci0000:00/0000:00:04.0 vendor=10de class=030200\n");
  fs::create_symlink("../0000:00:01.0", machine.Device("0000:00:04.0") / "physfn");
  const Topology topology = Read(machine);
  ASSERT_EQ(topology.gpus.size(), 1u);
  EXPECT_EQ(topology.gpus[0].address, "0000:00:01.0");
  EXPECT_EQ(topology.virtual_machine, true);  // on the root bus, where no card sits
}

TEST(Sysfs, BehindAVolumeManagementDeviceTheInnerHostBridgeCounts) {
  const RecordedMachine machine(
      "dev pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0\n"
      "dev pci0000:00/0000:00:0e.0/pci10000:e0/10000:e0:06.0/10000:e1:00.0 vendor=10de class=030200\n"
      "dev pci2000:80/2000:80:01.0\n"
      "dev pci2000:80/2000:80:01.0/2000:81:00.0 vendor=10de class=030200\n");
  const Topology topology = Read(machine);
  ASSERT_EQ(topology.gpus.size(), 2u);
  EXPECT_EQ(topology.gpus[0].address, "2000:81:00.0");  // the longer domain is the larger one
  EXPECT_EQ(topology.gpus[1].host_bridge, "pci10000:e0");
  EXPECT_EQ(BridgesAbove(topology, 1).size(), 1u);
}

TEST(Sysfs, AcsIsReadWhereItMayBe) {
  const auto acs = [](const char* value) {
    const RecordedMachine machine(
        Format("dev pci0000:00/0000:00:01.0 acs=%s\n"
               "dev pci0000:00/0000:00:01.0/0000:01:00.0 vendor=10de class=030200\n",
               value));
    return Read(machine).bridges.at(0).acs;
  };
  EXPECT_EQ(acs("none").state, AcsState::kNone);
  EXPECT_EQ(acs("user").state, AcsState::kUnreadable);
  EXPECT_EQ(acs("001d").state, AcsState::kRead);
  EXPECT_EQ(acs("001d").control, 0x1d);
}

TEST(Sysfs, AConfigurationThatMakesNoSenseEnds) {
  const RecordedMachine machine(kOneGpu);
  const fs::path config = machine.Device("0000:00:01.0") / "config";
  const auto state = [&](const std::string& bytes) {
    std::ofstream(config, std::ios::binary | std::ios::trunc) << bytes;
    return Read(machine).bridges.at(0).acs.state;
  };
  EXPECT_EQ(state(""), AcsState::kUnreadable);
  EXPECT_EQ(state(std::string(255, '\xff')), AcsState::kUnreadable);
  EXPECT_EQ(state(std::string(256, '\0')), AcsState::kNone);
  EXPECT_EQ(state(std::string(260, '\xff')), AcsState::kNone);
  EXPECT_EQ(state(std::string(4096, '\xff')), AcsState::kNone);
  std::string circle(4096, '\0');
  circle.replace(0x100, 4, std::string("\x01\x00\x02\x10", 4));  // the next capability is this one
  EXPECT_EQ(state(circle), AcsState::kNone);
  std::string last(4096, '\0');
  last.replace(0x100, 4, std::string("\x01\x00\xc2\xff", 4));
  last.replace(0xffc, 4, std::string("\x0d\x00\x01\x00", 4));  // ends where its control register would be
  EXPECT_EQ(state(last), AcsState::kNone);
  fs::remove(config);
  fs::create_directory(config);
  EXPECT_EQ(Read(machine).bridges.at(0).acs.state, AcsState::kUnreadable);
}

TEST(Sysfs, NonsenseIsRefusedWithTheFilesName) {
  const std::pair<const char*, const char*> kBad[] = {{"vendor", "0xzz"},
                                                      {"class", "display"},
                                                      {"numa_node", "one"},
                                                      {"current_link_speed", "fast"},
                                                      {"max_link_speed", "-1 GT/s"},
                                                      {"current_link_width", "x16"},
                                                      {"max_link_width", "99999999999"}};
  for (const auto& [file, text] : kBad) {
    const RecordedMachine machine(kOneGpu);
    std::ofstream(machine.Device("0000:01:00.0") / file) << text << "\n";
    ExpectRefused(machine, std::string("0000:01:00.0/") + file + " says \"" + text + "\"");
  }
  ExpectRefused(RecordedMachine("node 0 0-3 10 ten\n"), "node0/distance says \"ten\"");
}

TEST(Sysfs, ACopyWithoutLinksIsRefused) {
  const RecordedMachine machine(kOneGpu);
  const fs::path gpu = machine.Device("0000:01:00.0");
  const fs::path target = fs::canonical(gpu);
  fs::remove(gpu);
  fs::copy(target, gpu);
  ExpectRefused(machine, "is no symbolic link");
  fs::remove_all(gpu);
  fs::create_symlink(target, gpu);  // complete, but the devices directory has another name
  fs::rename(fs::path(machine.root()) / "sys/devices/pci0000:00", fs::path(machine.root()) / "sys/devices/other");
  fs::remove(gpu);
  fs::create_symlink("../../../devices/other/0000:00:01.0/0000:01:00.0", gpu);
  ExpectRefused(machine, "no place below a host bridge");
}

TEST(Sysfs, ARootWithoutSysIsRefused) {
  const RecordedMachine machine("");
  Topology topology;
  for (const std::string& root : {machine.root() + "/sys/bus", std::string("/does/not/exist")}) {
    const Status status = ReadSysfs(root, &topology);
    EXPECT_EQ(status.code(), tcInvalidArgument);
    EXPECT_NE(status.sentence().find(root), std::string::npos) << status.sentence();
  }
}

TEST(Sysfs, TheEnvironmentChoosesTheSource) {
  const RecordedMachine machine(kOneGpu);
  Env env;
  env.sysfs_root = machine.root();
  Topology topology;
  ASSERT_TRUE(DiscoverTopology(env, &topology).ok());
  EXPECT_EQ(topology.source, "sysfs at " + machine.root());
  EXPECT_EQ(topology.gpus.size(), 1u);
  EXPECT_TRUE(topology.unknowns.empty());  // NVML is not asked about a recorded machine
  env.topo_file = std::string(TC_TESTDATA) + "/nvlink_mesh.xml";
  ASSERT_TRUE(DiscoverTopology(env, &topology).ok());
  EXPECT_EQ(topology.gpus.size(), 8u);
}

}  // namespace
}  // namespace tc::platform
