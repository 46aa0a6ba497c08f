#include "plan/plan.h"

#include <gtest/gtest.h>

#include <set>

#include "protocol/gate.h"

namespace tc {
namespace {

TEST(ChooseKernel, GivesTheRowOrSaysWhyThereIsNone) {
  const KernelRow* row = nullptr;
  ASSERT_TRUE(ChooseKernel(tcOpAllGatherGemm, tcBfloat16, tcPlaneAuto, "host", &row).ok());
  EXPECT_STREQ(row->name, "host_all_gather_gemm");
  ASSERT_TRUE(ChooseKernel(tcOpAllGather, tcInt64, tcPlanePush, "host", &row).ok());
  EXPECT_STREQ(row->name, "host_all_gather");
  EXPECT_NE(ChooseKernel(tcOpAllGatherGemm, tcInt8, tcPlaneAuto, "host", &row).sentence().find("int8"),
            std::string::npos);
  EXPECT_NE(ChooseKernel(tcOpAllGather, tcInt8, tcPlanePull, "host", &row).sentence().find("plane 2 (pull)"),
            std::string::npos);
  EXPECT_EQ(ChooseKernel(tcOpMoeCombine, tcFloat32, tcPlaneAuto, "host", &row).code(), tcUnsupported);
}

TEST(Registry, NamesAreUnique) {
  std::set<std::string> names;
  for (const KernelRow& row : Registry()) EXPECT_TRUE(names.insert(row.name).second) << row.name;
}

TEST(ChooseSlab, FitsEveryRankOrSaysWhatIsNeeded) {
  uint64_t units = 0;
  ASSERT_TRUE(ChooseSlab(1000, 4, 60, &units).ok());
  EXPECT_EQ(units, 4u);  // 4 ranks of 4 units of 60 bytes are 960
  ASSERT_TRUE(ChooseSlab(1, 1, 60, &units).ok());
  EXPECT_EQ(units, UINT64_MAX);
  const Status status = ChooseSlab(100, 4, 60, &units);
  EXPECT_EQ(status.code(), tcUnsupported);
  EXPECT_NE(status.sentence().find("higher, by 140 or more"), std::string::npos) << status.sentence();
}

TEST(ChooseSlab, GivesBytesThatAllElementsDivide) {
  uint64_t bytes = 0;
  ASSERT_TRUE(ChooseSlabBytes(1000, 3, &bytes).ok());
  EXPECT_EQ(bytes, 320u);
  ASSERT_TRUE(ChooseSlabBytes(1, 1, &bytes).ok());
  EXPECT_EQ(bytes, UINT64_MAX);
  EXPECT_EQ(ChooseSlabBytes(47, 3, &bytes).code(), tcUnsupported);
}

TEST(ReducesInOneShot, OnlyWhatEveryRankCanStageOfEveryOther) {
  for (int n_ranks = 2; n_ranks <= kMaxRanks; ++n_ranks) {
    for (const size_t workspace : {size_t{16} * kMaxRanks, size_t{1000}, size_t{1} << 28}) {
      uint64_t slab = 0;
      ASSERT_TRUE(ChooseSlabBytes(workspace, n_ranks, &slab).ok());
      EXPECT_FALSE(ReducesInOneShot(slab + 1, n_ranks, workspace));
      EXPECT_TRUE(ReducesInOneShot(0, n_ranks, workspace));
    }
    EXPECT_TRUE(ReducesInOneShot(8192, n_ranks, size_t{1} << 28));
    EXPECT_FALSE(ReducesInOneShot(size_t{128} << 10, n_ranks, size_t{1} << 28));
  }
  EXPECT_TRUE(ReducesInOneShot(SIZE_MAX, 1, 0));
}

TEST(ChooseSlab, GatesCountEverySlab) {
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    const uint64_t blocks = (MostGatedRows(n_ranks) * n_ranks + kGateRows - 1) / kGateRows;
    EXPECT_LE(blocks, static_cast<uint64_t>(kMaxRowBlocks));
  }
}

}  // namespace
}  // namespace tc
