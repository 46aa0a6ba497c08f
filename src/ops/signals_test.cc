// What operators leave in the memory through which ranks talk: after each of many, one after the other, every
// watermark, entry epoch, packet, counter and gate of every rank's ControlBlock and LocalBlock is compared with the
// table of signals. A watermark that was raised holds exactly the epoch, any other what it held before, so nobody
// writes a slot that is another's (P1).
//
// How often a watermark is raised cannot be seen in it. The host backend counts the bytes of each push, and each push
// ends with one signal: with every watermark of the table raised, and the bytes of the table pushed, each was raised
// once. On devices it follows from the order of moves (order/moves_test.cc): each is claimed once, and pushes once.
#include "order/signals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <memory>
#include <random>
#include <vector>

#include "comm/allocation.h"
#include "ops/rank_threads.h"
#include "order/exchange.h"
#include "order/problem.h"
#include "plan/plan.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"
#include "protocol/packet.h"

namespace tc {
namespace {

constexpr int kOperators = 64;
constexpr size_t kBufferBytes = size_t{2} << 20;
constexpr size_t kMostCols = 64;
constexpr size_t kMostDepth = 40;
// Soon places of packets are scrubbed, of which all hold packets of a later epoch.
constexpr Sequence kStart = kScrubPeriod - 10;
constexpr Sequence kLater = kScrubPeriod + 20;

tcPlane_t UsualPlane() { return HostStaged() ? tcPlaneHostStaged : tcPlanePush; }

bool HavePackets(int n_ranks) { return OnGpu() && !HostStaged() && n_ranks > 1; }

enum class Gathered { kNowhere, kPlain, kWindow };

// The same on every rank.
struct Operator {
  tcOp_t op = tcOpBarrier;
  bool refused = false;      // by the last rank
  std::vector<size_t> rows;  // of each rank; of collectives: bytes, of those that reduce elements
  bool one_shot = false;
  size_t n = 0, k = 0;
  uint64_t slab = UINT64_MAX;
  Gathered gathered = Gathered::kNowhere;
  uint32_t stages = kAllStages;
  tcPlane_t plane = UsualPlane();
};

Operator DrawGather(std::mt19937& random, int n_ranks) {
  const size_t most[] = {1, 5000, kBufferBytes / n_ranks};
  const size_t bytes = random() % (most[random() % 3] + 1);
  return {.op = tcOpAllGather,
          .rows = std::vector<size_t>(n_ranks, bytes),
          .slab = random() % 2 == 0 ? UINT64_MAX : bytes / 3 + 1,
          .gathered = random() % 2 == 0 ? Gathered::kPlain : Gathered::kWindow};
}

tcPlane_t DrawPlane(std::mt19937& random) {
  if (!OnGpu() || HostStaged()) return UsualPlane();
  constexpr tcPlane_t kPlanes[] = {tcPlanePush, tcPlanePull, tcPlaneCopyEngine};
  return kPlanes[random() % 3];
}

// Of an all-to-all, rows are what rank 0 sends; see PairBytes.
Operator DrawCollective(std::mt19937& random, int n_ranks, tcPlane_t plane) {
  constexpr tcOp_t kOps[] = {tcOpBroadcast, tcOpAllGatherV, tcOpReduceScatterV, tcOpAllReduce, tcOpAllToAllV};
  Operator drawn{.op = kOps[random() % 5], .rows = std::vector<size_t>(n_ranks)};
  const size_t most = random() % 4 == 0 ? kBufferBytes / n_ranks / 4 : 3000;
  for (size_t& rows : drawn.rows) rows = random() % 4 == 0 ? 0 : random() % (most + 1);
  if (drawn.op == tcOpBroadcast) {
    const size_t root = random() % n_ranks;
    for (int rank = 0; rank < n_ranks; ++rank) drawn.rows[rank] *= rank == static_cast<int>(root) ? 1 : 0;
  }
  drawn.one_shot =
      drawn.op == tcOpAllReduce && ReducesInOneShot(drawn.rows[0] * 4, n_ranks, StagingBytes(kTestWorkspace, plane));
  drawn.slab = random() % 2 == 0 ? UINT64_MAX : most * 4 / 3 / 16 * 16 + 16;
  if (drawn.one_shot || (OnGpu() && drawn.op == tcOpAllToAllV)) drawn.slab = UINT64_MAX;  // it has one epoch there
  drawn.gathered = random() % 2 == 0 ? Gathered::kPlain : Gathered::kWindow;
  return drawn;
}

// The chunks in which a pair's bytes go.
int PairChunkCount(uint64_t bytes) {
  return OnGpu() ? DeviceChunks(bytes, UsualPlane()).count : PairSignals{bytes}.chunks();
}

size_t PairBytes(const Operator& drawn, int from, int to) {
  return drawn.rows[(static_cast<size_t>(from) * 3 + to) % drawn.rows.size()];
}

Operator DrawGemm(std::mt19937& random, int n_ranks) {
  Operator drawn{.op = tcOpAllGatherGemm, .rows = std::vector<size_t>(n_ranks)};
  const bool none = random() % 8 == 0;
  for (size_t& rows : drawn.rows) rows = none || random() % 4 == 0 ? 0 : random() % 300;
  drawn.n = random() % 5 == 0 ? 0 : random() % (kMostCols + 1);
  drawn.k = 1 + random() % kMostDepth;
  if (random() % 2 == 0) drawn.slab = 40 + random() % 120;
  drawn.gathered = static_cast<Gathered>(random() % 3);
  const uint32_t stages[] = {kAllStages, kAllStages, kAllStages, kStageMove, kStageCompute};
  drawn.stages = stages[random() % 5];
  return drawn;
}

// More rows than kMaxChunks chunks of 64 rows.
Operator DrawLargeGemm(std::mt19937& random, int n_ranks) {
  Operator drawn = DrawGemm(random, n_ranks);
  drawn.rows[random() % n_ranks] = kMaxChunks * kSmallestChunkRows + 1 + random() % 9000;
  drawn.n = 2;
  drawn.k = 1;
  drawn.slab = UINT64_MAX;
  drawn.stages = kAllStages;
  return drawn;
}

Operator Draw(std::mt19937& random, int n_ranks, int number) {
  const tcPlane_t plane = DrawPlane(random);
  Operator drawn;
  switch (random() % 12) {
    case 0:
      break;
    case 8:
    case 9:
    case 10:
    case 11:
      drawn = DrawCollective(random, n_ranks, plane);
      break;
    case 1:
    case 2:
    case 3:
      drawn = DrawGather(random, n_ranks);
      break;
    default:
      drawn = number % 8 == 0 && n_ranks <= 3 ? DrawLargeGemm(random, n_ranks) : DrawGemm(random, n_ranks);
  }
  drawn.refused = random() % 16 == 0;
  drawn.plane = plane;
  return drawn;
}

// What one rank's ControlBlock and LocalBlock must hold, by the table.
class Expected {
 public:
  Expected(int rank, int n_ranks)
      : rank_(rank), n_ranks_(n_ranks), watermark_(kMaxRanks), packets_(HavePackets(n_ranks) ? n_ranks : 0) {
    for (PacketRow& row : packets_) {
      for (const Sequence parity : {0, 1}) std::fill_n(row.half[parity], kMostPackets, MakePacket(kLater + parity, 7));
    }
  }

