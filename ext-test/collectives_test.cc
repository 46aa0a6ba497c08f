// The collectives from outside: every byte of every buffer is compared with what a naive reference says, guard zones
// and gaps between blocks included.
#include <algorithm>
#include <array>
#include <chrono>
#include <memory>
#include <random>

#include "elements.h"
#include "ranks.h"

namespace tc::test {
namespace {

constexpr size_t kWorkspace = 96 * 1024;  // small: larger operators go in slabs
constexpr size_t kArena = size_t{4} << 20;
constexpr size_t kGuard = 64;
constexpr unsigned char kPoison = 0xA5;
constexpr tcRedOp_t kReductions[] = {tcSum, tcProd, tcMax, tcMin, tcAvg};

tcConfig_t SmallWorkspace() {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = kWorkspace;
  config.entryTimeoutMs = 20'000;  // a rank whose comparison failed does not come any more
  return config;
}

// Memory of the rank's device of which each byte is known: what it holds and what it must hold after the operator.
class Arena {
 public:
  Arena(tcComm_t comm, unsigned char* memory) : comm_(comm), memory_(memory) {}

  // Poisons room for `bytes`, which start `shift` bytes behind a guard zone.
  unsigned char* Prepare(size_t bytes, size_t shift) {
    held_.assign(2 * kGuard + shift + bytes, kPoison);
    expected_ = held_;
    return memory_ + kGuard + shift;
  }
  void Put(const unsigned char* at, tcDataType_t type, uint64_t bits) {
    StoreElement(&held_[static_cast<size_t>(at - memory_)], type, bits);
    Expect(at, type, bits);
  }
  void Expect(const unsigned char* at, tcDataType_t type, uint64_t bits) {
    StoreElement(&expected_[static_cast<size_t>(at - memory_)], type, bits);
  }
  void Upload() const { CopyWindow(comm_, memory_, held_.data(), held_.size()); }
  // The first byte that is not as expected; -1: none.
  ptrdiff_t FirstWrong() const {
    std::vector<unsigned char> found(expected_.size());
    CopyWindow(comm_, found.data(), memory_, found.size());
    const auto [expected, seen] = std::mismatch(expected_.begin(), expected_.end(), found.begin());
    return expected == expected_.end() ? -1 : expected - expected_.begin();
  }

 private:
  tcComm_t comm_;
  unsigned char* memory_;
  std::vector<unsigned char> held_;
  std::vector<unsigned char> expected_;
};

enum class Where { kPlain, kWindow, kMixed };  // kMixed: registered on odd ranks alone

// One call, the same on every rank but for where its buffers lie.
struct Call {
  tcOp_t op = tcOpAllReduce;
  tcDataType_t type = tcFloat32;
  tcRedOp_t reduction = tcSum;
  int root = 0;
  size_t count = 0;
  uint64_t seed = 0;
  bool in_place = false;
  Where where = Where::kPlain;
  size_t shift = 0;  // elements that buffers start behind an aligned address
};

// The buffers of one rank.
class Rank {
 public:
  Rank(int rank, int n_ranks, tcComm_t comm)
      : rank_(rank), n_ranks_(n_ranks), comm_(comm), host_(2 * kArena), plain_(comm, host_.data(), host_.size()) {
    void* memory = nullptr;
    TC_EXPECT_OK(tcMemAlloc(&memory, 2 * kArena));
    TC_EXPECT_OK(tcCommRegister(comm, memory, 2 * kArena, &window_));
    registered_ = static_cast<unsigned char*>(memory);
  }
  ~Rank() {
    TC_EXPECT_OK(tcCommDeregister(comm_, window_));
    TC_EXPECT_OK(tcMemFree(registered_));
  }

  // Prepares the buffers, calls the operator, and leaves what must lie where for Compare.
  tcResult_t Launch(const Call& call) {
    const bool in_window = call.where == Where::kWindow || (call.where == Where::kMixed && rank_ % 2 == 1);
    unsigned char* const memory = in_window ? registered_ : static_cast<unsigned char*>(plain_.get());
    send_ = std::make_unique<Arena>(comm_, memory);
    recv_ = std::make_unique<Arena>(comm_, memory + kArena);
    switch (call.op) {
      case tcOpReduceScatter:
        return Scatter(call, std::vector<size_t>(n_ranks_, call.count));
      case tcOpReduceScatterV:
        return Scatter(call, Uneven(call));
      case tcOpAllReduce:
        return AllReduce(call);
      case tcOpBroadcast:
        return Broadcast(call);
      case tcOpAllGatherV:
        return AllGatherV(call);
      case tcOpAllToAll:
        return AllToAll(call);
      case tcOpAllToAllV:
        return AllToAllV(call);
      default:
        return tcBarrier(comm_, TestStream());
    }
  }

