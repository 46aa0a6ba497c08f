#include "comm/verification.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
namespace tc {
namespace {

TEST(PeerVerdicts, NameThePlaneThatFailsBetweenWhomAndTheUsualCause) {
  PeerVerdicts verdicts;
  for (const tcPlane_t plane : {tcPlanePush, tcPlanePull, tcPlaneCopyEngine, tcPlaneHostStaged}) {
    EXPECT_EQ(WhyFailed(verdicts, plane), "");
  }
  verdicts.Fail(PeerCheck::kStores, 3, 1);
  const std::string why = WhyFailed(verdicts, tcPlanePush);
  for (const char* part : {"rank 3's stores into rank 1's memory", "ACS", "iommu=pt"}) {
    EXPECT_NE(why.find(part), std::string::npos) << why;
  }
  EXPECT_EQ(WhyFailed(verdicts, tcPlanePull), "");
  EXPECT_EQ(WhyFailed(verdicts, tcPlaneCopyEngine), "");
  verdicts.Fail(PeerCheck::kCopies, 0, 2);
  EXPECT_NE(WhyFailed(verdicts, tcPlaneCopyEngine).find("rank 2's copy engine"), std::string::npos);
  verdicts.Fail(PeerCheck::kBulkStores, 0, 2);  // no plane relies on them
  EXPECT_EQ(WhyFailed(verdicts, tcPlanePull), "");
}

TEST(PeerVerdicts, WithoutFlagsOnlyTheHostStagedPlaneIsLeft) {
  PeerVerdicts verdicts;
  verdicts.Fail(PeerCheck::kFlags, 1, 0);
  for (const tcPlane_t plane : {tcPlanePush, tcPlanePull, tcPlaneCopyEngine}) {
    EXPECT_NE(WhyFailed(verdicts, plane).find("rank 1's flags"), std::string::npos);
  }
  EXPECT_EQ(WhyFailed(verdicts, tcPlaneHostStaged), "");
}

TEST(PeerVerdicts, TravelAsText) {
  PeerVerdicts verdicts;
  for (int check = 0; check < kPeerChecks; ++check) verdicts.Fail(static_cast<PeerCheck>(check), check, 15 - check);
  PeerVerdicts read;
  ASSERT_TRUE(Unpack(Pack(verdicts), &read));
  EXPECT_TRUE(read == verdicts);
  EXPECT_FALSE(read.fine());
  const std::string packed = Pack(verdicts);
  for (size_t length = 0; length + 1 < packed.size(); ++length) EXPECT_FALSE(Unpack(packed.substr(0, length), &read));
  EXPECT_FALSE(Unpack(packed + "more", &read));
}

TEST(PeerVerdicts, FailuresCanBeAskedFor) {
  PeerVerdicts verdicts;
  ASSERT_TRUE(ParseCheckFailures("stores:0-1,bulk_stores:15-14,flags:2-0", &verdicts));
  PeerVerdicts wanted;
  wanted.Fail(PeerCheck::kStores, 0, 1);
  wanted.Fail(PeerCheck::kBulkStores, 15, 14);
  wanted.Fail(PeerCheck::kFlags, 2, 0);
  EXPECT_TRUE(verdicts == wanted);
  for (const char* bad : {"", "stores", "stores:1", "stores:1-", "stores:0-16", "store:0-1", "stores:0-1,",
                          "stores:0-1x", "stores:-1-0", "stores:0-1;loads:1-0"}) {
    PeerVerdicts ignored;
    EXPECT_FALSE(ParseCheckFailures(bad, &ignored)) << bad;
  }
}

// Every place that a step writes lies inside the area, and none twice.
TEST(CheckArea, PlacesLieApart) {
  for (int n_ranks = 1; n_ranks <= kMaxRanks; ++n_ranks) {
    std::vector<std::byte> memory(CheckArea::TotalBytes(n_ranks));
    CheckArea area{.rank = n_ranks - 1, .n_ranks = n_ranks};
    for (auto& base : area.base) base = memory.data();
    std::vector<std::pair<std::byte*, uint64_t>> places = {{area.Offered(0), CheckArea::kBytes},
                                                           {reinterpret_cast<std::byte*>(area.Wrong()), 4}};
    for (int peer = 0; peer < n_ranks; ++peer) {
      places.push_back({area.Received(0, peer), CheckArea::kBytes});
      places.push_back({area.Fetched(peer), CheckArea::kBytes});
      places.push_back({reinterpret_cast<std::byte*>(area.Flag(0, peer)), kWriterStride});
      places.push_back({reinterpret_cast<std::byte*>(area.Election(peer)), 4});
    }
    for (size_t i = 0; i < places.size(); ++i) {
      EXPECT_GE(places[i].first, memory.data());
      EXPECT_LE(places[i].first + places[i].second, memory.data() + memory.size());
      for (size_t j = 0; j < i; ++j) {
        EXPECT_TRUE(places[i].first >= places[j].first + places[j].second ||
                    places[j].first >= places[i].first + places[i].second);
      }
    }
  }
  for (const CheckStep& step : CheckSteps()) {
    EXPECT_EQ(step.bytes % 16, 0u);
    EXPECT_LE(step.bytes, CheckArea::kBytes);
  }
}

class Cache : public ::testing::Test {
 protected:
  Cache() {
    char name[] = "/tmp/tc_verify_XXXXXX";
    directory_ = ::mkdtemp(name);
  }
  ~Cache() override { std::filesystem::remove_all(directory_); }
  std::string OnlyFile() const { return std::filesystem::directory_iterator(directory_)->path().string(); }

  std::string directory_;
};

TEST_F(Cache, RemembersAKeyAndNoOther) {
  EXPECT_FALSE(IsRemembered(directory_, "two GPUs"));
  Remember(directory_, "two GPUs");
  EXPECT_TRUE(IsRemembered(directory_, "two GPUs"));
  EXPECT_FALSE(IsRemembered(directory_, "two other GPUs"));
  Remember(directory_ + "/made/on/the/way", "two GPUs");
  EXPECT_TRUE(IsRemembered(directory_ + "/made/on/the/way", "two GPUs"));
}

TEST_F(Cache, AFileThatMakesNoSenseIsNoneAndIsReplaced) {
  Remember(directory_, "key");
  const std::string path = OnlyFile();
  std::string whole;
  std::getline(std::ifstream(path), whole, '\0');
  for (size_t length = 0; length < whole.size(); length += 7) {
    std::ofstream(path) << whole.substr(0, length);
    EXPECT_FALSE(IsRemembered(directory_, "key")) << length;
  }
  Remember(directory_, "key");
  EXPECT_TRUE(IsRemembered(directory_, "key"));
  EXPECT_EQ(OnlyFile(), path);  // and nothing beside it
}

TEST_F(Cache, WhereNothingCanBeWrittenNothingIsRemembered) {
  std::ofstream(directory_ + "/file") << "x";
  Remember(directory_ + "/file", "key");  // no directory
  EXPECT_FALSE(IsRemembered(directory_ + "/file", "key"));
  Remember("", "key");
  EXPECT_FALSE(IsRemembered("", "key"));
}

}  // namespace
}  // namespace tc
