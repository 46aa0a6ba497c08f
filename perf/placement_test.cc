#include "placement.h"

#include <gtest/gtest.h>

#include "failure.h"

namespace tc::perf {
namespace {

CommonOptions Options(tcBackend_t backend, bool threads = false, int gpus = 0) {
  CommonOptions options;
  options.backend = backend;
  options.threads = threads;
  options.gpus = gpus;
  return options;
}

void ExpectRefused(const CommonOptions& options, int n_ranks, int visible_gpus, const std::string& part) {
  try {
    Place(options, n_ranks, visible_gpus);
    ADD_FAILURE() << "placed, should say: " << part;
  } catch (const Failure& failure) {
    EXPECT_NE(std::string(failure.what()).find(part), std::string::npos) << failure.what();
  }
}

TEST(PlacementTest, AutoTakesGpusWhereThereAreAny) {
  EXPECT_EQ(Place(Options(tcBackendAuto), 2, 0).backend, tcBackendHost);
  EXPECT_EQ(Place(Options(tcBackendAuto), 2, 2).backend, tcBackendCuda);
  EXPECT_EQ(Place(Options(tcBackendHost), 2, 2).backend, tcBackendHost);
  EXPECT_EQ(Place(Options(tcBackendHost), 2, 2).DeviceOf(1), -1);
}

TEST(PlacementTest, RanksTakeTurnsOnTheGpus) {
  const Placement placement = Place(Options(tcBackendCuda, true), 5, 2);
  EXPECT_EQ(placement.DeviceOf(0), 0);
  EXPECT_EQ(placement.DeviceOf(1), 1);
  EXPECT_EQ(placement.DeviceOf(4), 0);
  EXPECT_EQ(Place(Options(tcBackendCuda, true, 1), 2, 2).DeviceOf(1), 0);
}

TEST(PlacementTest, AutoMakesRanksThatShareAGpuThreadsAndSaysSo) {
  const Placement shared = Place(Options(tcBackendAuto), 4, 1);
  EXPECT_TRUE(shared.threads);
  EXPECT_NE(shared.note.find("4 ranks on 1 GPU share"), std::string::npos) << shared.note;
  const Placement apart = Place(Options(tcBackendAuto), 2, 2);
  EXPECT_FALSE(apart.threads);
  EXPECT_EQ(apart.note, "");
}

TEST(PlacementTest, RefusesWhatCannotBe) {
  ExpectRefused(Options(tcBackendCuda), 2, 0, "no GPU");
  ExpectRefused(Options(tcBackendAuto, false, 1), 2, 0, "no GPU");
  ExpectRefused(Options(tcBackendCuda, false, 3), 2, 2, "-g/--gpus: 3 GPUs");
  ExpectRefused(Options(tcBackendCuda), 4, 2, "4 ranks on 2 GPUs: ranks can share a GPU only as threads");
}

TEST(PlacementTest, CountsTheGpusThatCudaWouldSee) {
  EXPECT_EQ(CountVisibleGpus(nullptr, 4), 4);
  EXPECT_EQ(CountVisibleGpus("", 4), 0);
  EXPECT_EQ(CountVisibleGpus("-1", 4), 0);
  EXPECT_EQ(CountVisibleGpus("2", 4), 1);
  EXPECT_EQ(CountVisibleGpus("0,3", 4), 2);
  EXPECT_EQ(CountVisibleGpus("0,7,1", 4), 1);
  EXPECT_EQ(CountVisibleGpus("GPU-5ebe9f43,1", 4), 2);
  EXPECT_EQ(CountVisibleGpus("0,1", 0), 0);
}

}  // namespace
}  // namespace tc::perf