  void Compare(const Call& call) const {
    for (const Arena* arena : {send_.get(), recv_.get()}) {
      ASSERT_EQ(arena->FirstWrong(), -1) << (arena == send_.get() ? "sendbuff" : "recvbuff") << " of rank " << rank_
                                         << ", op " << call.op << ", type " << call.type << ", reduction "
                                         << call.reduction << ", count " << call.count << ", where "
                                         << static_cast<int>(call.where) << (call.in_place ? ", in place" : "");
    }
  }

  void Run(const Call& call) {
    TC_EXPECT_OK(Launch(call));
    TC_EXPECT_OK(tcStreamSynchronize(comm_, TestStream()));
    Compare(call);
  }

 private:
  // Blocks of uneven sizes, some empty, the largest of `count`.
  std::vector<size_t> Uneven(const Call& call) const {
    std::vector<size_t> counts(n_ranks_);
    for (int rank = 0; rank < n_ranks_; ++rank) {
      const size_t of[] = {call.count, 0, call.count / 2, std::min<size_t>(call.count, 3), call.count - call.count / 3};
      counts[rank] = of[(static_cast<size_t>(rank) + call.seed) % 5];
    }
    return counts;
  }
  size_t CountOfPair(const Call& call, int from, int to) const {
    const uint64_t random = Mix(call.seed * 977 + static_cast<uint64_t>(from * n_ranks_ + to));
    return random % 3 == 0 ? 0 : random % 3 == 1 ? call.count : random % (call.count + 1);
  }
  // Places with gaps, the last block first; packed every other time, when a NULL may stand for them.
  static std::vector<size_t> Places(const Call& call, const std::vector<size_t>& counts, bool packed) {
    std::vector<size_t> places(counts.size());
    size_t end = 0;
    for (size_t i = 0; i < counts.size(); ++i) {
      const size_t block = packed ? i : counts.size() - 1 - i;
      places[block] = end;
      end += counts[block] + (packed ? 0 : 1 + (block + call.seed) % 3);
    }
    return places;
  }
  static size_t Extent(const std::vector<size_t>& counts, const std::vector<size_t>& places) {
    size_t extent = 0;
    for (size_t i = 0; i < counts.size(); ++i) extent = std::max(extent, places[i] + counts[i]);
    return extent;
  }

  unsigned char* Room(Arena& arena, const Call& call, size_t elements) {
    const size_t size = ElementSize(call.type);
    EXPECT_LE(elements * size + 3 * kGuard, kArena);
    return arena.Prepare(elements * size, call.shift * size);
  }
  static uint64_t Bits(const Call& call, int rank, uint64_t index) {
    return ElementBits(call.type, call.seed, rank, index);
  }
  // Elements [first, first + count) of a rank's data.
  static void Fill(Arena& arena, unsigned char* at, const Call& call, int rank, uint64_t first, size_t count) {
    const size_t size = ElementSize(call.type);
    for (size_t i = 0; i < count; ++i) arena.Put(at + i * size, call.type, Bits(call, rank, first + i));
  }
  static void ExpectData(Arena& arena, const unsigned char* at, const Call& call, int rank, uint64_t first,
                         size_t count) {
    const size_t size = ElementSize(call.type);
    for (size_t i = 0; i < count; ++i) arena.Expect(at + i * size, call.type, Bits(call, rank, first + i));
  }
  void ExpectReduced(Arena& arena, const unsigned char* at, const Call& call, uint64_t first, size_t count) const {
    const size_t size = ElementSize(call.type);
    std::vector<uint64_t> bits(n_ranks_);
    for (size_t i = 0; i < count; ++i) {
      for (int rank = 0; rank < n_ranks_; ++rank) bits[rank] = Bits(call, rank, first + i);
      arena.Expect(at + i * size, call.type, ReducedBits(call.type, call.reduction, bits));
    }
  }
  void Upload() const {
    send_->Upload();
    recv_->Upload();
  }
  // What an arena that the call does not use must keep.
  static void Leave(Arena& arena) { arena.Prepare(0, 0); }

  tcResult_t Scatter(const Call& call, const std::vector<size_t>& counts) {
    const std::vector<size_t> places = Places(call, counts, true);
    const size_t total = Extent(counts, places);
    unsigned char* const send = Room(*send_, call, total);
    Fill(*send_, send, call, rank_, 0, total);
    unsigned char* recv = send + places[rank_] * ElementSize(call.type);
    if (call.in_place) {
      Leave(*recv_);
    } else {
      recv = Room(*recv_, call, counts[rank_]);
    }
    ExpectReduced(call.in_place ? *send_ : *recv_, recv, call, places[rank_], counts[rank_]);
    Upload();
    return call.op == tcOpReduceScatter
               ? tcReduceScatter(send, recv, call.count, call.type, call.reduction, comm_, TestStream())
               : tcReduceScatterV(send, recv, counts.data(), call.type, call.reduction, comm_, TestStream());
  }

