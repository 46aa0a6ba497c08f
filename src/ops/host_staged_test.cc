// Ranks that reach no peer's memory: they agree on it, or are put there together, and stage everything. On host
// threads.
#include "base/log.h"
#include "comm/allocation.h"
#include "ops/rank_threads.h"

namespace tc {
namespace {

constexpr int kRanks = 3;

// A host backend whose device cannot reach a peer's, as it says.
class ApartBackend final : public host::HostBackend {
 public:
  explicit ApartBackend(std::string apart) : HostBackend(0, 1), apart_(std::move(apart)) {}
  Status Meet(const std::vector<Neighbour>&, std::string* apart) override {
    *apart = apart_;
    return {};
  }

 private:
  const std::string apart_;
};

// Each rank makes its communicator and calls body(what came of it, the communicator).
template <class Body>
void RunApart(const bool (&host_staged)[kRanks], const std::string (&apart)[kRanks], const Body& body) {
  UniqueId id;
  ASSERT_TRUE(MakeUniqueId(&id).ok());
  std::vector<std::thread> threads;
  for (int rank = 0; rank < kRanks; ++rank) {
    threads.emplace_back([&, rank] {
      CommSettings settings;
      settings.workspace_bytes = kTestWorkspace;
      if (host_staged[rank]) settings.plane = tcPlaneHostStaged;
      settings.init_timeout = std::chrono::seconds(20);
      std::shared_ptr<Communicator> comm;
      const Status made =
          Communicator::Create(id, kRanks, rank, settings, std::make_unique<ApartBackend>(apart[rank]), &comm);
      body(made, comm.get());
    });
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(HostStaged, ARankThatDisagreesEndsInitAndBothSidesAreNamed) {
  RunApart({true, true, false}, {"", "", ""}, [](const Status& made, Communicator*) {
    EXPECT_EQ(made.code(), tcInvalidUsage);
    for (const char* side : {"plane host_staged", "plane auto"}) {
      EXPECT_NE(made.sentence().find(side), std::string::npos) << made.sentence();
    }
  });
}

TEST(HostStaged, OneRankThatCannotReachAPeerPutsAllThereWithOneWarning) {
  std::atomic<int> warnings = 0;
  SetLogCallback(
      [](int level, const char* message, void* user) {
        if (level != tcLogWarn) return;
        ++*static_cast<std::atomic<int>*>(user);
        EXPECT_NE(std::string(message).find("GPU 1 has no access to GPU 0"), std::string::npos) << message;
      },
      &warnings);
  RunApart({false, false, false}, {"", "GPU 1 has no access to GPU 0", ""}, [](const Status& made, Communicator* comm) {
    ASSERT_TRUE(made.ok()) << made.sentence();
    EXPECT_TRUE(comm->settings().host_staged());
  });
  SetLogCallback(nullptr, nullptr);
  EXPECT_EQ(warnings, 1);
}

TEST(HostStaged, RegisteredMemoryIsReachableByNobodyAndTheLandingIsCounted) {
  RunApart({true, true, true}, {"", "", ""}, [](const Status& made, Communicator* comm) {
    ASSERT_TRUE(made.ok()) << made.sentence();
    EXPECT_NE(comm->view().landing, nullptr);
    EXPECT_GE(comm->memory_bytes(), 2 * kTestWorkspace);
    std::shared_ptr<Segment> segment;
    ASSERT_TRUE(comm->backend().Allocate(Memory::kDevice, 4096, false, &segment).ok());
    std::byte* const memory = segment->base();
    Allocations::Instance().Add(std::move(segment));
    std::shared_ptr<const Window> window;
    ASSERT_TRUE(comm->Register(Status(), memory, 4096, &window).ok());
    for (int rank = 0; rank < kRanks; ++rank) EXPECT_EQ(window->base[rank], rank == comm->rank() ? memory : nullptr);
    EXPECT_EQ(Communicator::Locate(*comm->windows(), memory, 4096).window, -1);
    EXPECT_TRUE(comm->Deregister(Status(), window->index).ok());
    EXPECT_TRUE(Allocations::Instance().Remove(memory).ok());
  });
}

}  // namespace
}  // namespace tc
