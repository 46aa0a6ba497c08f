// Whole exchanges on CPU threads, by the code of the kernels: every rank has several blocks, of one thread each, that
// claim pieces until none is left. Every byte of every rank's recv is compared with a naive reference.
#include "planes/exchange.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstring>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "host/reduce.h"
#include "planes/copy_engine.h"
#include "protocol/cpu_memory.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"
#include "protocol/wait.h"

namespace tc {
namespace {

constexpr uint64_t kLimitNs = 20'000'000'000;
constexpr size_t kWorkspace = size_t{1} << 18;
constexpr size_t kBuffer = size_t{1} << 20;

struct RankMemory {
  ControlBlock control{};
  LocalBlock local{};
  AbortBlock abort{};
  std::vector<std::byte> workspace = std::vector<std::byte>(kWorkspace);
  std::vector<std::byte> send = std::vector<std::byte>(kBuffer);
  std::vector<std::byte> recv = std::vector<std::byte>(kBuffer);
  std::vector<std::byte> expected;
};

// How an exchange goes. kPackets: on the push plane, by packets where it is small enough.
enum class Way { kPush, kPull, kCopyEngine, kHostStaged, kPackets };
constexpr tcPlane_t PlaneOf(Way way) {
  constexpr tcPlane_t kPlanes[] = {tcPlanePush, tcPlanePull, tcPlaneCopyEngine, tcPlaneHostStaged, tcPlanePush};
  return kPlanes[static_cast<int>(way)];
}

// Entries name buffers by window: 0 is every rank's send, 1 its recv.
struct Ranks {
  explicit Ranks(int n) : memory(n) {
    for (auto& each : memory) each = std::make_unique<RankMemory>();
  }
  RankView view(int rank) const {
    RankView view{.rank = rank, .n_ranks = static_cast<int>(memory.size())};
    for (size_t peer = 0; peer < memory.size(); ++peer) {
      view.control[peer] = &memory[peer]->control;
      view.abort[peer] = &memory[peer]->abort;
      view.workspace[peer] = memory[peer]->workspace.data();
    }
    view.local = &memory[rank]->local;
    return view;
  }
  std::vector<std::unique_ptr<RankMemory>> memory;
  mutable std::atomic<int> by_packets = 0;  // exchanges
};

struct CpuBlock {
  using Memory = CpuMemory;

  const Ranks& ranks;
  const RankView& view;
  const Exchange& exchange;
  Sequence epoch;
  std::byte* arrivals;

