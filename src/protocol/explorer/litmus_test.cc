// The model itself: PTX litmus tests. What the PTX model forbids is never found, what it allows is found.
#include <gtest/gtest.h>

#include "protocol/explorer/explorer.h"
#include "protocol/explorer/model_memory.h"

namespace tc::explorer {
namespace {

using M = ModelMemory;
using Outcome = std::vector<uint64_t>;

// Builds a world of words and threads.
struct Litmus {
  explicit Litmus(int n_ranks = 1) : world(n_ranks) {}
  uint64_t* Word(const std::string& name, int home = 0) { return world.NewArray<uint64_t>(home, name, 1); }
  uint32_t* Counter(const std::string& name, int home = 0) { return world.NewArray<uint32_t>(home, name, 1); }
  void Thread(int rank, std::function<uint64_t()> code) {
    world.AddThread(rank, "thread " + std::to_string(world.threads().size()), std::move(code));
  }
  World world;
};

std::set<Outcome> OutcomesOf(const std::function<void(Litmus&)>& build, int n_ranks = 1) {
  const auto scenario = [&] {
    Litmus litmus(n_ranks);
    build(litmus);
    return std::move(litmus.world);
  };
  const Result result = Explore(scenario);
  EXPECT_FALSE(result.failure) << *result.failure << "\n" << result.trace;
  EXPECT_TRUE(result.complete);
  const Result unreduced = Explore(scenario, {.reduce = false});
  EXPECT_EQ(result.outcomes, unreduced.outcomes) << "steps taken to commute do not";
  EXPECT_LE(result.states, unreduced.states);
  return result.outcomes;
}

// Message passing. The reader returns 10 * flag + data: 10 is the stale read.
constexpr uint64_t kStale = 10;
template <class Publish, class Look>
bool MayBeStale(const Publish& publish, const Look& look, int n_ranks = 1) {
  const std::set<Outcome> outcomes = OutcomesOf(
      [&](Litmus& litmus) {
        const int reader = n_ranks - 1;
        uint64_t* data = litmus.Word("data", reader);
        uint64_t* flag = litmus.Word("flag", reader);
        litmus.Thread(0, [=] {
          M::StoreRelaxed(data, uint64_t{1});
          publish(flag);
          return 0;
        });
        litmus.Thread(reader, [=] {
          const uint64_t seen = look(flag);
          return 10 * seen + M::LoadRelaxed(data);
        });
      },
      n_ranks);
  EXPECT_TRUE(outcomes.contains({0, 11}));
  EXPECT_TRUE(outcomes.contains({0, 0}));
  EXPECT_TRUE(outcomes.contains({0, 1}));
  return outcomes.contains({0, kStale});
}

constexpr auto kPublishRelaxed = [](uint64_t* flag) { M::StoreRelaxed(flag, uint64_t{1}); };
constexpr auto kPublishGpu = [](uint64_t* flag) { M::StoreReleaseGpu(flag, uint64_t{1}); };
constexpr auto kPublishSys = [](uint64_t* flag) { M::StoreReleaseSys(flag, uint64_t{1}); };
constexpr auto kPublishBehindFence = [](uint64_t* flag) {
  M::FenceAcqRelSys();
  M::StoreRelaxed(flag, uint64_t{1});
};
constexpr auto kLookRelaxed = [](const uint64_t* flag) { return M::LoadRelaxed(flag); };
constexpr auto kLookGpu = [](const uint64_t* flag) { return M::LoadAcquireGpu(flag); };
constexpr auto kLookSys = [](const uint64_t* flag) { return M::LoadAcquireSys(flag); };
constexpr auto kLookBeforeFence = [](const uint64_t* flag) {
  const uint64_t seen = M::LoadRelaxed(flag);
  M::FenceAcqRelSys();
  return seen;
};

TEST(Litmus, MessagePassingNeedsReleaseAndAcquire) {
  EXPECT_FALSE(MayBeStale(kPublishGpu, kLookGpu));
  EXPECT_FALSE(MayBeStale(kPublishSys, kLookSys));
  EXPECT_TRUE(MayBeStale(kPublishRelaxed, kLookRelaxed));
  EXPECT_TRUE(MayBeStale(kPublishSys, kLookRelaxed));
  EXPECT_TRUE(MayBeStale(kPublishRelaxed, kLookSys));
}

TEST(Litmus, MessagePassingByFences) {
  EXPECT_FALSE(MayBeStale(kPublishBehindFence, kLookBeforeFence));
  EXPECT_FALSE(MayBeStale(kPublishBehindFence, kLookSys));
  EXPECT_FALSE(MayBeStale(kPublishSys, kLookBeforeFence));
  EXPECT_TRUE(MayBeStale(kPublishBehindFence, kLookRelaxed));
}

TEST(Litmus, MessagePassingAcrossRanksNeedsSystemScopeOnBothSides) {
  EXPECT_FALSE(MayBeStale(kPublishSys, kLookSys, 2));
  EXPECT_FALSE(MayBeStale(kPublishBehindFence, kLookSys, 2));
  EXPECT_TRUE(MayBeStale(kPublishGpu, kLookSys, 2));
  EXPECT_TRUE(MayBeStale(kPublishSys, kLookGpu, 2));
  EXPECT_TRUE(MayBeStale(kPublishGpu, kLookGpu, 2));
}

TEST(Litmus, StoreBufferingNeedsFenceSc) {
  const auto both_miss = [](const auto& fence) {
    return OutcomesOf([&](Litmus& litmus) {
             uint64_t* x = litmus.Word("x");
             uint64_t* y = litmus.Word("y");
             const auto side = [=](uint64_t* mine, uint64_t* other) {
               M::StoreReleaseSys(mine, uint64_t{1});
               fence();
               return M::LoadAcquireSys(other);
             };
             litmus.Thread(0, [=] { return side(x, y); });
             litmus.Thread(0, [=] { return side(y, x); });
           })
        .contains({0, 0});
  };
  EXPECT_TRUE(both_miss([] {}));
  EXPECT_TRUE(both_miss([] { M::FenceAcqRelSys(); }));
  EXPECT_FALSE(both_miss([] { M::FenceScSys(); }));
}

TEST(Litmus, CausalityIsTransitive) {  // WRC, ISA2
  const std::set<Outcome> outcomes = OutcomesOf([](Litmus& litmus) {
    uint64_t* data = litmus.Word("data");
    uint64_t* x = litmus.Word("x");
    uint64_t* y = litmus.Word("y");
    litmus.Thread(0, [=] {
      M::StoreRelaxed(data, uint64_t{1});
      M::StoreReleaseSys(x, uint64_t{1});
      return 0;
    });
    litmus.Thread(0, [=] {
      if (M::LoadAcquireSys(x) == 1) M::StoreReleaseSys(y, uint64_t{1});
      return 0;
    });
    litmus.Thread(0, [=] { return 10 * M::LoadAcquireSys(y) + M::LoadRelaxed(data); });
  });
  EXPECT_TRUE(outcomes.contains({0, 0, 11}));
  EXPECT_FALSE(outcomes.contains({0, 0, kStale}));
}

// Two CTAs of rank 0 write a word each into rank 1; who comes last announces both.
template <class Elect>
bool ElectionMayBeStale(const Elect& elect) {
  return OutcomesOf(
             [&](Litmus& litmus) {
               uint64_t* data[2] = {litmus.Word("data 0", 1), litmus.Word("data 1", 1)};
               uint64_t* flag = litmus.Word("flag", 1);
               uint32_t* counter = litmus.Counter("counter");
               for (uint64_t* mine : data) {
                 litmus.Thread(0, [=] {
                   M::StoreRelaxed(mine, uint64_t{1});
                   if (elect(counter) == 1) M::StoreReleaseSys(flag, uint64_t{1});
                   return 0;
                 });
               }
               litmus.Thread(1, [=] {
                 return 100 * M::LoadAcquireSys(flag) + 10 * M::LoadRelaxed(data[0]) + M::LoadRelaxed(data[1]);
               });
             },
             2)
      .contains({0, 0, 110});
}

TEST(Litmus, ElectionNeedsReleaseAndAcquire) {
  EXPECT_FALSE(ElectionMayBeStale([](uint32_t* counter) { return M::AddAcqRelGpu(counter, 1u); }));
  EXPECT_TRUE(ElectionMayBeStale([](uint32_t* counter) { return M::AddReleaseGpu(counter, 1u); }));
  EXPECT_TRUE(ElectionMayBeStale([](uint32_t* counter) { return M::AddAcquireGpu(counter, 1u); }));
  EXPECT_TRUE(ElectionMayBeStale([](uint32_t* counter) { return M::AddRelaxedGpu(counter, 1u); }));
}

TEST(Litmus, ReleaseSequencesGoThroughAtomicsAlone) {
  const auto may_be_stale = [](const auto& between) {
    return OutcomesOf([&](Litmus& litmus) {
             uint64_t* data = litmus.Word("data");
             uint32_t* flag = litmus.Counter("flag");
             litmus.Thread(0, [=] {
               M::StoreRelaxed(data, uint64_t{1});
               M::AddReleaseGpu(flag, 1u);
               return 0;
             });
             litmus.Thread(0, [=] {
               between(flag);
               return 0;
             });
             litmus.Thread(0, [=] { return 10 * (M::LoadAcquireGpu(flag) == 3) + M::LoadRelaxed(data); });
           })
        .contains({0, 0, kStale});
  };
  EXPECT_FALSE(may_be_stale([](uint32_t* flag) { M::AddRelaxedGpu(flag, 2u); }));
  EXPECT_TRUE(may_be_stale([](uint32_t* flag) { M::StoreRelaxed(flag, 3u); }));
}

TEST(Litmus, IndependentReadersMayDisagree) {  // IRIW
  const std::set<Outcome> outcomes = OutcomesOf([](Litmus& litmus) {
    uint64_t* x = litmus.Word("x");
    uint64_t* y = litmus.Word("y");
    const auto read = [](const uint64_t* first, const uint64_t* second) {
      const uint64_t seen = M::LoadAcquireSys(first);
      return 10 * seen + M::LoadAcquireSys(second);
    };
    for (uint64_t* word : {x, y}) {
      litmus.Thread(0, [=] {
        M::StoreReleaseSys(word, uint64_t{1});
        return 0;
      });
    }
    litmus.Thread(0, [=] { return read(x, y); });
    litmus.Thread(0, [=] { return read(y, x); });
  });
  EXPECT_TRUE(outcomes.contains({0, 0, 10, 10}));
}

TEST(Litmus, AWordNeverGoesBack) {  // CoRR, CoWR
  const std::set<Outcome> outcomes = OutcomesOf([](Litmus& litmus) {
    uint64_t* x = litmus.Word("x");
    litmus.Thread(0, [=] {
      M::StoreRelaxed(x, uint64_t{1});
      M::StoreRelaxed(x, uint64_t{2});
      return M::LoadRelaxed(x);
    });
    litmus.Thread(0, [=] {
      const uint64_t first = M::LoadRelaxed(x);
      return 10 * first + M::LoadRelaxed(x);
    });
  });
  EXPECT_EQ(outcomes, (std::set<Outcome>{{2, 0}, {2, 1}, {2, 2}, {2, 11}, {2, 12}, {2, 22}}));
}

TEST(Litmus, AllReadersAgreeOnTheOrderOfStoresToAWord) {  // CoRR2
  const std::set<Outcome> outcomes = OutcomesOf([](Litmus& litmus) {
    uint64_t* x = litmus.Word("x");
    for (const uint64_t value : {1, 2}) {
      litmus.Thread(0, [=] {
        M::StoreRelaxed(x, value);
        return 0;
      });
    }
    for (int reader = 0; reader < 2; ++reader) {
      litmus.Thread(0, [=] {
        const uint64_t first = M::LoadRelaxed(x);
        return 10 * first + M::LoadRelaxed(x);
      });
    }
  });
  EXPECT_TRUE(outcomes.contains({0, 0, 12, 12}));
  EXPECT_TRUE(outcomes.contains({0, 0, 21, 21}));
  EXPECT_FALSE(outcomes.contains({0, 0, 12, 21}));
}

TEST(Litmus, TwoPlusTwoWrites) {
  const auto may_cross = [](const auto& store) {
    return OutcomesOf([&](Litmus& litmus) {
             uint64_t* x = litmus.Word("x");
             uint64_t* y = litmus.Word("y");
             litmus.Thread(0, [=] {
               M::StoreRelaxed(x, uint64_t{1});
               store(y, 2);
               return 0;
             });
             litmus.Thread(0, [=] {
               M::StoreRelaxed(y, uint64_t{1});
               store(x, 2);
               return 0;
             });
             litmus.world.Watch(x);
             litmus.world.Watch(y);
           })
        .contains({0, 0, 1, 1});
  };
  EXPECT_TRUE(may_cross([](uint64_t* word, uint64_t value) { M::StoreRelaxed(word, value); }));
}

TEST(Litmus, AtomicsLoseNothing) {
  const std::set<Outcome> outcomes = OutcomesOf([](Litmus& litmus) {
    uint32_t* x = litmus.Counter("x");
    for (int thread = 0; thread < 3; ++thread) {
      litmus.Thread(0, [=] { return M::AddRelaxedGpu(x, 1u); });
    }
    litmus.world.Watch(x);
  });
  EXPECT_EQ(outcomes.size(), 6u);
  for (const Outcome& outcome : outcomes) EXPECT_EQ(outcome[3], 3u);
}

// Thread 0 writes, thread 1 of the same CTA announces.
TEST(Litmus, ReleaseCoversAnotherThreadOnlyBehindACtaBarrier) {
  const auto may_be_stale = [](bool sync) {
    return OutcomesOf(
               [&](Litmus& litmus) {
                 uint64_t* data = litmus.Word("data", 1);
                 uint64_t* flag = litmus.Word("flag", 1);
                 const int barrier = litmus.world.AddBarrier(2);
                 litmus.Thread(0, [=] {
                   M::StoreRelaxed(data, uint64_t{1});
                   if (sync) M::SyncThreads(barrier);
                   return 0;
                 });
                 litmus.Thread(0, [=] {
                   if (sync) M::SyncThreads(barrier);
                   M::StoreReleaseSys(flag, uint64_t{1});
                   return 0;
                 });
                 litmus.Thread(1, [=] { return 10 * M::LoadAcquireSys(flag) + M::LoadRelaxed(data); });
               },
               2)
        .contains({0, 0, kStale});
  };
  EXPECT_FALSE(may_be_stale(true));
  EXPECT_TRUE(may_be_stale(false));
}

TEST(Litmus, OneFenceAndRelaxedStoresAnnounceToManyPeers) {
  const std::set<Outcome> outcomes = OutcomesOf(
      [](Litmus& litmus) {
        uint64_t* data[2] = {litmus.Word("data", 1), litmus.Word("data", 2)};
        uint64_t* flag[2] = {litmus.Word("flag", 1), litmus.Word("flag", 2)};
        litmus.Thread(0, [=] {
          for (uint64_t* word : data) M::StoreRelaxed(word, uint64_t{1});
          M::FenceAcqRelSys();
          for (uint64_t* word : flag) M::StoreRelaxed(word, uint64_t{1});
          return 0;
        });
        for (int peer = 0; peer < 2; ++peer) {
          litmus.Thread(peer + 1, [=] { return 10 * M::LoadAcquireSys(flag[peer]) + M::LoadRelaxed(data[peer]); });
        }
      },
      3);
  EXPECT_TRUE(outcomes.contains({0, 11, 11}));
  for (const Outcome& outcome : outcomes) {
    EXPECT_NE(outcome[1], kStale);
    EXPECT_NE(outcome[2], kStale);
  }
}

// Rank 0 writes into rank 1, announces at rank 2, which passes it on to rank 1.
bool ThroughThirdRankMayBeStale(bool letter_of_cuda, bool acknowledged) {
  return OutcomesOf(
             [&](Litmus& litmus) {
               if (letter_of_cuda) litmus.world.set_cumulative_everywhere();
               uint64_t* data = litmus.Word("data", 1);
               uint64_t* ack_flag = litmus.Word("flag to acknowledge", 1);
               uint64_t* ack = litmus.Word("acknowledgement", 0);
               uint64_t* at_third = litmus.Word("flag at 2", 2);
               uint64_t* flag = litmus.Word("flag", 1);
               litmus.Thread(0, [=] {
                 M::StoreRelaxed(data, uint64_t{1});
                 if (acknowledged) {
                   M::StoreReleaseSys(ack_flag, uint64_t{1});
                   if (M::LoadAcquireSys(ack) == 0) return 0;
                 }
                 M::StoreReleaseSys(at_third, uint64_t{1});
                 return 0;
               });
               litmus.Thread(1, [=] {
                 if (M::LoadAcquireSys(ack_flag) == 1) M::StoreReleaseSys(ack, uint64_t{1});
                 return 0;
               });
               litmus.Thread(2, [=] {
                 if (M::LoadAcquireSys(at_third) == 1) M::StoreReleaseSys(flag, uint64_t{1});
                 return 0;
               });
               litmus.Thread(1, [=] { return 10 * M::LoadAcquireSys(flag) + M::LoadRelaxed(data); });
             },
             3)
      .contains({0, 0, 0, kStale});
}

TEST(Litmus, AnnouncingThroughAThirdRankNeedsAnAcknowledgement) {
  EXPECT_FALSE(ThroughThirdRankMayBeStale(true, false));
  EXPECT_TRUE(ThroughThirdRankMayBeStale(false, false));
  EXPECT_FALSE(ThroughThirdRankMayBeStale(false, true));
}

TEST(Litmus, BulkStoresNeedWaitGroupZeroBeforeTheRelease) {
  const auto may_be_stale = [](const auto& wait) {
    return OutcomesOf(
               [&](Litmus& litmus) {
                 uint64_t* data = litmus.Word("data", 1);
                 uint64_t* flag = litmus.Word("flag", 1);
                 litmus.Thread(0, [=] {
                   M::AsyncStore(data, uint64_t{1});
                   wait();
                   M::StoreReleaseSys(flag, uint64_t{1});
                   return 0;
                 });
                 litmus.Thread(1, [=] { return 10 * M::LoadAcquireSys(flag) + M::LoadRelaxed(data); });
               },
               2)
        .contains({0, kStale});
  };
  EXPECT_FALSE(may_be_stale([] { M::AsyncWaitGroup(); }));
  EXPECT_TRUE(may_be_stale([] { M::AsyncWaitGroupRead(); }));
  EXPECT_TRUE(may_be_stale([] {}));
}

TEST(Litmus, BulkLoadsNeedAcquireThenProxyFence) {
  const auto may_be_stale = [](const auto& look) {
    return OutcomesOf(
               [&](Litmus& litmus) {
                 uint64_t* data = litmus.Word("data", 1);
                 uint64_t* flag = litmus.Word("flag", 1);
                 litmus.Thread(0, [=] {
                   M::StoreRelaxed(data, uint64_t{1});
                   M::StoreReleaseSys(flag, uint64_t{1});
                   return 0;
                 });
                 litmus.Thread(1, [=] {
                   const uint64_t seen = look(flag);
                   return 10 * seen + M::AsyncLoad(data);
                 });
               },
               2)
        .contains({0, kStale});
  };
  EXPECT_TRUE(may_be_stale(kLookSys));
  EXPECT_FALSE(may_be_stale([](const uint64_t* flag) {
    const uint64_t seen = M::LoadAcquireSys(flag);
    M::ProxyFence();
    return seen;
  }));
  EXPECT_TRUE(may_be_stale([](const uint64_t* flag) {
    const uint64_t seen = M::LoadRelaxed(flag);
    M::ProxyFence();
    return seen;
  }));
}

// Races on plain data are failures by themselves, whatever was read.
TEST(Litmus, RacesOnPlainDataAreFound) {
  const auto failure = [](bool release, bool wait) {
    return Explore([&] {
             Litmus litmus;
             uint64_t* data = litmus.Word("data");
             uint64_t* flag = litmus.Word("flag");
             litmus.Thread(0, [=] {
               M::Write(data, uint64_t{1});
               release ? M::StoreReleaseSys(flag, uint64_t{1}) : M::StoreRelaxed(flag, uint64_t{1});
               return 0;
             });
             litmus.Thread(0, [=]() -> uint64_t {
               const bool come = M::LoadAcquireSys(flag) == 1;
               return come || !wait ? M::Read(data) : 0;
             });
             return std::move(litmus.world);
           })
        .failure;
  };
  EXPECT_FALSE(failure(true, true));
  EXPECT_TRUE(failure(false, true));
  EXPECT_TRUE(failure(true, false));
}

}  // namespace
}  // namespace tc::explorer
