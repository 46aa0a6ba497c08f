#include "platform/nvml.h"

#include <dlfcn.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace tc::platform {
namespace {

std::vector<NvmlGpu> Fake() {
  bool found = false;
  std::vector<NvmlGpu> gpus;
  const Status status = ReadNvml(TC_FAKE_NVML, &found, &gpus);
  EXPECT_TRUE(status.ok()) << status.sentence();
  EXPECT_TRUE(found);
  return gpus;
}

TEST(Nvml, WithoutTheLibraryThereIsNothingToReadAndNoError) {
  bool found = true;
  std::vector<NvmlGpu> gpus;
  EXPECT_TRUE(ReadNvml("libtc-no-such-library.so.1", &found, &gpus).ok());
  EXPECT_FALSE(found);
  EXPECT_TRUE(gpus.empty());
}

TEST(Nvml, AnotherLibraryAndADriverThatDoesNotStartAreExplained) {
  bool found = false;
  std::vector<NvmlGpu> gpus;
  Status status = ReadNvml("libc.so.6", &found, &gpus);
  EXPECT_EQ(status.code(), tcSystemError);
  EXPECT_NE(status.sentence().find("lacks nvmlInit_v2"), std::string::npos) << status.sentence();
  ::setenv("FAKE_NVML_ERROR", "18", 1);
  status = ReadNvml(TC_FAKE_NVML, &found, &gpus);
  ::unsetenv("FAKE_NVML_ERROR");
  EXPECT_EQ(status.code(), tcSystemError);
  EXPECT_NE(status.sentence().find("error 18"), std::string::npos) << status.sentence();
}

TEST(Nvml, LinksThatAreUpAreCountedByTheirOtherEnd) {
  void* loaded = ::dlopen(TC_FAKE_NVML, RTLD_NOW);  // as a library that stays loaded, it counts its starts and ends
  const std::vector<NvmlGpu> gpus = Fake();
  ASSERT_EQ(gpus.size(), 3u);  // the one that does not answer is left out
  EXPECT_EQ(gpus[0].address, "0000:3b:00.0");
  EXPECT_EQ(gpus[0].uuid, "GPU-a");
  EXPECT_EQ(gpus[0].name, "NVIDIA Test");
  ASSERT_EQ(gpus[0].nvlinks.size(), 1u);
  EXPECT_EQ(gpus[0].nvlinks[0].end, NvLinkEnd::kGpu);
  EXPECT_EQ(gpus[0].nvlinks[0].address, "0000:5e:00.0");
  EXPECT_EQ(gpus[0].nvlinks[0].count, 4);
  EXPECT_EQ(gpus[2].address, "10000:01:00.0");
  EXPECT_EQ(gpus[2].name, "");
  ASSERT_EQ(gpus[2].nvlinks.size(), 2u);
  EXPECT_EQ(gpus[2].nvlinks[0].end, NvLinkEnd::kSwitch);
  EXPECT_EQ(gpus[2].nvlinks[0].count, 3);
  EXPECT_EQ(gpus[2].nvlinks[1].count, 2);
  EXPECT_EQ(Fake().size(), 3u);  // it answers again, since the first time was shut down
  ::dlclose(loaded);
}

TEST(Nvml, GpusMeetByAddress) {
  Topology topology;
  topology.gpus.resize(2);
  topology.gpus[0].address = "0000:3b:00.0";
  topology.gpus[1].address = "0000:5e:00.0";
  AddNvml(Fake(), &topology);
  ASSERT_EQ(topology.gpus.size(), 3u);
  EXPECT_EQ(topology.gpus[1].uuid, "GPU-b");
  EXPECT_EQ(PathBetween(topology, 0, 1).Name(), "NV4");
  // Known to NVML alone, as in a container whose sysfs shows no GPU.
  EXPECT_EQ(topology.gpus[2].uuid, "GPU-c");
  EXPECT_EQ(PathBetween(topology, 0, 2).Name(), "SYS");
  ASSERT_EQ(topology.unknowns.size(), 1u);
  EXPECT_NE(topology.unknowns[0].find("10000:01:00.0"), std::string::npos);
}

}  // namespace
}  // namespace tc::platform