  tcResult_t AllReduce(const Call& call) {
    unsigned char* const recv = Room(*recv_, call, call.count);
    unsigned char* send = recv;
    if (call.in_place) {
      Leave(*send_);
    } else {
      send = Room(*send_, call, call.count);
    }
    Fill(call.in_place ? *recv_ : *send_, send, call, rank_, 0, call.count);
    ExpectReduced(*recv_, recv, call, 0, call.count);
    Upload();
    return tcAllReduce(send, recv, call.count, call.type, call.reduction, comm_, TestStream());
  }

  tcResult_t Broadcast(const Call& call) {
    unsigned char* const recv = Room(*recv_, call, call.count);
    unsigned char* send = call.in_place ? recv : nullptr;
    Leave(*send_);
    if (rank_ == call.root) {
      if (!call.in_place) send = Room(*send_, call, call.count);
      Fill(call.in_place ? *recv_ : *send_, send, call, rank_, 0, call.count);
    }
    ExpectData(*recv_, recv, call, call.root, 0, call.count);
    Upload();
    return tcBroadcast(send, recv, call.count, call.type, call.root, comm_, TestStream());
  }

  tcResult_t AllGatherV(const Call& call) {
    const std::vector<size_t> counts = Uneven(call);
    const bool packed = (call.seed + static_cast<uint64_t>(rank_)) % 2 == 0;  // ranks may differ in their places
    const std::vector<size_t> places = Places(call, counts, packed);
    unsigned char* const recv = Room(*recv_, call, Extent(counts, places));
    const auto place = [&](int rank) { return recv + places[rank] * ElementSize(call.type); };
    unsigned char* send = place(rank_);
    if (call.in_place) {
      Leave(*send_);
    } else {
      send = Room(*send_, call, counts[rank_]);
    }
    Fill(call.in_place ? *recv_ : *send_, send, call, rank_, 0, counts[rank_]);
    for (int rank = 0; rank < n_ranks_; ++rank) ExpectData(*recv_, place(rank), call, rank, 0, counts[rank]);
    Upload();
    return tcAllGatherV(send, recv, counts.data(), packed && call.seed % 4 < 2 ? nullptr : places.data(), call.type,
                        comm_, TestStream());
  }

  // Element i of the block for rank `to` is number to * kApart + i of its source.
  static constexpr uint64_t kApart = uint64_t{1} << 32;

  tcResult_t AllToAll(const Call& call) {
    const size_t block = call.count * ElementSize(call.type);
    unsigned char* const send = Room(*send_, call, call.count * n_ranks_);
    unsigned char* const recv = Room(*recv_, call, call.count * n_ranks_);
    for (int peer = 0; peer < n_ranks_; ++peer) {
      Fill(*send_, send + peer * block, call, rank_, peer * kApart, call.count);
      ExpectData(*recv_, recv + peer * block, call, peer, rank_ * kApart, call.count);
    }
    Upload();
    return tcAllToAll(send, recv, call.count, call.type, comm_, TestStream());
  }

  tcResult_t AllToAllV(const Call& call) {
    const size_t size = ElementSize(call.type);
    std::vector<size_t> sends(n_ranks_), receives(n_ranks_);
    for (int peer = 0; peer < n_ranks_; ++peer) {
      sends[peer] = CountOfPair(call, rank_, peer);
      receives[peer] = CountOfPair(call, peer, rank_);
    }
    const bool packed = (call.seed + static_cast<uint64_t>(rank_)) % 2 == 0;
    const std::vector<size_t> from = Places(call, sends, packed);
    const std::vector<size_t> to = Places(call, receives, packed);
    unsigned char* const send = Room(*send_, call, Extent(sends, from));
    unsigned char* const recv = Room(*recv_, call, Extent(receives, to));
    for (int peer = 0; peer < n_ranks_; ++peer) {
      Fill(*send_, send + from[peer] * size, call, rank_, peer * kApart, sends[peer]);
      ExpectData(*recv_, recv + to[peer] * size, call, peer, rank_ * kApart, receives[peer]);
    }
    const bool null = packed && call.seed % 4 < 2;
    Upload();
    return tcAllToAllV(send, sends.data(), null ? nullptr : from.data(), recv, receives.data(),
                       null ? nullptr : to.data(), call.type, comm_, TestStream());
  }