  // By writer; empty where there are none.
  const std::vector<PacketRow>& packets() const { return packets_; }

  // An epoch that only meets. `bare`: so many of the first ranks enter without a record.
  void Meet(int bare = 0) {
    ++epoch_;
    for (int writer = 0; writer < n_ranks_; ++writer) entry_[writer][epoch_ % 2] = EntryWord(epoch_, writer < bare);
    for (PacketRow& row : packets_) {
      if (ScrubIsDue(epoch_)) std::fill_n(row.half[(epoch_ - 1) % 2], kMostPackets, uint64_t{0});
    }
  }

  // One that gathers units of `unit_bytes` each.
  void Gather(const GatherSignals& signals, size_t unit_bytes) {
    Meet();
    const auto bytes = [&](int producer, int consumer, int chunk) {
      const RowRange rows = signals.rows(producer, chunk);
      return signals.raises(producer, consumer, chunk) * (rows.end - rows.begin) * unit_bytes;
    };
    for (int peer = 0; peer < n_ranks_; ++peer) {
      for (int chunk = 0; chunk < kMaxChunks; ++chunk) {
        if (signals.raises(peer, rank_, chunk) > 0) {
          watermark_[peer][chunk] = epoch_;
          received_ += bytes(peer, rank_, chunk);
        }
        if (signals.raises(rank_, peer, chunk) > 0) sent_ += bytes(rank_, peer, chunk);
      }
    }
  }

