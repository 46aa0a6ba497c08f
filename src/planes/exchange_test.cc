// Whole exchanges on CPU threads, by the code of the kernels: every rank has several blocks, of one thread each, that
// claim pieces until none is left. Every byte of every rank's recv is compared with a naive reference.
#include "planes/exchange.h"

#include <gtest/gtest.h>

#include <barrier>
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
};

struct CpuBlock {
  using Memory = CpuMemory;

  const Ranks& ranks;
  const RankView& view;
  const Exchange& exchange;
  Sequence epoch;

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
};

// What one rank does in one epoch.
struct Part {
  Exchange exchange;
  Destination destination;
};

enum class Kernel { kWhole, kOpening, kClosing };

template <template <class> class Plane>
void RunBlock(const Ranks& ranks, const RankView& view, const Exchange& exchange, Sequence epoch, bool both_ways,
              Kernel kernel, uint32_t ticket) {
  const CpuBlock block{ranks, view, exchange, epoch};
  const Plane<CpuBlock> plane(block, view, exchange, epoch);
  const ExchangeSteps<CpuBlock, Plane<CpuBlock>> steps(block, plane, view, exchange);
  LocalBlock& local = *view.local;
  steps.Run(ticket, both_ways, [&](Direction direction) {
    uint32_t& counter = direction == Direction::kOut && kernel != Kernel::kClosing ? local.moves : local.moves_in;
    return static_cast<int>(CpuMemory::AddRelaxedGpu(&counter, uint32_t{1}));
  });
}

// All blocks of a rank's kernel. It ends when they have.
void RunKernel(const Ranks& ranks, const RankView& view, const Exchange& exchange, Sequence epoch, int blocks,
               tcPlane_t plane, Kernel kernel) {
  std::vector<std::thread> team;
  for (int index = 0; index < blocks; ++index) {
    team.emplace_back([&, ticket = static_cast<uint32_t>(index)] {
      const auto run = Pushes(plane) ? &RunBlock<PushPlane> : &RunBlock<PullPlane>;
      run(ranks, view, exchange, epoch, plane == tcPlaneHostStaged, kernel, ticket);
      if (kernel != Kernel::kOpening) LeaveEpoch<CpuMemory>(*view.local, epoch, blocks, 0);
    });
  }
  for (std::thread& thread : team) thread.join();
}

void RunAroundCopies(const Ranks& ranks, const RankView& view, const Exchange& exchange, Sequence epoch, int blocks) {
  std::byte* const workspace = view.workspace[view.rank];
  const FetchedExchange parts = InThreeParts(exchange, workspace, kWorkspace, view.rank, view.n_ranks);
  RunKernel(ranks, view, parts.opening, epoch, blocks, tcPlaneCopyEngine, Kernel::kOpening);
  for (int i = 0; i < parts.fetches; ++i) {
    const Fetch& fetch = parts.fetch[i];
    ASSERT_LE(fetch.from + fetch.bytes, FetchedHalf(kWorkspace));
    ASSERT_LE(fetch.to + fetch.bytes, kWorkspace);
    std::memcpy(workspace + fetch.to, view.workspace[fetch.producer] + fetch.from, fetch.bytes);
  }
  RunKernel(ranks, view, parts.closing, epoch, blocks, tcPlaneCopyEngine, Kernel::kClosing);
}

// One epoch of all ranks, `blocks` threads each. make(rank) is that rank's part.
template <class Make>
void RunEpoch(const Ranks& ranks, int blocks, tcPlane_t plane, const Make& make) {
  std::vector<std::thread> threads;
  for (int rank = 0; rank < static_cast<int>(ranks.memory.size()); ++rank) {
    threads.emplace_back([&, rank] {
      const RankView view = ranks.view(rank);
      const Part part = make(rank);
      const Sequence epoch = EnterEpoch<CpuMemory>(*view.local);
      EntryRecord entry{};
      entry.shape.op = tcOpAllGather;
      entry.destination = part.destination;
      for (int peer = 0; peer < view.n_ranks; ++peer) PublishEntry<CpuMemory>(view, peer, epoch, entry);
      for (int peer = 0; peer < view.n_ranks; ++peer) {
        const auto entered = [&] { return HasEntered<CpuMemory>(view, peer, epoch); };
        ASSERT_EQ(WaitUntil<CpuMemory>(entered, view, kLimitNs), WaitResult::kReached);
      }
      if (plane == tcPlaneCopyEngine && view.n_ranks > 1) {
        RunAroundCopies(ranks, view, part.exchange, epoch, blocks);
      } else {
        RunKernel(ranks, view, part.exchange, epoch, blocks, plane, Kernel::kWhole);
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

class Exchanges : public ::testing::TestWithParam<std::tuple<tcPlane_t, int, int>> {
 protected:
  Exchanges() : ranks_(n_ranks()) {}
  static tcPlane_t plane() { return std::get<0>(GetParam()); }
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
  uint64_t slab_bytes() const {
    const uint64_t staging = plane() == tcPlaneCopyEngine ? FetchedHalf(kWorkspace) : kWorkspace;
    return staging / n_ranks() / 16 * 16;
  }

  Ranks ranks_;
  std::mt19937 random_{7};
};

TEST_P(Exchanges, GatherEveryBlock) {
  for (int round = 0; round < 12; ++round) {
    Fill();
    Shards blocks = Uneven(round % 3 == 0 ? kBuffer / n_ranks() : 3000, 1);
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
      RunEpoch(ranks_, n_blocks(), plane(), [&](int rank) {
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
    const Shards blocks = Uneven((round % 3 == 0 ? kBuffer / n_ranks() : 3000) / element, 1);
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
      RunEpoch(ranks_, n_blocks(), plane(), [&](int rank) {
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
    const size_t count = random_() % (slab_bytes() / 4);
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
    RunEpoch(ranks_, n_blocks(), plane(), [&](int rank) {
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
    const uint64_t most = round % 3 == 0 ? kBuffer / n_ranks() : 3000;
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
      RunEpoch(ranks_, n_blocks(), plane(), [&](int rank) {
        return Part{UnevenExchange(problems[rank], staging, rank, n_ranks(), plane()), Destination{}};
      });
      Compare();
      continue;
    }
    for (uint64_t skipped = 0; skipped == 0 || skipped < largest; skipped += slab_bytes()) {
      RunEpoch(ranks_, n_blocks(), plane(), [&](int rank) {
        return Part{AllToAllExchange(problems[rank], skipped, slab_bytes(), rank, n_ranks(), plane()),
                    uneven ? Destination{} : Named(rank, round, push() ? 1 : 0)};
      });
    }
    Compare();
  }
}

INSTANTIATE_TEST_SUITE_P(Planes, Exchanges,
                         ::testing::Combine(::testing::Values(tcPlanePush, tcPlanePull, tcPlaneCopyEngine,
                                                              tcPlaneHostStaged),
                                            ::testing::Values(1, 2, 3, 5), ::testing::Values(1, 3)),
                         [](const auto& param) {
                           return std::string(PlaneName(std::get<0>(param.param))) + "_" +
                                  std::to_string(std::get<1>(param.param)) + "_" +
                                  std::to_string(std::get<2>(param.param));
                         });

}  // namespace
}  // namespace tc
