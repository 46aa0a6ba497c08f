#include "comm/unique_id.h"

#include <gtest/gtest.h>

#include <cstring>

namespace tc {
namespace {

bool Same(const UniqueId& a, const UniqueId& b) {
  return a.name == b.name && a.joiner_secret == b.joiner_secret && a.root_secret == b.root_secret;
}

TEST(UniqueId, SurvivesEncodeAndDecode) {
  UniqueId made, decoded;
  ASSERT_TRUE(MakeUniqueId(&made).ok());
  ASSERT_TRUE(Decode(Encode(made), &decoded).ok());
  EXPECT_TRUE(Same(made, decoded));
}

TEST(UniqueId, IsNeverMadeTwice) {
  UniqueId a, b;
  ASSERT_TRUE(MakeUniqueId(&a).ok());
  ASSERT_TRUE(MakeUniqueId(&b).ok());
  EXPECT_NE(a.name, b.name);
  EXPECT_NE(a.joiner_secret, b.joiner_secret);
  EXPECT_NE(a.root_secret, b.root_secret);
  EXPECT_NE(a.joiner_secret, a.root_secret);
}

// Pinned: processes that load different builds must derive the same id from the same text.
TEST(UniqueId, OfATextIsTheSameEverywhere) {
  EXPECT_EQ(NameInHex(UniqueIdFromString("job 17")), "57656daed0581485f2b1854598f89497");
  EXPECT_EQ(NameInHex(UniqueIdFromString("")), "2e43a9fed34795af5873861ddb74ae11");
  EXPECT_TRUE(Same(UniqueIdFromString("job 17"), UniqueIdFromString("job 17")));
}

TEST(UniqueId, OfATextHasFieldsThatDoNotGiveEachOtherAway) {
  const UniqueId id = UniqueIdFromString("job 17");
  EXPECT_NE(id.joiner_secret, id.root_secret);
  EXPECT_NE(std::memcmp(id.name.data(), id.joiner_secret.data(), id.name.size()), 0);
  EXPECT_NE(std::memcmp(id.name.data(), id.root_secret.data(), id.name.size()), 0);
  EXPECT_FALSE(Same(id, UniqueIdFromString("job 18")));
}

TEST(UniqueId, OfZerosOrGarbageIsRefused) {
  UniqueId id;
  tcUniqueId zeros{}, garbage;
  std::memset(&garbage, 0x5a, sizeof(garbage));
  for (const tcUniqueId& bad : {zeros, garbage}) {
    const Status status = Decode(bad, &id);
    EXPECT_EQ(status.code(), tcInvalidArgument);
    EXPECT_NE(status.sentence().find("not an id made by tcGetUniqueId or tcUniqueIdFromString"), std::string::npos);
  }
}

TEST(UniqueId, WithAnyByteChangedIsRefused) {
  const tcUniqueId good = Encode(UniqueIdFromString("job 17"));
  for (size_t i = 0; i < sizeof(good.internal); ++i) {
    tcUniqueId bad = good;
    bad.internal[i] = static_cast<char>(bad.internal[i] ^ 1);
    UniqueId id;
    EXPECT_EQ(Decode(bad, &id).code(), tcInvalidArgument) << "byte " << i;
  }
}

}  // namespace
}  // namespace tc