  const int rank_;
  const int n_ranks_;
  tcComm_t comm_;
  std::vector<unsigned char> host_;
  OnDevice plain_;
  unsigned char* registered_ = nullptr;
  tcWindow_t window_ = nullptr;
  std::unique_ptr<Arena> send_, recv_;
};

bool Reduces(tcOp_t op) { return op == tcOpReduceScatter || op == tcOpReduceScatterV || op == tcOpAllReduce; }

class Collectives : public ::testing::TestWithParam<std::tuple<Launch, int>> {
 protected:
  static Launch launch() { return std::get<0>(GetParam()); }
  static int n_ranks() { return std::get<1>(GetParam()); }
};

// Runs `op` in every type and reduction that it has, and in all sizes. Where the buffers lie, and whether it is in
// place, goes through all combinations from one call to the next.
void Sweep(Rank& rank, int n_ranks, tcOp_t op) {
  uint64_t seed = static_cast<uint64_t>(op);
  for (tcDataType_t type = tcInt8; type <= tcFloat8e5m2; ++type) {
    if (Reduces(op) && type >= tcFloat8e4m3) continue;
    for (const tcRedOp_t reduction : kReductions) {
      if (!Reduces(op) && reduction != tcSum) continue;
      const bool whole = op == tcOpAllReduce || op == tcOpBroadcast;  // count is not a block's but the operator's
      const size_t large = kWorkspace / ElementSize(type) * (whole ? 4 : 1) / 2 + 77;
      for (const size_t count : {size_t{0}, size_t{1}, size_t{7}, size_t{16}, size_t{1023}, size_t{1025}, large}) {
        // The slowest: a few stand for the others.
        const bool stands = (type == tcBfloat16 || type == tcFloat64) && (reduction == tcSum || reduction == tcMin);
        if (count == large && Reduces(op) && !stands) continue;
        if (count == large && op == tcOpAllToAllV && OnGpu()) continue;  // more than the workspace holds
        for (int variant = 0; variant < 2; ++variant) {
          ++seed;
          rank.Run({.op = op,
                    .type = type,
                    .reduction = reduction,
                    .root = static_cast<int>(seed) % n_ranks,
                    .count = count,
                    .seed = seed,
                    .in_place = variant == 1,
                    .where = static_cast<Where>(seed % 3),
                    .shift = seed / 3 % 4});
          if (::testing::Test::HasFailure()) return;
        }
      }
    }
  }
}

TEST_P(Collectives, AreExactInEveryTypeReductionSizeAndPlace) {
  RunRanks(
      launch(), n_ranks(),
      [n = n_ranks()](int rank, tcComm_t comm) {
        Rank buffers(rank, n, comm);
        for (tcOp_t op = tcOpReduceScatter; op <= tcOpAllToAllV; ++op) Sweep(buffers, n, op);
      },
      SmallWorkspace());
}

TEST_P(Collectives, StayExactInARandomOrderWithRandomDelays) {
  RunRanks(
      launch(), n_ranks(),
      [n = n_ranks()](int rank, tcComm_t comm) {
        Rank buffers(rank, n, comm);
        std::mt19937 common(static_cast<unsigned>(n));  // the same calls on every rank
        std::mt19937 own(static_cast<unsigned>(rank));  // delays of its own
        for (int round = 0; round < 300 && !HasFailure(); ++round) {
          Call call;
          call.op = tcOpBarrier + static_cast<int>(common() % 9);
          if (call.op == tcOpAllGather) call.op = tcOpAllReduce;
          call.type = static_cast<tcDataType_t>(common() % (Reduces(call.op) ? 10 : 12));
          call.reduction = static_cast<tcRedOp_t>(common() % 5);
          call.root = static_cast<int>(common()) & 0xff;
          call.root %= n;
          call.count = common() % (common() % 8 == 0 ? 9000 : 300);
          call.seed = static_cast<uint64_t>(round) + 1;
          call.in_place = common() % 2 == 0;
          call.where = static_cast<Where>(common() % 3);
          call.shift = common() % 4;
          if (own() % 16 == 0) std::this_thread::sleep_for(std::chrono::microseconds(own() % 300));
          if (call.op == tcOpBarrier) {
            TC_EXPECT_OK(tcBarrier(comm, TestStream()));
          } else {
            buffers.Run(call);
          }
        }
        TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
      },
      SmallWorkspace());
}

TEST_P(Collectives, AreExactInManyChunks) {
  RunRanks(launch(), n_ranks(), [n = n_ranks()](int rank, tcComm_t comm) {
    Rank buffers(rank, n, comm);
    uint64_t seed = 0;
    for (tcOp_t op = tcOpReduceScatter; op <= tcOpAllToAllV; ++op) {
      for (const Where where : {Where::kPlain, Where::kWindow}) {
        const size_t count = op == tcOpAllReduce ? 400'009 : kArena / 8 / n - 100;
        buffers.Run(
            {.op = op, .type = tcFloat64, .count = count, .seed = ++seed, .in_place = seed % 4 < 2, .where = where});
      }
    }
  });
}

INSTANTIATE_TEST_SUITE_P(Threads, Collectives,
                         ::testing::Combine(::testing::Values(Launch::kThreads), ::testing::Values(1, 2, 3, 4, 5, 8)),
                         [](const auto& param) { return std::to_string(std::get<1>(param.param)); });
INSTANTIATE_TEST_SUITE_P(Processes, Collectives,
                         ::testing::Combine(::testing::Values(Launch::kProcesses), ::testing::Values(2, 3)),
                         [](const auto& param) { return std::to_string(std::get<1>(param.param)); });

class CollectivesContract : public ::testing::Test {
 protected:
  void SetUp() override {
    tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  }
  void TearDown() override { tcSetLogCallback(nullptr, nullptr); }
};

// An all-reduce by every algorithm, and as a reduce-scatter and an all-gather, gives the same bits; nobody waits for
// one operator before the next is enqueued.
TEST_F(CollectivesContract, EveryWayToAllReduceGivesTheSameBits) {
  constexpr int kRanks = 4;
  constexpr size_t kCount = 30'000;  // a multiple of kRanks; two shots, several slabs
  RunRanks(
      Launch::kThreads, kRanks,
      [](int rank, tcComm_t comm) {
        for (const tcDataType_t type : {tcFloat32, tcBfloat16, tcFloat16}) {
          const size_t size = ElementSize(type);
          std::vector<unsigned char> data(kCount * size), whole_data(data), parts_data(data), pieces_data(data);
          for (size_t i = 0; i < kCount; ++i) StoreElement(&data[i * size], type, ElementBits(type, 5, rank, i));
          OnDevice send(comm, data.data(), data.size()), whole(comm, whole_data.data(), data.size()),
              parts(comm, parts_data.data(), data.size()), pieces(comm, pieces_data.data(), data.size());
          Rendezvous();
          const auto at = [&](const OnDevice& buffer, size_t element) {
            return static_cast<unsigned char*>(buffer.get()) + element * size;
          };
          constexpr size_t kBlock = kCount / kRanks;
          unsigned char* const own = at(parts, rank * kBlock);
          TC_EXPECT_OK(tcAllReduce(send.get(), whole.get(), kCount, type, tcSum, comm, TestStream()));
          TC_EXPECT_OK(tcReduceScatter(send.get(), own, kBlock, type, tcSum, comm, TestStream()));
          TC_EXPECT_OK(tcAllGather(own, parts.get(), kBlock, type, comm, TestStream()));
          for (size_t first = 0; first < kCount; first += 1000) {  // in one shot each
            TC_EXPECT_OK(tcAllReduce(at(send, first), at(pieces, first), 1000, type, tcSum, comm, TestStream()));
          }
          TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
          for (OnDevice* buffer : {&whole, &parts, &pieces}) buffer->Fetch();
          EXPECT_TRUE(whole_data == parts_data);
          EXPECT_TRUE(whole_data == pieces_data);
          Rendezvous();
        }
      },
      SmallWorkspace());
}

// `call` differs between the ranks: all fail with a sentence that has all the words, and the recvbuff is untouched.
template <class Differing>
void ExpectMismatch(const Differing& call, const std::vector<std::string>& words) {
  RunRanks(
      Launch::kThreads, 3,
      [&](int rank, tcComm_t comm) {
        std::vector<float> ones(30'000, 1.0f), result(30'000);
        OnDevice send(comm, ones.data(), ones.size() * 4), recv(comm, result.data(), result.size() * 4);
        Rendezvous();
        for (int round = 0; round < 2; ++round) {
          std::fill(result.begin(), result.end(), 7.0f);
          recv.Upload();
          TC_EXPECT_OK(call(rank, static_cast<float*>(send.get()), static_cast<float*>(recv.get()), comm));
          EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcInvalidUsage);
          const std::string said = tcGetLastError(comm);
          for (const std::string& word : words) EXPECT_NE(said.find(word), std::string::npos) << said;
          recv.Fetch();
          EXPECT_TRUE(result == std::vector<float>(result.size(), 7.0f));
          TC_EXPECT_OK(tcAllReduce(send.get(), recv.get(), 10, tcFloat32, tcSum, comm, TestStream()));
          TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
          recv.Fetch();
          EXPECT_EQ(result[9], 3.0f);
        }
        Rendezvous();
      },
      SmallWorkspace());
}

TEST_F(CollectivesContract, RanksThatDisagreeAreToldBothShapes) {
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllReduce(send, recv, rank == 1 ? 6 : 5, tcFloat32, tcSum, comm, TestStream());
      },
      {"tcAllReduce(count=5, float, sum)", "rank 1", "tcAllReduce(count=6, float, sum)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllReduce(send, recv, 20'000, tcFloat32, rank == 2 ? tcMax : tcSum, comm, TestStream());
      },
      {"float, sum)", "rank 2", "float, max)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcReduceScatter(send, recv, 9000, rank == 0 ? tcInt32 : tcFloat32, tcProd, comm, TestStream());
      },
      {"tcReduceScatter(count=9000, int32, prod)", "tcReduceScatter(count=9000, float, prod)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcBroadcast(send, recv, 20'000, tcFloat32, rank == 2 ? 1 : 0, comm, TestStream());
      },
      {"tcBroadcast(count=20000, float, root=0)", "rank 2", "root=1)"});
  ExpectMismatch(
      [](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllToAll(send, recv, rank == 1 ? 9000 : 3, tcFloat32, comm, TestStream());
      },
      {"tcAllToAll(count=3, float)", "tcAllToAll(count=9000, float)"});
  const size_t even[] = {4, 4, 4};
  const size_t uneven[] = {4, 5, 3};
  ExpectMismatch(
      [&](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcAllGatherV(send, recv, rank == 2 ? uneven : even, nullptr, tcFloat32, comm, TestStream());
      },
      {"tcAllGatherV(count=12, float)", "with other counts"});
  ExpectMismatch(
      [&](int rank, const float* send, float* recv, tcComm_t comm) {
        return tcReduceScatterV(send, recv, rank == 0 ? uneven : even, tcFloat32, tcMin, comm, TestStream());
      },
      {"tcReduceScatterV(count=12, float, min)", "with other counts"});
  ExpectMismatch(
      [&](int rank, const float* send, float* recv, tcComm_t comm) {
        return rank == 0 ? tcAllReduce(send, recv, 4, tcFloat32, tcSum, comm, TestStream())
                         : tcAllToAllV(send, even, nullptr, recv, even, nullptr, tcFloat32, comm, TestStream());
      },
      {"tcAllReduce(count=4, float, sum)", "tcAllToAllV(float)"});
}

