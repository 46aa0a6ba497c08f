#include "platform/topo_xml.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "platform/xml.h"

namespace tc::platform {
namespace {

std::string TestFile(const std::string& name) { return std::string(TC_TESTDATA) + "/" + name; }

std::string Contents(const std::string& name) {
  std::ifstream in(TestFile(name));
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

void ExpectRefused(const std::string& text, const std::string& sentence) {
  Topology topology;
  const Status status = ParseTopoXml(text, &topology);
  EXPECT_EQ(status.code(), tcInvalidArgument) << text;
  EXPECT_EQ(status.sentence(), sentence) << text;
}

TEST(TopoXml, AProvidersFileNeedsNoGpuElements) {
  Topology topology;
  const Status status = ReadTopoXml(TestFile("provided.xml"), &topology);
  ASSERT_TRUE(status.ok()) << status.sentence();
  ASSERT_EQ(topology.gpus.size(), 4u);
  EXPECT_EQ(topology.gpus[0].address, "0001:00:00.0");
  EXPECT_EQ(topology.gpus[0].now.width, 16);
  EXPECT_EQ(topology.gpus[1].now.width, 0);
  EXPECT_EQ(PathBetween(topology, 0, 1).Name(), "PIX");
  EXPECT_EQ(PathBetween(topology, 2, 3).Name(), "PXB");
  EXPECT_EQ(PathBetween(topology, 0, 2).Name(), "PHB");
  ASSERT_EQ(topology.nodes.size(), 1u);
  EXPECT_EQ(topology.nodes[0].cpus, "0-35");
}

TEST(TopoXml, GpusAreInTheOrderOfTheirNumbers) {
  Topology topology;
  ASSERT_TRUE(ParseTopoXml(
                  "<system><cpu numaid=\"0\" affinity=\"5,80000001\">"
                  "<pci busid=\"0000:09:00.0\"><gpu dev=\"1\"><nvlink target=\"0000:01:00.0\" count=\"2\"/></gpu></pci>"
                  "<pci busid=\"0000:01:00.0\"><gpu dev=\"0\"><nvlink target=\"0000:09:00.0\" count=\"2\"/></gpu></pci>"
                  "</cpu></system>",
                  &topology)
                  .ok());
  EXPECT_EQ(topology.gpus[0].address, "0000:01:00.0");
  EXPECT_EQ(PathBetween(topology, 0, 1).Name(), "NV2");  // without tclass, too
  EXPECT_EQ(topology.nodes[0].cpus, "0,31-32,34");
}

TEST(TopoXml, WhatCannotBeReadIsRefusedWithItsLine) {
  const auto in_cpu = [](const std::string& inside) {
    return "<system version=\"1\">\n<cpu numaid=\"0\">\n" + inside + "\n</cpu></system>";
  };
  const auto in_gpu = [&](const std::string& inside) {
    return in_cpu("<pci busid=\"01:00.0\"><gpu dev=\"0\">\n" + inside + "</gpu></pci>");
  };
  ExpectRefused("<topology/>", "line 1: the first element is <topology>; it must be <system>");
  ExpectRefused("\n\n<system>\n<cpu/></system>", "line 4: <cpu> has no attribute numaid");
  ExpectRefused("<system><cpu numaid=\"first\"/></system>", "line 1: <cpu> has numaid=\"first\", which cannot be read");
  ExpectRefused("<system><cpu numaid=\"0\" affinity=\"ff,,ff\"/></system>",
                "line 1: <cpu> has affinity=\"ff,,ff\", which cannot be read");
  ExpectRefused("<system><cpu numaid=\"0\"/>\n<cpu numaid=\"0\"/></system>",
                "line 2: a second <cpu> with numaid=\"0\"");
  ExpectRefused(in_cpu("<pci class=\"0x030200\"/>"), "line 3: <pci> has no attribute busid");
  ExpectRefused(in_cpu("<pci busid=\"card 1\"/>"), "line 3: <pci> has busid=\"card 1\", which cannot be read");
  ExpectRefused(in_cpu("<pci busid=\"01:00.0\" class=\"gpu\"/>"),
                "line 3: <pci> has class=\"gpu\", which cannot be read");
  ExpectRefused(in_cpu("<pci busid=\"01:00.0\" link_width=\"-2\"/>"), "line 3: <pci> has link_width=\"-2\"");
  ExpectRefused(in_cpu("<pci busid=\"01:00.0\" link_speed=\"16\"/>"),
                "line 3: <pci> has link_speed=\"16\", which cannot be read");
  ExpectRefused(in_cpu("<pci busid=\"01:00.0\"/>\n<pci busid=\"0000:01:00.0\"/>"),
                "line 4: a second <pci> with busid=\"0000:01:00.0\"");
  ExpectRefused(in_cpu("<pci busid=\"01:00.0\"><gpu dev=\"0\"/></pci>\n<pci busid=\"02:00.0\"><gpu dev=\"0\"/></pci>"),
                "line 4: a second GPU with the number 0");
  ExpectRefused(in_gpu("<nvlink target=\"1\" count=\"18\"/>"),
                "line 4: <nvlink> has target=\"1\", which cannot be read");
  ExpectRefused(in_gpu("<nvlink target=\"02:00.0\"/>"), "line 4: <nvlink> has no attribute count");
  ExpectRefused(in_gpu("<nvlink target=\"02:00.0\" count=\"0\"/>"), "line 4: <nvlink> has count=\"0\"");
}

TEST(TopoXml, GarbageIsRefusedWithItsLine) {
  ExpectRefused("", "line 1: the file ends where an element was to begin");
  ExpectRefused("GPU0 X PIX\n", "line 1: an element was to begin");
  ExpectRefused(std::string(3, '\0'), "line 1: an element was to begin");
  ExpectRefused("<system>\n", "line 2: the file ends inside <system>");
  ExpectRefused("<system\n", "line 2: the file ends inside <system>");
  ExpectRefused("<system>\n</cpu>", "line 2: </cpu> ends another element than the one begun last");
  ExpectRefused("<system></system", "line 1: </system is not closed");
  ExpectRefused("<system/>\n<system/>", "line 2: more after the end of <system>");
  ExpectRefused("<system version>", "line 1: the attribute version has no value");
  ExpectRefused("<system version=1>", "line 1: the value of version is not in quotes");
  ExpectRefused("<system version=\"1>", "line 1: the value of version has no closing quote");
  ExpectRefused("<system a=\"&x;\">", "line 1: the value of a has an & that begins no known entity");
  ExpectRefused("<system a=\"1\" a=\"2\"/>", "line 1: the attribute a is there twice");
  ExpectRefused("<system>text</system>", "line 1: an element was to begin");
  ExpectRefused("<system><!-- </system>", "line 1: a comment has no end");
  ExpectRefused("<!DOCTYPE system><system/>", "line 1: an element's name is missing");
  std::string deep;
  for (int i = 0; i < 100'000; ++i) deep += "<a>";
  ExpectRefused("<system>" + deep, "line 1: elements are nested too deep");
}

TEST(TopoXml, AFileCutShortAnywhereIsRefused) {
  for (const char* name : {"nvlink_pairs.xml", "provided.xml"}) {
    std::string text = Contents(name);
    text.erase(text.find_last_not_of('\n') + 1);
    ASSERT_GT(text.size(), 500u);
    Topology topology;
    ASSERT_TRUE(ParseTopoXml(text, &topology).ok());
    for (size_t size = 0; size < text.size(); ++size) {
      EXPECT_EQ(ParseTopoXml(text.substr(0, size), &topology).code(), tcInvalidArgument) << name << " " << size;
    }
  }
}

// Any other byte anywhere is read or refused, but harms nothing: for the sanitizers.
TEST(TopoXml, AFileWithAWrongByteIsReadOrRefused) {
  const std::string text = Contents("nvlink_pairs.xml");
  for (size_t at = 0; at < text.size(); ++at) {
    for (const char byte : {'\0', '"', '<', '>', '/', '\xff', '9'}) {
      std::string wrong = text;
      wrong[at] = byte;
      Topology topology;
      const Status status = ParseTopoXml(wrong, &topology);
      EXPECT_TRUE(status.ok() || status.code() == tcInvalidArgument);
      EXPECT_TRUE(status.ok() || status.sentence().rfind("line ", 0) == 0) << status.sentence();
    }
  }
}

TEST(TopoXml, AFileThatIsNotThereIsNamed) {
  Topology topology;
  Status status = ReadTopoXml("/does/not/exist.xml", &topology);
  EXPECT_EQ(status.code(), tcInvalidArgument);
  EXPECT_EQ(status.sentence(), "the topology file /does/not/exist.xml cannot be opened");
  status = ReadTopoXml(TC_TESTDATA, &topology);
  EXPECT_EQ(status.code(), tcInvalidArgument);
  status = ReadTopoXml(TestFile("root_ports.machine"), &topology);
  EXPECT_NE(status.sentence().find("root_ports.machine, line 1: an element was to begin"), std::string::npos)
      << status.sentence();
}

TEST(Xml, EntitiesAndBothQuotesAreUnderstood) {
  XmlElement root;
  ASSERT_TRUE(
      ParseXml("\xef\xbb\xbf<?xml version='1.0'?>\n<a b='&lt;\"&amp;&quot;' c=\"'&gt;&apos;\" ><!-- d --></a >\n",
               &root)
          .ok());
  EXPECT_EQ(root.line, 2);
  EXPECT_EQ(*root.Attribute("b"), "<\"&\"");
  EXPECT_EQ(*root.Attribute("c"), "'>'");
  EXPECT_EQ(root.Attribute("d"), nullptr);
}

}  // namespace
}  // namespace tc::platform
