// tcGetPlatform from outside: its buffer, and machines without GPUs, recorded or broken.
#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "ranks.h"

namespace tc::test {
namespace {

class Platform : public ::testing::Test {
 protected:
  void SetUp() override {
    tcSetLogCallback([](int, const char*, void*) {}, nullptr);
    tcUniqueId id;
    const tcConfig_t config = TestConfig();
    TC_EXPECT_OK(tcGetUniqueId(&id));
    TC_EXPECT_OK(tcInitComm(&comm_, 1, &id, 0, &config));
  }
  void TearDown() override {
    ::unsetenv("TC_TOPO_FILE");
    ::unsetenv("TC_SYSFS_ROOT");
    TC_EXPECT_OK(tcCommDestroy(comm_));
    tcSetLogCallback(nullptr, nullptr);
  }

  // The whole text.
  std::string Json() {
    size_t bytes = 0;
    TC_EXPECT_OK(tcGetPlatform(comm_, nullptr, &bytes));
    std::string json(bytes, '?');
    TC_EXPECT_OK(tcGetPlatform(comm_, json.data(), &bytes));
    EXPECT_EQ(bytes, json.size());
    EXPECT_EQ(json.find('\0'), bytes - 1);
    json.pop_back();
    return json;
  }

  void ExpectRefused(const std::string& words) {
    size_t bytes = 0;
    EXPECT_EQ(tcGetPlatform(comm_, nullptr, &bytes), tcInvalidArgument);
    EXPECT_NE(std::string(tcGetLastError(comm_)).find(words), std::string::npos) << tcGetLastError(comm_);
  }

  tcComm_t comm_ = nullptr;
};

void ExpectHas(const std::string& json, const char* words) {
  EXPECT_NE(json.find(words), std::string::npos) << words << " is not in\n" << json;
}

TEST_F(Platform, ThisMachineHasNodesAndProcessors) {
  ::setenv("TC_SYSFS_ROOT", "/", 1);  // without NVML
  const std::string json = Json();
  ExpectHas(json, "\"numaNodes\": [\n    {");
  ExpectHas(json, "\"cpus\": \"0");
  ExpectHas(json, "\"gpus\": [");
  ::unsetenv("TC_SYSFS_ROOT");
  ExpectHas(Json(), "\"numaNodes\": [\n    {");
}

TEST_F(Platform, ABufferThatIsTooSmallLearnsTheSizeAndIsLeftAlone) {
  const size_t needed = Json().size() + 1;
  std::string buffer(needed, '?');
  for (const size_t capacity : {size_t{0}, size_t{1}, needed - 1}) {
    size_t bytes = capacity;
    EXPECT_EQ(tcGetPlatform(comm_, buffer.data(), &bytes), tcInvalidArgument);
    EXPECT_EQ(bytes, needed);
    EXPECT_EQ(buffer, std::string(needed, '?'));
    EXPECT_NE(std::string(tcGetLastError(comm_)).find(std::to_string(needed) + " are needed"), std::string::npos);
  }
  size_t bytes = needed + 100;
  buffer.resize(bytes, '?');
  TC_EXPECT_OK(tcGetPlatform(comm_, buffer.data(), &bytes));
  EXPECT_EQ(bytes, needed);
  EXPECT_EQ(buffer.substr(needed), std::string(100, '?'));
}

TEST_F(Platform, BadArgumentsAreRefused) {
  size_t bytes = 0;
  EXPECT_EQ(tcGetPlatform(nullptr, nullptr, &bytes), tcInvalidArgument);
  EXPECT_EQ(tcGetPlatform(comm_, nullptr, nullptr), tcInvalidArgument);
  EXPECT_NE(std::string(tcGetLastError(comm_)).find("bytes is NULL"), std::string::npos);
}

TEST_F(Platform, ATopologyFileIsReadInsteadAndABadOneNamedWithItsLine) {
  char name[] = "/tmp/tc_topology_XXXXXX";
  const int fd = ::mkstemp(name);
  ASSERT_GE(fd, 0);
  ::close(fd);
  std::ofstream(name) << "<system version=\"1\"><cpu numaid=\"0\" affinity=\"ff\"><pci busid=\"0000:16:00.0\">\n"
                         "<pci busid=\"0000:18:00.0\"><gpu dev=\"0\"/></pci>\n"
                         "<pci busid=\"0000:19:00.0\"><gpu dev=\"1\"/></pci>\n"
                         "</pci></cpu></system>\n";
  ::setenv("TC_TOPO_FILE", name, 1);
  const std::string json = Json();
  ExpectHas(json, "\"busId\": \"0000:19:00.0\"");
  ExpectHas(json, "\"PIX\"");
  ExpectHas(json, "\"cpus\": \"0-7\"");
  std::ofstream(name) << "<system version=\"1\">\n<cpu/></system>\n";
  ExpectRefused(std::string(name) + ", line 2: <cpu> has no attribute numaid");
  std::remove(name);
  ExpectRefused("cannot be opened");
  ::setenv("TC_TOPO_FILE", "", 1);
  ExpectRefused("TC_TOPO_FILE is \"\"");
  ::unsetenv("TC_TOPO_FILE");
  ::setenv("TC_SYSFS_ROOT", "/does/not/exist", 1);
  ExpectRefused("/does/not/exist holds no directory sys");
}

}  // namespace
}  // namespace tc::test