  // One in which `from` moves bytes(from, to), all zeros, to `to`. `may_be_packets`: if there are few.
  template <class Bytes>
  void Move(const Bytes& bytes, bool may_be_packets) {
    Meet();
    const bool by_packets = may_be_packets && !packets_.empty() && MostOfPair(bytes) <= kMostByPackets;
    for (int peer = 0; peer < n_ranks_; ++peer) {
      if (peer == rank_) continue;
      const uint64_t arriving = bytes(peer, rank_);
      if (by_packets) {
        std::fill_n(packets_[peer].half[epoch_ % 2], (arriving + 3) / 4, MakePacket(epoch_, 0));
      } else {
        for (int chunk = 0; chunk < PairChunkCount(arriving); ++chunk) watermark_[peer][chunk] = epoch_;
      }
      received_ += arriving;
      sent_ += bytes(rank_, peer);
    }
  }

  // One in which the ranks tell each other something that is no payload.
  void Tell() {
    Meet();
    for (int peer = 0; peer < n_ranks_; ++peer) {
      if (peer != rank_) watermark_[peer][0] = epoch_;
    }
  }

  void Compare(const ControlBlock& seen, const LocalBlock& local) const {
    for (int writer = 0; writer < kMaxRanks; ++writer) {
      for (int chunk = 0; chunk < kMaxChunks; ++chunk) {
        ASSERT_EQ(seen.watermark[writer].chunk[chunk], watermark_[writer][chunk])
            << "rank " << rank_ << ", chunk " << chunk << " of rank " << writer;
      }
      for (int parity = 0; parity < 2; ++parity) {
        ASSERT_EQ(seen.entry[writer].record[parity].entered, entry_[writer][parity])
            << "rank " << rank_ << ", entry of rank " << writer;
      }
    }
    for (size_t writer = 0; writer < packets_.size(); ++writer) {
      for (int i = 0; i < kMostPackets; ++i) {
        for (int half = 0; half < 2; ++half) {
          ASSERT_EQ(seen.packets[writer].half[half][i], packets_[writer].half[half][i])
              << "rank " << rank_ << ", packet " << i << " of rank " << writer << ", half " << half;
        }
      }
    }
    CompareLocal(local);
  }

  void CompareTraffic(const Communicator::Counters& counters) const {
    ASSERT_EQ(counters.bytes_sent, sent_) << "rank " << rank_;
    ASSERT_EQ(counters.bytes_received, received_) << "rank " << rank_;
  }

 private:
  void CompareLocal(const LocalBlock& local) const {
    ASSERT_EQ(local.arrivals, epoch_ << kArrivalBits) << "rank " << rank_;
    ASSERT_EQ(local.dead, 0u) << "rank " << rank_;
    ASSERT_EQ(local.tiles, 0u) << "rank " << rank_;
    ASSERT_EQ(local.moves, 0u) << "rank " << rank_;
    ASSERT_EQ(local.moves_in, 0u) << "rank " << rank_;
    ASSERT_EQ(local.finished, 0u) << "rank " << rank_;
    for (const uint32_t taken : local.taken) ASSERT_EQ(taken, 0u) << "rank " << rank_;
    for (int gate = 0; gate < kMaxRowBlocks; ++gate) ASSERT_EQ(local.gate[gate], 0u) << "gate " << gate;
  }