TEST_F(CollectivesContract, PairsThatDisagreeOnAnAllToAllVAreNamedWithTheirCounts) {
  for (const size_t wrong : {size_t{0}, size_t{9}, size_t{9000}}) {  // less and more than is sent, by slabs even
    ExpectMismatch(
        [&](int rank, const float* send, float* recv, tcComm_t comm) {
          const size_t sends[] = {4, 4, 4};
          const size_t receives[] = {4, rank == 2 ? wrong : 4, 4};
          return tcAllToAllV(send, sends, nullptr, recv, receives, nullptr, tcFloat32, comm, TestStream());
        },
        {"rank 1", "sendcounts[2] = 4", "rank 2", "recvcounts[1] = " + std::to_string(wrong)});
  }
}

TEST_F(CollectivesContract, BadArgumentsAreRefusedWithASentenceAndHarmNothing) {
  RunRanks(Launch::kThreads, 1, [](int, tcComm_t comm) {
    std::vector<float> a(64), b(64);
    OnDevice send(comm, a.data(), a.size() * 4), recv(comm, b.data(), b.size() * 4);
    auto* const x = static_cast<float*>(send.get());
    auto* const y = static_cast<float*>(recv.get());
    auto* const odd = reinterpret_cast<float*>(reinterpret_cast<char*>(y) + 1);
    constexpr tcDataType_t kType = tcFloat32;
    constexpr size_t kHuge = SIZE_MAX / 2;
    const size_t four[] = {4};
    const size_t huge[] = {kHuge};
    const size_t three[] = {3};
    EXPECT_FAILS(tcReduceScatter(nullptr, y, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument,
                 "sendbuff is NULL");
    EXPECT_FAILS(tcReduceScatter(x, nullptr, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument,
                 "recvbuff is NULL");
    EXPECT_FAILS(tcReduceScatter(x, odd, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "misaligned");
    EXPECT_FAILS(tcReduceScatter(x, x + 1, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcReduceScatter(x, y, 4, kType, 5, comm, TestStream()), tcInvalidArgument, "op 5");
    EXPECT_FAILS(tcReduceScatter(x, y, kHuge, kType, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcReduceScatterV(x, y, nullptr, kType, tcSum, comm, TestStream()), tcInvalidArgument,
                 "recvcounts is NULL");
    EXPECT_FAILS(tcReduceScatterV(x, y, huge, kType, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcReduceScatterV(x, x + 1, four, kType, tcSum, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllReduce(x, nullptr, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "recvbuff is NULL");
    EXPECT_FAILS(tcAllReduce(odd, x, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "misaligned");
    EXPECT_FAILS(tcAllReduce(x, x + 3, 4, kType, tcSum, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllReduce(x, y, 4, kType, -1, comm, TestStream()), tcInvalidArgument, "op -1");
    EXPECT_FAILS(tcAllReduce(x, y, 4, 12, tcSum, comm, TestStream()), tcInvalidArgument, "type 12");
    EXPECT_FAILS(tcAllReduce(x, y, kHuge, kType, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcAllReduce(x, y, 4, tcFloat8e4m3, tcSum, comm, TestStream()), tcUnsupported, "fp8_e4m3");
    EXPECT_FAILS(tcBroadcast(nullptr, y, 4, kType, 0, comm, TestStream()), tcInvalidArgument, "sendbuff is NULL");
    EXPECT_FAILS(tcBroadcast(x, nullptr, 4, kType, 0, comm, TestStream()), tcInvalidArgument, "recvbuff is NULL");
    EXPECT_FAILS(tcBroadcast(x, y, 4, kType, 1, comm, TestStream()), tcInvalidArgument, "root is 1");
    EXPECT_FAILS(tcBroadcast(x, y, 4, kType, -1, comm, TestStream()), tcInvalidArgument, "root is -1");
    EXPECT_FAILS(tcBroadcast(x + 1, x, 4, kType, 0, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllToAll(x, x, 4, kType, comm, TestStream()), tcInvalidArgument, "no all-to-all in place");
    EXPECT_FAILS(tcAllToAll(nullptr, x, 4, kType, comm, TestStream()), tcInvalidArgument, "sendbuff is NULL");
    EXPECT_FAILS(tcAllToAll(x, y, kHuge, kType, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcAllGatherV(x, y, nullptr, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "recvcounts is NULL");
    EXPECT_FAILS(tcAllGatherV(x, y, four, huge, kType, comm, TestStream()), tcInvalidArgument, "address");
    EXPECT_FAILS(tcAllGatherV(x, x + 1, four, nullptr, kType, comm, TestStream()), tcInvalidArgument, "in place");
    EXPECT_FAILS(tcAllGatherV(nullptr, y, four, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "sendbuff is NULL");
    EXPECT_FAILS(tcAllToAllV(x, nullptr, nullptr, y, four, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "sendcounts is NULL");
    EXPECT_FAILS(tcAllToAllV(x, four, nullptr, y, nullptr, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "recvcounts is NULL");
    EXPECT_FAILS(tcAllToAllV(x, four, nullptr, y, three, nullptr, kType, comm, TestStream()), tcInvalidArgument,
                 "itself");
    EXPECT_FAILS(tcAllToAllV(x, four, nullptr, x, four, three, kType, comm, TestStream()), tcInvalidArgument,
                 "overlaps");
    constexpr size_t kBeyond = size_t{1} << 61;  // more bytes than an address space has, and less than 2^63
    EXPECT_FAILS(tcAllReduce(x, x, kBeyond, tcInt8, tcSum, comm, TestStream()), tcInvalidArgument, "address");
    const size_t far[] = {kBeyond};
    EXPECT_FAILS(tcAllGatherV(x, y, four, far, tcInt8, comm, TestStream()), tcInvalidArgument, "displs[0]");
    const size_t none[] = {0};
    TC_EXPECT_OK(tcAllGatherV(x, y, none, far, kType, comm, TestStream()));  // where nothing goes does not matter
    tcResult_t state = tcInternalError;
    TC_EXPECT_OK(tcCommGetAsyncError(comm, &state));
    EXPECT_EQ(state, tcSuccess);
    a[3] = 5;
    send.Upload();
    TC_EXPECT_OK(tcAllReduce(x, y, 4, kType, tcAvg, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    recv.Fetch();
    EXPECT_EQ(b[3], 5);
  });
}

TEST_F(CollectivesContract, BlocksOfOneBufferMayShareWhatIsReadAndNothingThatIsWritten) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    std::vector<int32_t> pair{rank, rank + 10}, result(4, -1);
    OnDevice send(comm, pair.data(), pair.size() * 4), recv(comm, result.data(), result.size() * 4);
    Rendezvous();
    const size_t counts[] = {2, 2};
    const size_t same[] = {0, 0};
    const size_t shared[] = {0, 1};
    TC_EXPECT_OK(tcAllToAllV(send.get(), counts, same, recv.get(), counts, nullptr, tcInt32, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    recv.Fetch();
    EXPECT_EQ(result, (std::vector<int32_t>{0, 10, 1, 11}));
    EXPECT_FAILS(tcAllToAllV(send.get(), counts, same, recv.get(), counts, shared, tcInt32, comm, TestStream()),
                 tcInvalidArgument, "ranks 0 and 1 overlap");
    EXPECT_FAILS(tcAllGatherV(send.get(), recv.get(), counts, shared, tcInt32, comm, TestStream()), tcInvalidArgument,
                 "ranks 0 and 1 overlap");
    Rendezvous();
  });
}

// Empty blocks need no buffers.
TEST_F(CollectivesContract, EmptyOperatorsSucceedAndCount) {
  RunRanks(Launch::kThreads, 3, [](int, tcComm_t comm) {
    const size_t none[] = {0, 0, 0};
    TC_EXPECT_OK(tcReduceScatter(nullptr, nullptr, 0, tcFloat16, tcSum, comm, TestStream()));
    TC_EXPECT_OK(tcReduceScatterV(nullptr, nullptr, none, tcFloat16, tcSum, comm, TestStream()));
    TC_EXPECT_OK(tcAllReduce(nullptr, nullptr, 0, tcFloat16, tcAvg, comm, TestStream()));
    TC_EXPECT_OK(tcBroadcast(nullptr, nullptr, 0, tcFloat16, 2, comm, TestStream()));
    TC_EXPECT_OK(tcAllToAll(nullptr, nullptr, 0, tcFloat16, comm, TestStream()));
    TC_EXPECT_OK(tcAllGatherV(nullptr, nullptr, none, nullptr, tcFloat16, comm, TestStream()));
    TC_EXPECT_OK(tcAllToAllV(nullptr, none, nullptr, nullptr, none, nullptr, tcFloat16, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    tcCommStats_t stats;
    TC_COMM_STATS_INIT(&stats);
    TC_EXPECT_OK(tcCommGetStats(comm, &stats));
    EXPECT_EQ(stats.ops, 7u);
    EXPECT_EQ(stats.bytesSent, 0u);
  });
}

TEST_F(CollectivesContract, OpSupportedKnowsThem) {
  RunRanks(Launch::kThreads, 2, [](int, tcComm_t comm) {
    tcOpDesc_t desc;
    TC_OP_DESC_INIT(&desc);
    desc.count = 5;
    for (tcOp_t op = tcOpAllGather; op <= tcOpAllToAllV; ++op) {
      desc.op = op;
      desc.type = tcBfloat16;
      TC_EXPECT_OK(tcOpSupported(comm, &desc));
      desc.type = tcFloat8e5m2;
      EXPECT_EQ(tcOpSupported(comm, &desc), Reduces(op) ? tcUnsupported : tcSuccess) << op;
    }
    desc.op = tcOpAllReduce;
    desc.type = tcInt64;
    desc.redOp = 9;
    EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "op 9");
    desc.op = tcOpBroadcast;
    desc.root = 2;
    EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "root is 2");
    desc.root = 1;
    desc.count = SIZE_MAX / 4;
    EXPECT_FAILS(tcOpSupported(comm, &desc), tcInvalidArgument, "address");
  });
}

TEST_F(CollectivesContract, ACallThatOneRankRefusesFailsOnAllWithItsSentence) {
  RunRanks(Launch::kThreads, 3, [](int rank, tcComm_t comm) {
    const size_t counts[] = {2, 2, 2};
    std::vector<float> ones(16, 1.0f), result(16);
    OnDevice send(comm, ones.data(), ones.size() * 4), recv(comm, result.data(), result.size() * 4);
    Rendezvous();
    const tcResult_t called = tcAllToAllV(send.get(), rank == 1 ? nullptr : counts, nullptr, recv.get(), counts,
                                          nullptr, tcFloat32, comm, TestStream());
    EXPECT_EQ(called, rank == 1 ? tcInvalidArgument : tcSuccess);
    EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), rank == 1 ? tcSuccess : tcInvalidArgument);
    EXPECT_NE(std::string(tcGetLastError(comm)).find("sendcounts is NULL"), std::string::npos) << tcGetLastError(comm);
    TC_EXPECT_OK(tcAllReduce(send.get(), recv.get(), 16, tcFloat32, tcSum, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    recv.Fetch();
    EXPECT_EQ(result[15], 3.0f);
    Rendezvous();
  });
}

TEST_F(CollectivesContract, AWorkspaceThatIsTooSmallIsUnsupportedOnEveryRank) {
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 512;
  RunRanks(
      Launch::kThreads, 2,
      [](int, tcComm_t comm) {
        const size_t counts[] = {2, 2};
        std::vector<float> ones(4096, 1.0f), result(4096);
        OnDevice send(comm, ones.data(), ones.size() * 4), recv(comm, result.data(), result.size() * 4);
        Rendezvous();
        EXPECT_FAILS(
            tcAllToAllV(send.get(), counts, nullptr, recv.get(), counts, nullptr, tcFloat32, comm, TestStream()),
            tcUnsupported, "workspace of 512 bytes");
        TC_EXPECT_OK(tcAllReduce(send.get(), recv.get(), 4096, tcFloat32, tcSum, comm, TestStream()));
        TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
        recv.Fetch();
        EXPECT_EQ(result[4095], 2.0f);
        Rendezvous();
      },
      config);
}

}  // namespace
}  // namespace tc::test
