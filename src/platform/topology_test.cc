#include "platform/topology.h"

#include <gtest/gtest.h>

#include "platform/recorded_machine.h"
#include "platform/sysfs.h"
#include "platform/topo_xml.h"

namespace tc::platform {
namespace {

using Names = std::vector<std::vector<std::string>>;
using Groups = std::vector<std::vector<int>>;

Topology Machine(const std::string& name) {
  const RecordedMachine machine(RecordedMachine::Description(name));
  Topology topology;
  const Status status = ReadSysfs(machine.root(), &topology);
  EXPECT_TRUE(status.ok()) << status.sentence();
  return topology;
}

Topology File(const std::string& name) {
  Topology topology;
  const Status status = ReadTopoXml(std::string(TC_TESTDATA) + "/" + name + ".xml", &topology);
  EXPECT_TRUE(status.ok()) << status.sentence();
  return topology;
}

Names Matrix(const Topology& topology) {
  const int n = static_cast<int>(topology.gpus.size());
  Names names;
  for (int a = 0; a < n; ++a) {
    names.emplace_back();
    for (int b = 0; b < n; ++b) names.back().push_back(a == b ? "X" : PathBetween(topology, a, b).Name());
  }
  return names;
}

// "0-1@0000:a1:00.0"
std::vector<std::string> Uplinks(const Topology& topology) {
  std::vector<std::string> uplinks;
  for (const SharedUplink& shared : SharedUplinks(topology)) {
    uplinks.push_back(
        Format("%d-%d@%s", shared.a, shared.b, topology.bridges[static_cast<size_t>(shared.bridge)].address.c_str()));
  }
  return uplinks;
}

Groups BestOf(const Topology& topology, int k, const char* worst) {
  BestGroups best;
  const Status status = FindBestGroups(topology, k, &best);
  EXPECT_TRUE(status.ok()) << status.sentence();
  EXPECT_EQ(best.worst.Name(), worst);
  EXPECT_EQ(best.groups.size(), std::min(best.count, kMostGroups));
  return best.groups;
}

// How many findings say all of these words in what they see or advise.
size_t FindingsThatSay(const Topology& topology, const std::vector<std::string>& words) {
  size_t count = 0;
  for (const Finding& finding : Findings(topology)) {
    const std::string text = finding.what + " " + finding.cure;
    bool all = true;
    for (const std::string& word : words) all &= text.find(word) != std::string::npos;
    count += all;
  }
  return count;
}

TEST(RecordedMachines, TheSeedsBoxHasPairsBelowSwitchesAndNothingToCure) {
  const Topology box = Machine("seed_4_gpus");
  EXPECT_EQ(Matrix(box), (Names{{"X", "PIX", "NODE", "NODE"},
                                {"PIX", "X", "NODE", "NODE"},
                                {"NODE", "NODE", "X", "PIX"},
                                {"NODE", "NODE", "PIX", "X"}}));
  EXPECT_EQ(Uplinks(box), (std::vector<std::string>{"0-1@0000:a1:00.0", "2-3@0000:c1:00.0"}));
  EXPECT_EQ(BestOf(box, 2, "PIX"), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(BestOf(box, 4, "NODE"), (Groups{{0, 1, 2, 3}}));
  EXPECT_EQ(Findings(box).size(), 0u) << Findings(box).front().what;
  EXPECT_EQ(box.gpus[0].address, "0000:a3:00.0");
  EXPECT_EQ(box.gpus[0].host_bridge, "pci0000:a0");
  EXPECT_EQ(box.gpus[0].numa, 1);
  EXPECT_EQ(box.gpus[0].iommu.type, "identity");
  EXPECT_EQ(box.cpu, "AMD EPYC 9554 64-Core Processor");
  EXPECT_EQ(box.kernel_options, (std::vector<std::string>{"iommu=pt", "amd_iommu=on"}));
}

TEST(RecordedMachines, OnTwoSocketsWithSwitchesGroupsKeepToASwitchThenToASocket) {
  const Topology box = Machine("dual_socket_8_gpus");
  const Names matrix = Matrix(box);
  EXPECT_EQ(matrix[0], (std::vector<std::string>{"X", "PIX", "PXB", "PXB", "SYS", "SYS", "SYS", "SYS"}));
  EXPECT_EQ(matrix[6], (std::vector<std::string>{"SYS", "SYS", "SYS", "SYS", "PXB", "PXB", "X", "PIX"}));
  EXPECT_EQ(BestOf(box, 2, "PIX"), (Groups{{0, 1}, {2, 3}, {4, 5}, {6, 7}}));
  EXPECT_EQ(BestOf(box, 3, "PXB").size(), 8u);
  EXPECT_EQ(BestOf(box, 4, "PXB"), (Groups{{0, 1, 2, 3}, {4, 5, 6, 7}}));
  // A socket and one switch of the other: eight pairs between sockets, where three and three would be nine.
  EXPECT_EQ(BestOf(box, 6, "SYS"),
            (Groups{{0, 1, 2, 3, 4, 5}, {0, 1, 2, 3, 6, 7}, {0, 1, 4, 5, 6, 7}, {2, 3, 4, 5, 6, 7}}));
  const std::vector<std::string> uplinks = Uplinks(box);
  EXPECT_EQ(uplinks.size(), 12u);  // all pairs of a socket
  EXPECT_EQ(uplinks[0], "0-1@0000:19:00.0");
  EXPECT_EQ(uplinks[1], "0-2@0000:17:00.0");
}

TEST(RecordedMachines, AUserLearnsOfAcsFromIommuGroupsAndOfNarrowLinks) {
  const Topology box = Machine("dual_socket_8_gpus");
  EXPECT_EQ(FindingsThatSay(box, {"may not read", "as root"}), 1u);
  EXPECT_EQ(FindingsThatSay(box, {"GPU 0 and GPU 1", "0000:19:00.0", "setpci -s 0000:1a:00.0 ECAP_ACS+6.w=0000",
                                  "setpci -s 0000:1a:08.0 ECAP_ACS+6.w=0000"}),
            1u);
  EXPECT_EQ(FindingsThatSay(box, {"translates", "0000:1b:00.0", "iommu=pt"}), 1u);
  EXPECT_EQ(FindingsThatSay(box, {"lanes"}), 1u);
  EXPECT_EQ(FindingsThatSay(box, {"GPU 0000:9d:00.0", "8 lanes", "could have 16"}), 1u)
      << box.gpus[5].address << " is the narrow one";
  EXPECT_EQ(FindingsThatSay(box, {"2.5 GT/s", "could run at 16", "while GPUs work"}), 8u);
}

TEST(RecordedMachines, GpusOnRootPortsShareAHostBridgeAndNoUplink) {
  const Topology box = Machine("root_ports");
  EXPECT_EQ(Matrix(box), (Names{{"X", "PHB", "NODE", "NODE"},
                                {"PHB", "X", "NODE", "NODE"},
                                {"NODE", "NODE", "X", "PHB"},
                                {"NODE", "NODE", "PHB", "X"}}));
  EXPECT_TRUE(Uplinks(box).empty());
  EXPECT_EQ(BestOf(box, 2, "PHB"), (Groups{{0, 1}, {2, 3}}));
  EXPECT_EQ(FindingsThatSay(box, {"0000:40:01.1", "0x001d", "setpci -s 0000:40:01.1 ECAP_ACS+6.w=0000"}), 1u);
  EXPECT_EQ(Findings(box).size(), 1u);  // a GPU in an older slot is no fault
}

TEST(RecordedMachines, AVirtualMachineHidesItsSwitchesAndSaysSo) {
  const Topology box = Machine("virtual_machine");
  EXPECT_EQ(Matrix(box)[0], (std::vector<std::string>{"X", "PHB", "PHB", "PHB"}));
  EXPECT_EQ(box.virtual_machine, true);
  EXPECT_EQ(FindingsThatSay(box, {"root bus", "TC_TOPO_FILE"}), 1u);
  EXPECT_EQ(Findings(box).size(), 1u);
  EXPECT_EQ(box.gpus[2].now.width, 0);
  EXPECT_EQ(BestOf(box, 2, "PHB").size(), 6u);
}

TEST(RecordedMachines, NvlinkPairsAreTheBestGroupsOfTwo) {
  const Topology box = File("nvlink_pairs");
  EXPECT_EQ(Matrix(box), (Names{{"X", "NV4", "SYS", "SYS"},
                                {"NV4", "X", "SYS", "SYS"},
                                {"SYS", "SYS", "X", "NV4"},
                                {"SYS", "SYS", "NV4", "X"}}));
  EXPECT_EQ(BestOf(box, 2, "NV4"), (Groups{{0, 1}, {2, 3}}));
  EXPECT_TRUE(Uplinks(box).empty());
}

TEST(RecordedMachines, InAMeshThroughNvswitchesAllGroupsAreAsGood) {
  const Topology box = File("nvlink_mesh");
  ASSERT_EQ(box.gpus.size(), 8u);
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (a != b) {
        EXPECT_EQ(PathBetween(box, a, b).Name(), "NV18") << a << " " << b;
      }
    }
  }
  BestGroups best;
  ASSERT_TRUE(FindBestGroups(box, 4, &best).ok());
  EXPECT_EQ(best.count, 70u);
  EXPECT_EQ(best.groups.size(), kMostGroups);
  EXPECT_EQ(best.groups.front(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(Uplinks(box).size(), 4u);  // each pair's PCIe switch
}

// Links between GPUs without a switch, more of them in some pairs than in others.
TEST(Groups, PreferThePairWithMoreNvlinks) {
  Topology box;
  const std::string names[] = {"0000:01:00.0", "0000:02:00.0", "0000:03:00.0"};
  const int counts[3][3] = {{0, 2, 1}, {2, 0, 1}, {1, 1, 0}};
  for (int a = 0; a < 3; ++a) {
    box.gpus.emplace_back();
    box.gpus.back().address = names[a];
    for (int b = 0; b < 3; ++b) {
      if (a != b) box.gpus.back().nvlinks.push_back({NvLinkEnd::kGpu, names[b], counts[a][b]});
    }
  }
  EXPECT_EQ(BestOf(box, 2, "NV2"), (Groups{{0, 1}}));
  EXPECT_EQ(BestOf(box, 3, "NV1"), (Groups{{0, 1, 2}}));
}

TEST(Groups, OfImpossibleSizesAreErrors) {
  Topology box;
  BestGroups best;
  EXPECT_EQ(FindBestGroups(box, 2, &best).code(), tcInvalidArgument);
  box.gpus.resize(3);
  EXPECT_EQ(FindBestGroups(box, 1, &best).code(), tcInvalidArgument);
  EXPECT_EQ(FindBestGroups(box, 4, &best).code(), tcInvalidArgument);
  box.gpus.resize(kMostGroupedGpus + 1);
  EXPECT_EQ(FindBestGroups(box, 2, &best).code(), tcUnsupported);
}

TEST(Paths, GpusOfUnknownNodesAreTakenToBeFarApart) {
  Topology box;
  box.gpus.resize(2);
  EXPECT_EQ(PathBetween(box, 0, 1).Name(), "SYS");
  for (Gpu& gpu : box.gpus) gpu.numa = 0;
  EXPECT_EQ(PathBetween(box, 0, 1).Name(), "NODE");
}

TEST(Paths, AnNvswitchThatOnlyOneReachesJoinsNobody) {
  Topology box;
  box.gpus.resize(2);
  box.gpus[0].nvlinks = {{NvLinkEnd::kSwitch, "0000:05:00.0", 9}};
  box.gpus[1].nvlinks = {{NvLinkEnd::kSwitch, "0000:06:00.0", 9}};
  EXPECT_EQ(PathBetween(box, 0, 1).Name(), "SYS");
  box.gpus[1].nvlinks.push_back({NvLinkEnd::kSwitch, "0000:05:00.0", 2});
  EXPECT_EQ(PathBetween(box, 0, 1).Name(), "NV9");  // no more than the one that has fewer
  EXPECT_EQ(PathBetween(box, 1, 0).Name(), "NV9");
}

TEST(PciNotation, AddressesHaveOneForm) {
  EXPECT_EQ(ParsePciAddress("00000000:3B:00.0"), "0000:3b:00.0");
  EXPECT_EQ(ParsePciAddress("3b:1f.7"), "0000:3b:1f.7");
  EXPECT_EQ(ParsePciAddress("10000:e1:00.0"), "10000:e1:00.0");
  EXPECT_EQ(ParsePciAddress("fffffff:ff:ff.0"), "fffffff:ff:ff.0");
  for (const char* bad : {"", "0", "0000:3b", "3b.0", "0000:3b:00", "0000:3b:00.", "0000:3b:00.00", "x:3b:00.0",
                          "000000000:3b:00.0", ":3b:00.0", "0000:100:00.0", "a:b:c:d.0"}) {
    EXPECT_EQ(ParsePciAddress(bad), std::nullopt) << bad;
  }
}

TEST(PciNotation, SpeedsAreGenerations) {
  EXPECT_EQ(ParseGtS("32.0 GT/s PCIe"), 32);
  EXPECT_EQ(ParseGtS("2.5 GT/s"), 2.5);
  EXPECT_EQ(ParseGtS("Unknown speed"), 0);
  EXPECT_EQ(ParseGtS(""), 0);
  for (const char* bad : {"fast", "-1 GT/s", "32", "nan GT/s", "1e9 GT/s"})
    EXPECT_EQ(ParseGtS(bad), std::nullopt) << bad;
  EXPECT_EQ(PciGeneration(2.5), 1);
  EXPECT_EQ(PciGeneration(32), 5);
  EXPECT_EQ(PciGeneration(64), 6);
  EXPECT_EQ(PciGeneration(7), 0);
}

}  // namespace
}  // namespace tc::platform