  template <class Bytes>
  uint64_t MostOfPair(const Bytes& bytes) const {
    uint64_t most = 0;
    for (int from = 0; from < n_ranks_; ++from) {
      for (int to = 0; to < n_ranks_; ++to) most = std::max<uint64_t>(most, from == to ? 0 : bytes(from, to));
    }
    return most;
  }

  const int rank_;
  const int n_ranks_;
  Sequence epoch_ = kStart;
  std::array<std::array<Sequence, 2>, kMaxRanks> entry_{};   // by writer
  std::vector<std::array<Sequence, kMaxChunks>> watermark_;  // by producer
  std::vector<PacketRow> packets_;                           // by writer
  uint64_t sent_ = 0;
  uint64_t received_ = 0;
};

// One rank that runs operators and compares.
class Rank {
 public:
  Rank(Communicator& comm, std::barrier<>& meet)
      : comm_(comm),
        meet_(meet),
        expected_(comm.rank(), comm.n_ranks()),
        send_(DeviceAlloc(kBufferBytes)),
        b_(DeviceAlloc(kMostCols * kMostDepth * 4)),
        c_(DeviceAlloc(kBufferBytes)),
        plain_(DeviceAlloc(kBufferBytes)),
        seen_(std::make_unique<ControlBlock>()),
        local_(std::make_unique<LocalBlock>()) {
    const std::vector<std::byte> zeros(kBufferBytes);
    CopyAny(send_, zeros.data(), kBufferBytes);
    CopyAny(b_, zeros.data(), kMostCols * kMostDepth * 4);
    std::shared_ptr<Segment> segment;
    EXPECT_TRUE(comm.backend().Allocate(Memory::kDevice, kBufferBytes, false, &segment).ok());
    window_ = segment->base();
    Allocations::Instance().Add(std::move(segment));
    EXPECT_TRUE(comm.Register(Status(), window_, kBufferBytes, &registered_).ok());
    EXPECT_TRUE(comm.backend().CreateStream(&stream_).ok());
    const uint64_t arrivals = kStart << kArrivalBits;
    CopyAny(&comm.view().local->arrivals, &arrivals, sizeof(arrivals));
    const std::vector<PacketRow>& packets = expected_.packets();
    if (!packets.empty()) CopyAny(comm.view().own().packets, packets.data(), packets.size() * sizeof(PacketRow));
  }
  ~Rank() {
    EXPECT_TRUE(comm_.backend().DestroyStream(stream_).ok());
    EXPECT_TRUE(comm_.Deregister(Status(), registered_->index).ok());
    registered_.reset();
    EXPECT_TRUE(Allocations::Instance().Remove(window_).ok());
    for (void* pointer : {send_, b_, c_, plain_}) DeviceFree(pointer);
  }

  void Run() {
    std::mt19937 random(comm_.n_ranks());  // the same operators on every rank
    for (int number = 0; number < kOperators; ++number) {
      Operator drawn = Draw(random, comm_.n_ranks(), number);
      drawn.slab = std::min(drawn.slab, MostInSlab(drawn));
      meet_.arrive_and_wait();
      const bool failed = testing::Test::HasFailure();
      meet_.arrive_and_wait();
      if (failed) return;  // so do all others
      Launch(drawn);
      Expect(drawn);
      EXPECT_TRUE(comm_.backend().SynchronizeStream(stream_).ok());
      EXPECT_TRUE(comm_.fatal().ok()) << comm_.fatal().sentence();
      meet_.arrive_and_wait();
      CopyAny(seen_.get(), &comm_.view().own(), ControlBytes(static_cast<int>(expected_.packets().size())));
      CopyAny(local_.get(), comm_.view().local, sizeof(LocalBlock));
      SCOPED_TRACE(testing::Message() << "operator " << number << " of " << comm_.n_ranks() << " ranks");
      expected_.Compare(*seen_, *local_);
      expected_.CompareTraffic(comm_.Tally());
    }
  }