  Sequence Epoch() const { return epoch; }
  int lane() const { return 0; }
  int lanes() const { return 1; }
  void Sync() const {}
  bool All(bool fine) const { return fine; }
  void Pause() const { std::this_thread::yield(); }
  void Copy(std::byte* to, const std::byte* from, uint64_t bytes) const {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  template <class Source>
  void Reduce(const Source& source, std::byte* to, uint64_t bytes) const {
    const std::byte* sources[kMaxRanks];
    for (int rank = 0; rank < view.n_ranks; ++rank) sources[rank] = source(rank);
    host::Reduce(exchange.type, exchange.op, sources, view.n_ranks, to, bytes / ElementBytes(exchange.type));
  }
  Destination DestinationOf(int rank) const { return EntryOf(view, view.rank, rank, epoch).destination; }
  std::byte* InWindow(const Destination& destination, int rank) const {
    RankMemory& memory = *ranks.memory[rank];
    return (destination.window == 0 ? memory.send : memory.recv).data() + destination.offset;
  }
  template <class Ready>
  bool Await(const Ready& ready) const {
    return WaitUntil<CpuMemory>(ready, view, kLimitNs) == WaitResult::kReached;
  }
  bool AwaitChunk(int producer, int chunk) const {
    const PairChunks& from = exchange.pair[producer].from;
    if (from.in_rounds()) {
      return Await([&] { return IsSupplied<CpuMemory>(view, producer, epoch, from.round_of(chunk)); });
    }
    return Await([&] { return HasArrived<CpuMemory>(view, producer, chunk, epoch); });
  }
  bool AwaitRoom(int consumer, int round) const {
    return Await([&] { return HasRoom<CpuMemory>(view, consumer, epoch, round); });
  }
  bool AwaitReader(int reader) const {
    return Await([&] { return HasAcknowledged<CpuMemory>(view, reader, epoch); });
  }
  uint32_t LoadWord(const std::byte* from, uint32_t bytes) const { return LoadBytes(from, bytes); }
  void StoreWord(std::byte* to, uint32_t word, uint32_t bytes) const { StoreBytes(to, word, bytes); }
  uint64_t AwaitPacket(int /*producer*/, uint32_t /*packet*/, const uint64_t* place) const {
    uint64_t seen = 0;
    return Await([&] { return IsPacketOf(seen = LookAtPacket<CpuMemory>(place), epoch); }) ? seen : 0;
  }
  std::byte* Arrivals() const { return arrivals; }
};

// What one rank does in one epoch.
struct Part {
  Exchange exchange;
  Destination destination;
  bool sizes_known = true;  // of all pairs, to every rank
};

enum class Kernel { kWhole, kOpening, kClosing };

template <template <class> class Plane>
void RunBlock(const CpuBlock& block, bool both_ways, Kernel kernel) {
  const Plane<CpuBlock> plane(block, block.view, block.exchange, block.epoch);
  const ExchangeSteps<CpuBlock, Plane<CpuBlock>> steps(block, plane, block.view, block.exchange);
  LocalBlock& local = *block.view.local;
  const uint32_t ticket = kernel == Kernel::kClosing ? 0 : Arrive<CpuMemory>(local).ticket;
  steps.Run(ticket, both_ways, [&](Direction direction) {
    uint32_t& counter = direction == Direction::kOut && kernel != Kernel::kClosing ? local.moves : local.moves_in;
    return static_cast<int>(CpuMemory::AddRelaxedGpu(&counter, uint32_t{1}));
  });
}

void RunBlockByPackets(const CpuBlock& block, int blocks) {
  const PacketPlane<CpuBlock> plane(block, block.view, block.exchange, block.epoch);
  const ExchangeSteps<CpuBlock, PacketPlane<CpuBlock>> steps(block, plane, block.view, block.exchange);
  const auto claim = [&] { return Arrive<CpuMemory>(*block.view.local).ticket; };
  steps.RunByPackets(claim(), static_cast<uint32_t>(blocks), claim);
}

// All blocks of a rank's kernel. It ends when they have.
void RunKernel(const Ranks& ranks, const RankView& view, const Exchange& exchange, Sequence epoch, int blocks, Way way,
               Kernel kernel = Kernel::kWhole) {
  std::vector<std::thread> team;
  for (int index = 0; index < blocks; ++index) {
    team.emplace_back([&] {
      const bool by_packets = exchange.packets > 0;
      std::vector<std::byte> arrivals(by_packets ? view.n_ranks * exchange.unit_packets * kPacketBytes : 0);
      const CpuBlock block{ranks, view, exchange, epoch, arrivals.data()};
      if (by_packets) {
        RunBlockByPackets(block, blocks);
      } else if (Pushes(PlaneOf(way))) {
        RunBlock<PushPlane>(block, way == Way::kHostStaged, kernel);
      } else {
        RunBlock<PullPlane>(block, false, kernel);
      }
      if (kernel != Kernel::kOpening) LeaveEpoch<CpuMemory>(*view.local, epoch, static_cast<uint32_t>(blocks), 0);
    });
  }
  for (std::thread& thread : team) thread.join();
}

void RunAroundCopies(const Ranks& ranks, const RankView& view, const Exchange& exchange, Sequence epoch, int blocks) {
  std::byte* const workspace = view.workspace[view.rank];
  const FetchedExchange parts = InThreeParts(exchange, workspace, kWorkspace, view.rank, view.n_ranks);
  RunKernel(ranks, view, parts.opening, epoch, blocks, Way::kCopyEngine, Kernel::kOpening);
  for (int i = 0; i < parts.fetches; ++i) {
    const Fetch& fetch = parts.fetch[i];
    ASSERT_LE(fetch.from + fetch.bytes, FetchedHalf(kWorkspace));
    ASSERT_LE(fetch.to + fetch.bytes, kWorkspace);
    std::memcpy(workspace + fetch.to, view.workspace[fetch.producer] + fetch.from, fetch.bytes);
  }
  RunKernel(ranks, view, parts.closing, epoch, blocks, Way::kCopyEngine, Kernel::kClosing);
}

// One epoch of all ranks, at most `blocks` threads each, not equally many. make(rank) is that rank's part. By packets,
// units have `unit_packets` of each pair.
template <class Make>
void RunEpoch(const Ranks& ranks, int blocks, Way way, uint32_t unit_packets, const Make& make) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(ranks.memory.size()); ++rank) {
    threads.emplace_back([&, rank] {
      const RankView view = ranks.view(rank);
      Part part = make(rank);
      if (way == Way::kPackets && part.sizes_known) GoByPackets(&part.exchange, view.n_ranks);
      const bool by_packets = part.exchange.packets > 0;
      ranks.by_packets += by_packets ? 1 : 0;
      if (by_packets) part.exchange.unit_packets = unit_packets;
      const Sequence epoch = EnterEpoch<CpuMemory>(*view.local);
      EntryRecord entry{};
      entry.shape.op = tcOpAllGather;
      entry.destination = part.destination;
      for (int peer = 0; peer < view.n_ranks; ++peer) PublishEntry<CpuMemory>(view, peer, epoch, entry);
      for (int peer = 0; peer < view.n_ranks; ++peer) {
        const auto entered = [&] { return HasEntered<CpuMemory>(view, peer, epoch); };
        ASSERT_EQ(WaitUntil<CpuMemory>(entered, view, kLimitNs), WaitResult::kReached);
      }
      const int size = 1 + (blocks - 1 + rank) % blocks;
      if (way == Way::kCopyEngine && view.n_ranks > 1) {
        RunAroundCopies(ranks, view, part.exchange, epoch, size);
      } else {
        RunKernel(ranks, view, part.exchange, epoch, size, way);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  for (const auto& memory : ranks.memory) {
    for (const uint32_t taken : memory->local.taken) EXPECT_EQ(taken, 0u);
    for (int peer = 0; peer < kMaxRanks; ++peer) {
      for (const int half : {0, 1}) {
        EXPECT_EQ(memory->local.round_supplied[peer][half], 0u);
        EXPECT_EQ(memory->local.round_taken[peer][half], 0u);
      }
    }
    EXPECT_EQ(memory->local.moves, 0u);
    EXPECT_EQ(memory->local.moves_in, 0u);
  }
}

class Exchanges : public ::testing::TestWithParam<std::tuple<Way, int, int>> {
 protected:
  Exchanges() : ranks_(n_ranks()) {}
  static Way way() { return std::get<0>(GetParam()); }
  static tcPlane_t plane() { return PlaneOf(way()); }
  static int n_ranks() { return std::get<1>(GetParam()); }
  static int n_blocks() { return std::get<2>(GetParam()); }
  bool push() const { return Pushes(plane()); }

  void Fill() {
    for (auto& memory : ranks_.memory) {
      for (std::byte& byte : memory->send) byte = static_cast<std::byte>(random_());
      std::fill(memory->recv.begin(), memory->recv.end(), std::byte{0x5a});
      memory->expected = memory->recv;
    }
  }
  template <class Make>
  void Run(const Make& make) {
    RunEpoch(ranks_, n_blocks(), way(), 1 + random_() % 64 * 16, make);
  }
  void TearDown() override { EXPECT_EQ(ranks_.by_packets > 0, way() == Way::kPackets && n_ranks() > 1); }
  void Compare() {
    for (int rank = 0; rank < n_ranks(); ++rank) {
      ASSERT_TRUE(ranks_.memory[rank]->recv == ranks_.memory[rank]->expected) << "rank " << rank;
    }
  }
  // Every other rank has registered its buffers.
  bool IsRegistered(int rank, int round) const { return (rank + round) % 2 == 0; }
  // The buffer that a rank's entry names.
  Destination Named(int rank, int round, int64_t window) const {
    return IsRegistered(rank, round) && plane() != tcPlaneCopyEngine ? Destination{window, 0} : Destination{};
  }
  // Bytes of each rank; some have none.
  Shards Uneven(uint64_t most, uint64_t unit) {
    Shards shards{.n_ranks = n_ranks()};
    for (int rank = 0; rank < n_ranks(); ++rank) {
      shards.begin[rank + 1] = shards.begin[rank] + (random_() % 4 == 0 ? 0 : random_() % most) * unit;
    }
    return shards;
  }
  // Bytes of a pair: by packets few, and sometimes some more than can go so.
  static uint64_t Most(uint64_t bytes) {
    return way() == Way::kPackets ? std::min(bytes, kMostByPackets + 500) : bytes;
  }
  uint64_t slab_bytes() const {
    const uint64_t staging = way() == Way::kCopyEngine ? FetchedHalf(kWorkspace) : kWorkspace;
    return staging / n_ranks() / 16 * 16;
  }

  Ranks ranks_;
  std::mt19937 random_{7};
};

TEST_P(Exchanges, GatherEveryBlock) {
  for (int round = 0; round < 12; ++round) {
    Fill();
    Shards blocks = Uneven(round % 3 == 0 ? Most(kBuffer / n_ranks()) : 3000, 1);
    const bool in_place = round % 4 == 3;
    for (int rank = 0; rank < n_ranks(); ++rank) {
      RankMemory& memory = *ranks_.memory[rank];
      if (in_place) std::copy_n(memory.send.begin(), blocks.rows(rank), memory.recv.begin() + blocks.begin[rank]);
      for (auto& peer : ranks_.memory) {
        std::copy_n(memory.send.begin(), blocks.rows(rank), peer->expected.begin() + blocks.begin[rank]);
      }
    }
    for (uint64_t index = 0; index < std::max<uint64_t>(SlabCount(blocks, slab_bytes()), 1); ++index) {
      const Slab slab = SlabAt(blocks, slab_bytes(), index);
      Run([&](int rank) {
        RankMemory& memory = *ranks_.memory[rank];
        std::byte* const own = memory.recv.data() + blocks.begin[rank];
        AllGatherVProblem problem{
            .send = in_place ? own : memory.send.data(), .recv = memory.recv.data(), .blocks = blocks};
        std::copy_n(blocks.begin, n_ranks(), problem.place);
        Destination named = Named(rank, round, push() || in_place ? 1 : 0);
        if (!push() && in_place && named.window >= 0) named.offset = blocks.begin[rank];
        return Part{GatherExchange(problem, slab, rank, plane()), named};
      });
    }
    Compare();
  }
}

TEST_P(Exchanges, ReduceEveryBlockInTheOrderOfTheRanks) {
  for (int round = 0; round < 12; ++round) {
    Fill();
    const tcDataType_t type = round % 2 == 0 ? tcFloat32 : tcBfloat16;
    const auto op = static_cast<tcRedOp_t>(round % 5);
    const size_t element = ElementBytes(type);
    const Shards blocks = Uneven((round % 3 == 0 ? Most(kBuffer / n_ranks()) : 3000) / element, 1);
    const bool in_place = round % 4 == 3;
    const std::byte* sources[kMaxRanks];
    for (int rank = 0; rank < n_ranks(); ++rank) {
      for (int source = 0; source < n_ranks(); ++source) {
        sources[source] = ranks_.memory[source]->send.data() + blocks.begin[rank] * element;
      }
      host::Reduce(type, op, sources, n_ranks(), ranks_.memory[rank]->expected.data(), blocks.rows(rank));
    }
    const uint64_t slab_elements = slab_bytes() / element;
    for (uint64_t index = 0; index < std::max<uint64_t>(SlabCount(blocks, slab_elements), 1); ++index) {
      const Slab slab = SlabAt(blocks, slab_elements, index);
      Run([&](int rank) {
        RankMemory& memory = *ranks_.memory[rank];
        std::byte* const own = memory.send.data() + blocks.begin[rank] * element;
        const ReduceScatterProblem problem{.send = memory.send.data(),
                                           .recv = in_place ? own : memory.recv.data(),
                                           .blocks = blocks,
                                           .type = type,
                                           .op = op};
        return Part{ScatterExchange(problem, slab, rank, plane()), push() ? Destination{} : Named(rank, round, 0)};
      });
    }
    for (int rank = 0; in_place && rank < n_ranks(); ++rank) {
      RankMemory& memory = *ranks_.memory[rank];
      std::copy_n(memory.send.begin() + blocks.begin[rank] * element, blocks.rows(rank) * element, memory.recv.begin());
    }
    Compare();
  }
}

TEST_P(Exchanges, ReduceEverythingOnEveryRankInOneShot) {
  for (int round = 0; round < 12; ++round) {
    Fill();
    const size_t count = random_() % (Most(slab_bytes()) / 4);
    const bool in_place = round % 2 == 1;
    const std::byte* sources[kMaxRanks];
    for (int source = 0; source < n_ranks(); ++source) {
      RankMemory& memory = *ranks_.memory[source];
      if (in_place) std::copy_n(memory.send.begin(), count * 4, memory.recv.begin());
      sources[source] = memory.send.data();
    }
    for (auto& memory : ranks_.memory) {
      host::Reduce(tcFloat32, tcSum, sources, n_ranks(), memory->expected.data(), count);
    }
    Run([&](int rank) {
      RankMemory& memory = *ranks_.memory[rank];
      const AllReduceProblem problem{
          .send = in_place ? memory.recv.data() : memory.send.data(), .recv = memory.recv.data(), .count = count};
      return Part{OneShotExchange(problem, rank, n_ranks(), plane()), {}};
    });
    Compare();
  }
}

TEST_P(Exchanges, MoveEveryPairsBlock) {
  for (int round = 0; round < 12; ++round) {
    Fill();
    const bool uneven = round % 2 == 1;
    const uint64_t most = round % 3 == 0 ? Most(kBuffer / n_ranks()) : 3000;
    const uint64_t even = random_() % most;
    std::vector<AllToAllProblem> problems(n_ranks());
    uint64_t largest = 0;
    for (int from = 0; from < n_ranks(); ++from) {
      for (int to = 0; to < n_ranks(); ++to) {
        const uint64_t bytes = uneven ? random_() % most : even;
        problems[from].blocks.sends[to] = problems[to].blocks.expects[from] = bytes;
        largest = std::max(largest, bytes);
      }
    }
    for (int rank = 0; rank < n_ranks(); ++rank) {
      AllToAllProblem& problem = problems[rank];
      problem.send = ranks_.memory[rank]->send.data();
      problem.recv = ranks_.memory[rank]->recv.data();
      for (int peer = 1; peer < n_ranks(); ++peer) {
        problem.send_place[peer] = problem.send_place[peer - 1] + problem.blocks.sends[peer - 1];
        problem.blocks.place[peer] = problem.blocks.place[peer - 1] + problem.blocks.expects[peer - 1];
      }
    }
    for (int from = 0; from < n_ranks(); ++from) {
      for (int to = 0; to < n_ranks(); ++to) {
        std::copy_n(ranks_.memory[from]->send.begin() + problems[from].send_place[to], problems[from].blocks.sends[to],
                    ranks_.memory[to]->expected.begin() + problems[to].blocks.place[from]);
      }
    }
    if (uneven && round % 4 == 3) {  // in one epoch, in rounds; now and then through as little as there may be
      const uint64_t staging = round == 7 ? 416 : slab_bytes();
      Run([&](int rank) {
        return Part{UnevenExchange(problems[rank], staging, rank, n_ranks(), plane()), Destination{}, false};
      });
      Compare();
      continue;
    }
    for (uint64_t skipped = 0; skipped == 0 || skipped < largest; skipped += slab_bytes()) {
      Run([&](int rank) {
        return Part{AllToAllExchange(problems[rank], skipped, slab_bytes(), rank, n_ranks(), plane()),
                    uneven ? Destination{} : Named(rank, round, push() ? 1 : 0), !uneven};
      });
    }
    Compare();
  }
}

// What one rank sees of pairs' sizes is enough to know whether all go by packets, and how many there are.
TEST(Packets, AreUsedByAllRanksOrByNone) {
  std::mt19937 random(5);
  int used = 0;
  for (int round = 0; round < 2000; ++round) {
    const int n_ranks = 2 + static_cast<int>(random() % (kMaxRanks - 1));
    Shards blocks{.n_ranks = n_ranks};
    const uint64_t most = random() % 2 == 0 ? kMostByPackets + 4 : 40'000;
    for (int rank = 0; rank < n_ranks; ++rank) {
      blocks.begin[rank + 1] = blocks.begin[rank] + random() % 3 * (most / 2) + (random() % 2 == 0 ? 0 : 4);
    }
    const Slab slab = SlabAt(blocks, UINT64_MAX, 0);
    const bool reduces = round % 2 == 0;
    uint32_t packets[kMaxRanks];
    for (int rank = 0; rank < n_ranks; ++rank) {
      Exchange exchange = reduces ? ScatterExchange({.blocks = blocks, .type = tcInt8}, slab, rank, tcPlanePush)
                                  : GatherExchange({.recv = &packets, .blocks = blocks}, slab, rank, tcPlanePush);
      GoByPackets(&exchange, n_ranks);
      packets[rank] = exchange.packets;
      ASSERT_EQ(packets[rank], packets[0]) << "rank " << rank;
      ASSERT_LE(packets[rank], static_cast<uint32_t>(kMostPackets));
    }
    used += packets[0] > 0 ? 1 : 0;
    const bool expected = blocks.largest() <= kMostByPackets && blocks.largest() > 0;
    ASSERT_EQ(packets[0] > 0, expected) << blocks.largest() << " bytes";
  }
  EXPECT_GT(used, 100);
  EXPECT_LT(used, 1900);
}

INSTANTIATE_TEST_SUITE_P(Planes, Exchanges,
                         ::testing::Combine(::testing::Values(Way::kPush, Way::kPull, Way::kCopyEngine,
                                                              Way::kHostStaged, Way::kPackets),
                                            ::testing::Values(1, 2, 3, 5), ::testing::Values(1, 3)),
                         [](const auto& param) {
                           const Way way = std::get<0>(param.param);
                           return std::string(way == Way::kPackets ? "packets" : PlaneName(PlaneOf(way))) + "_" +
                                  std::to_string(std::get<1>(param.param)) + "_" +
                                  std::to_string(std::get<2>(param.param));
                         });

}  // namespace
}  // namespace tc