 private:
  uint64_t MostInSlab(const Operator& drawn) const {
    const bool gemm = drawn.op == tcOpAllGatherGemm;
    uint64_t units = 0;
    const uint64_t staging = gemm ? kTestWorkspace : StagingBytes(kTestWorkspace, drawn.plane);
    EXPECT_TRUE(ChooseSlab(staging, comm_.n_ranks(), gemm ? StagedPitch(drawn.k * 4) : 16, &units).ok());
    if (gemm) return std::min(units, MostGatedRows(comm_.n_ranks()));
    return comm_.n_ranks() > 1 ? units * 16 : units;
  }

  void Launch(const Operator& drawn) {
    const bool refuses = drawn.refused && comm_.rank() + 1 == comm_.n_ranks();
    const KernelRow* row = nullptr;
    ASSERT_TRUE(ChooseKernel(refuses ? kOpRefusal : drawn.op, refuses ? tcInt8 : tcFloat32, drawn.plane,
                             comm_.backend().name(), &row)
                    .ok());
    tc::Launch launch{.comm = comm_, .stream = stream_, .shape = {.op = drawn.op}, .problem = {}};
    if (drawn.op != tcOpBarrier) launch.shape.type = tcFloat32;
    launch.plane = drawn.plane;
    launch.slab = drawn.slab;
    if (refuses) {
      launch.problem = Error(tcInvalidArgument, "the test wants it so");
    } else if (drawn.op == tcOpAllGather) {
      launch.problem = AllGatherProblem{send_, GatheredTo(drawn), drawn.rows[0]};
    } else if (drawn.op == tcOpBroadcast || drawn.op == tcOpAllGatherV) {
      AllGatherVProblem problem{
          .send = send_, .recv = GatheredTo(drawn), .blocks = GivenShards(drawn.rows.data(), comm_.n_ranks())};
      std::copy_n(problem.blocks.begin, comm_.n_ranks(), problem.place);
      launch.problem = problem;
    } else if (drawn.op == tcOpReduceScatterV) {
      launch.problem = ReduceScatterProblem{
          .send = send_, .recv = GatheredTo(drawn), .blocks = GivenShards(drawn.rows.data(), comm_.n_ranks())};
    } else if (drawn.op == tcOpAllReduce) {
      launch.problem = AllReduceProblem{
          .send = send_, .recv = GatheredTo(drawn), .count = drawn.rows[0], .one_shot = drawn.one_shot};
    } else if (drawn.op == tcOpAllToAllV) {
      launch.problem = AllToAll(drawn);
    } else if (drawn.op == tcOpAllGatherGemm) {
      launch.problem = AllGatherGemmProblem{.a = send_,
                                            .b = b_,
                                            .c = c_,
                                            .gathered = GatheredTo(drawn),
                                            .shards = GivenShards(drawn.rows.data(), comm_.n_ranks()),
                                            .n = drawn.n,
                                            .k = drawn.k,
                                            .lda = drawn.k,
                                            .ldb = drawn.k,
                                            .ldc = drawn.n,
                                            .stages = drawn.stages};
    }
    EXPECT_TRUE(row->launch(launch).ok());
  }

  void* GatheredTo(const Operator& drawn) const {
    return drawn.gathered == Gathered::kNowhere ? nullptr : drawn.gathered == Gathered::kPlain ? plain_ : window_;
  }

  AllToAllProblem AllToAll(const Operator& drawn) const {
    AllToAllProblem problem{.send = send_, .recv = GatheredTo(drawn), .uneven = true};
    for (int peer = 1; peer <= comm_.n_ranks(); ++peer) {
      problem.blocks.sends[peer - 1] = PairBytes(drawn, comm_.rank(), peer - 1);
      problem.blocks.expects[peer - 1] = PairBytes(drawn, peer - 1, comm_.rank());
      if (peer == comm_.n_ranks()) break;
      problem.send_place[peer] = problem.send_place[peer - 1] + problem.blocks.sends[peer - 1];
      problem.blocks.place[peer] = problem.blocks.place[peer - 1] + problem.blocks.expects[peer - 1];
    }
    return problem;
  }

  void ExpectCollective(const Operator& drawn) {
    const bool reduces = drawn.op == tcOpReduceScatterV || drawn.op == tcOpAllReduce;
    const size_t unit = reduces ? 4 : 1;
    const Shards shards = drawn.op == tcOpAllReduce ? EvenShards(drawn.rows[0], comm_.n_ranks())
                                                    : GivenShards(drawn.rows.data(), comm_.n_ranks());
    const bool all_to_all = drawn.op == tcOpAllToAllV;
    const auto move = [&](const auto& bytes) { expected_.Move(bytes, drawn.plane == tcPlanePush && !all_to_all); };
    if (drawn.one_shot) return move([&](int, int) { return drawn.rows[0] * unit; });
    if (all_to_all && !OnGpu()) expected_.Tell();
    // All ranks' rows are pairs' in an all-to-all, so the largest is the same.
    for (uint64_t index = 0; index < std::max<uint64_t>(SlabCount(shards, drawn.slab / unit), 1); ++index) {
      const auto part = [&](uint64_t whole) {
        return std::min(drawn.slab / unit, whole - std::min(whole, index * (drawn.slab / unit))) * unit;
      };
      if (reduces) move([&](int, int to) { return part(shards.rows(to)); });
      if (all_to_all) move([&](int from, int to) { return part(PairBytes(drawn, from, to)); });
      if (!reduces && !all_to_all) move([&](int from, int) { return part(shards.rows(from)); });
      if (drawn.op == tcOpAllReduce) move([&](int from, int) { return part(shards.rows(from)); });
    }
  }

  void Expect(const Operator& drawn) {
    if (drawn.op == tcOpBarrier) return expected_.Meet(comm_.n_ranks() - (drawn.refused ? 1 : 0));
    if (drawn.refused) return expected_.Meet();  // further slabs are left out
    if (drawn.op != tcOpAllGather && drawn.op != tcOpAllGatherGemm) return ExpectCollective(drawn);
    const Shards shards = GivenShards(drawn.rows.data(), comm_.n_ranks());
    const bool gemm = drawn.op == tcOpAllGatherGemm;
    for (uint64_t index = 0; index < std::max<uint64_t>(SlabCount(shards, drawn.slab), 1); ++index) {
      const Slab slab = SlabAt(shards, drawn.slab, index);
      if ((drawn.stages & kStageMove) == 0) {
        expected_.Meet();
      } else if (gemm) {
        expected_.Gather({slab.packed, ChunkRows(slab.packed.largest())}, drawn.k * 4);
      } else if (drawn.plane == tcPlanePush && HavePackets(comm_.n_ranks()) &&
                 slab.packed.largest() <= kMostByPackets) {
        expected_.Move([&](int from, int) { return slab.packed.rows(from); }, true);
      } else {
        expected_.Gather({slab.packed, ChunkBytes(slab.packed.largest())}, 1);
      }
    }
  }

  static uint64_t ChunkBytes(uint64_t bytes) {
    if (!OnGpu()) return HostChunkBytes(bytes);
    return HostStaged() ? HostStagedChunkBytes(bytes) : DeviceChunkBytes(bytes);
  }

  Communicator& comm_;
  std::barrier<>& meet_;
  Expected expected_;
  void *send_, *b_, *c_, *plain_;
  std::byte* window_ = nullptr;
  std::shared_ptr<const Window> registered_;
  std::unique_ptr<ControlBlock> seen_;
  std::unique_ptr<LocalBlock> local_;
  tcStream_t stream_ = nullptr;
};

TEST(Signals, AreThoseOfTheTableInEverySlotAfterEveryOperator) {
  if (!HasTestDevice()) GTEST_SKIP() << "no GPU";
  for (int n_ranks : {1, 2, 3, 5, 8, 16}) {
    RunRanks(n_ranks, 2, [](Communicator& comm, std::barrier<>& meet) { Rank(comm, meet).Run(); });
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace tc
