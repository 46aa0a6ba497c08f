// The plain collectives where their data is: inputs are generated and results checked on the GPU, all bytes of both
// buffers with guard zones and gaps. TC_PLANE chooses who moves the data. Without TC_TEST_BACKEND=cuda the same cases
// run on the host backend.
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <string>
#include <vector>

#include "allocations.h"
#include "cases.h"
#include "graph.h"
#include "ranks.h"

namespace tc::test {
namespace {

constexpr tcOp_t kFirstOp = tcOpAllGather, kLastOp = tcOpAllToAllV;

// What checks have found. All zeros: nothing yet.
struct Verdict {
  unsigned long long checked;   // cells
  unsigned long long wrong;     // cells
  unsigned long long nearness;  // the complement of the first wrong cell's number
};

__global__ void FillCells(const __grid_constant__ Buffers buffers) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  for (uint64_t cell = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; cell < buffers.cells(); cell += stride) {
    buffers.Fill(cell);
  }
}

// With whole warps.
__global__ void CheckCells(const __grid_constant__ Buffers buffers, Verdict* verdict) {
  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  Verdict mine{};
  for (uint64_t cell = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; cell < buffers.cells(); cell += stride) {
    ++mine.checked;
    if (buffers.IsRight(cell)) continue;
    if (mine.wrong++ == 0) mine.nearness = ~cell;
  }
  for (int apart = 16; apart > 0; apart /= 2) mine.checked += __shfl_down_sync(~0u, mine.checked, apart);
  if (threadIdx.x % 32 == 0 && mine.checked > 0) atomicAdd(&verdict->checked, mine.checked);
  if (mine.wrong == 0) return;
  atomicAdd(&verdict->wrong, mine.wrong);
  atomicMax(&verdict->nearness, mine.nearness);
}

__global__ void Advance(uint64_t* round) { ++*round; }

// A rank's buffers: two of plain memory and, if wanted, two in a window that begins at an odd place of its allocation.
class Rooms {
 public:
  Rooms(tcComm_t comm, size_t send_bytes, size_t recv_bytes, bool registered) : comm_(comm) {
    const size_t bytes[] = {send_bytes, recv_bytes};
    for (int buffer : {kSend, kRecv}) {
      if (OnGpu()) {
        CUDA_EXPECT_OK(cudaMalloc(&plain_[buffer], bytes[buffer]));
      } else {
        plain_[buffer] = static_cast<unsigned char*>(std::aligned_alloc(kAlignment, RoundUp(bytes[buffer])));
      }
    }
    if (registered) {
      void* memory = nullptr;
      const size_t whole = kAlignment + RoundUp(send_bytes) + recv_bytes;
      TC_EXPECT_OK(tcMemAlloc(&memory, whole));
      allocation_ = static_cast<unsigned char*>(memory);
      TC_EXPECT_OK(tcCommRegister(comm, allocation_ + kWindowAt, whole - kWindowAt, &window_));
      registered_[kSend] = allocation_ + kAlignment;
      registered_[kRecv] = registered_[kSend] + RoundUp(send_bytes);
    }
    capacity_ = std::max(send_bytes, recv_bytes);
  }
  ~Rooms() {
    Rendezvous();  // no operator waits while somebody frees
    if (window_ != nullptr) {
      TC_EXPECT_OK(tcCommDeregister(comm_, window_));
      TC_EXPECT_OK(tcMemFree(allocation_));
    }
    for (unsigned char* each : plain_) {
      if (OnGpu()) {
        CUDA_EXPECT_OK(cudaFree(each));
      } else {
        std::free(each);
      }
    }
  }
  Rooms(const Rooms&) = delete;
  Rooms& operator=(const Rooms&) = delete;

  size_t capacity() const { return capacity_; }
  unsigned char* const (&Of(Where where, int rank) const)[2] {
    return IsRegistered(where, rank) ? registered_ : plain_;
  }

 private:
  static constexpr size_t kAlignment = 512;
  static constexpr size_t kWindowAt = 72;  // of the allocation
  static size_t RoundUp(size_t bytes) { return (bytes + kAlignment - 1) / kAlignment * kAlignment; }

  tcComm_t comm_;
  unsigned char* plain_[2] = {};
  unsigned char* registered_[2] = {};
  unsigned char* allocation_ = nullptr;
  tcWindow_t window_ = nullptr;
  size_t capacity_;
};

// Verdicts in memory of the device, or of the host on the host backend.
class Verdicts {
 public:
  static constexpr int kCount = 64;

  Verdicts() {
    if (OnGpu()) {
      CUDA_EXPECT_OK(cudaMalloc(&device_, sizeof(Verdict) * kCount));
      CUDA_EXPECT_OK(cudaHostAlloc(&host_, sizeof(Verdict) * kCount, cudaHostAllocDefault));
    } else {
      device_ = host_ = new Verdict[kCount]{};
    }
  }
  ~Verdicts() {
    if (OnGpu()) {
      CUDA_EXPECT_OK(cudaFree(device_));
      CUDA_EXPECT_OK(cudaFreeHost(host_));
    } else {
      delete[] host_;
    }
  }
  Verdicts(const Verdicts&) = delete;
  Verdicts& operator=(const Verdicts&) = delete;

  Verdict* at(int i) const { return device_ + i; }
  // Both in the order of the stream. Fetched ones are there once it has been synchronized.
  void Clear(tcStream_t stream) {
    if (OnGpu()) {
      CUDA_EXPECT_OK(cudaMemsetAsync(device_, 0, sizeof(Verdict) * kCount, stream));
    } else {
      std::fill_n(host_, kCount, Verdict{});
    }
  }
  void Fetch(tcStream_t stream) {
    if (!OnGpu()) return;
    CUDA_EXPECT_OK(cudaMemcpyAsync(host_, device_, sizeof(Verdict) * kCount, cudaMemcpyDeviceToHost, stream));
  }
  const Verdict& fetched(int i) const { return host_[i]; }

 private:
  Verdict* device_ = nullptr;
  Verdict* host_ = nullptr;
};

// Fills and checks in the order of the stream: by kernels on a GPU, by loops on the host backend.
class Executor {
 public:
  Executor(tcComm_t comm, tcStream_t stream) : comm_(comm), stream_(stream) {
    if (!OnGpu()) return;
    // CUDA loads kernels when they are first used, and may wait for the device to be idle: before operators run.
    FillCells<<<1, kThreads, 0, stream>>>(Buffers{});
    CheckCells<<<1, kThreads, 0, stream>>>(Buffers{}, nullptr);
    CUDA_EXPECT_OK(cudaStreamSynchronize(stream));
  }

  void Fill(const Buffers& buffers) const {
    if (OnGpu()) {
      FillCells<<<Blocks(buffers), kThreads, 0, stream_>>>(buffers);
      return;
    }
    for (uint64_t cell = 0; cell < buffers.cells(); ++cell) buffers.Fill(cell);
  }
  void Check(const Buffers& buffers, Verdict* verdict) const {
    if (OnGpu()) {
      CheckCells<<<Blocks(buffers), kThreads, 0, stream_>>>(buffers, verdict);
      return;
    }
    TC_EXPECT_OK(tcStreamSynchronize(comm_, stream_));
    verdict->checked += buffers.cells();
    for (uint64_t cell = buffers.cells(); cell-- > 0;) {
      if (buffers.IsRight(cell)) continue;
      ++verdict->wrong;
      verdict->nearness = ~cell;
    }
  }

 private:
  static constexpr unsigned kThreads = 256;
  static unsigned Blocks(const Buffers& buffers) {
    return static_cast<unsigned>(std::min<uint64_t>((buffers.cells() + kThreads - 1) / kThreads, 2048));
  }

  tcComm_t comm_;
  tcStream_t stream_;
};

// For ranks that share a GPU: what threads launch there at the same moment may come to stand behind each other, also
// behind an operator that waits for it.
std::unique_lock<std::mutex> LockLaunches() {
  static std::mutex launching[64];
  if (!OnGpu()) return {};
  int device = 0;
  CUDA_EXPECT_OK(cudaGetDevice(&device));
  return std::unique_lock(launching[device]);
}

// What an epoch puts into a stream, at most: around copies it is not one launch.
size_t LaunchesOfAnEpoch(int n_ranks) {
  const char* const plane = std::getenv("TC_PLANE");
  return plane != nullptr && std::string(plane) == "copy_engine" ? static_cast<size_t>(n_ranks) + 1 : 1;
}

// Runs cases one after the other on one rank. Nothing waits until a batch of verdicts is full, or so many slabs are
// queued that a launch might have to wait, which holds up all ranks of the GPU.
class Sweep {
 public:
  Sweep(int rank, int n_ranks, tcComm_t comm, const Rooms& rooms, size_t workspace_bytes = TestConfig().workspaceBytes)
      : rank_(rank),
        n_ranks_(n_ranks),
        comm_(comm),
        rooms_(rooms),
        most_queued_bytes_(64 * workspace_bytes),
        most_queued_(Verdicts::kCount / LaunchesOfAnEpoch(n_ranks)),
        executor_(comm, TestStream()) {
    verdicts_.Clear(TestStream());
    Rendezvous();
  }
  ~Sweep() { Rendezvous(); }  // no operator waits while somebody frees

  // The same on every rank. Says nothing of cases whose operator the backend does not have at all.
  void Run(const std::vector<Case>& cases) {
    const auto start = std::chrono::steady_clock::now();
    for (const Case& each : cases) {
      if (Has(each.op)) Enqueue(each);
    }
    Collect();
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    std::printf("rank %d of %d: %zu cases, %zu wrong, %.1f GB checked, %.2f s\n", rank_, n_ranks_, cases_, wrong_,
                static_cast<double>(bytes_) / 1e9, seconds.count());
    EXPECT_GT(cases_, 0u);
    EXPECT_EQ(wrong_, 0u);
  }

  // Whether the operator runs. It is a failure when the backend has it, but not as it is asked for.
  bool Has(tcOp_t op) {
    int8_t& known = has_[op];
    if (known == kUnknown) {
      tcOpDesc_t desc;
      TC_OP_DESC_INIT(&desc);
      desc.op = op;
      desc.type = tcFloat32;
      desc.count = 1;
      known = tcOpSupported(comm_, &desc) != tcUnsupported;
      const std::string why = known == 1 ? "" : tcGetLastError(nullptr);
      if (rank_ == 0 && known == 0) std::printf("left out: %s\n", why.c_str());
      EXPECT_TRUE(known == 1 || why.find("not built yet") != std::string::npos) << why;
    }
    return known == 1;
  }

 private:
  void Enqueue(const Case& which) {
    if (failed_) return;
    const Plan plan(which, rank_, n_ranks_, rooms_.Of(which.where, rank_));
    if (plan.Room() > rooms_.capacity()) {
      failed_ = true;  // on this rank alone, perhaps: the others' waits have limits
      FAIL() << "no room for " << Describe(which);
    }
    std::unique_lock<std::mutex> lock = LockLaunches();
    executor_.Fill(plan.before());
    const tcResult_t called = plan.Call(comm_, TestStream());
    if (called != tcSuccess) {
      failed_ = true;
      FAIL() << "rank " << rank_ << ", " << Describe(which) << ": " << called << ", " << tcGetLastError(nullptr);
    }
    executor_.Check(plan.after(), verdicts_.at(static_cast<int>(batch_.size())));
    if (lock) lock.unlock();
    batch_.push_back({which, plan.after().cells(), plan.after().pictures[kSend].cells, plan.size()});
    queued_bytes_ += plan.after().cells() * plan.size();
    if (batch_.size() == most_queued_ || queued_bytes_ > most_queued_bytes_) Collect();
  }

  void Collect() {
    {
      const auto lock = LockLaunches();
      verdicts_.Fetch(TestStream());
    }
    const tcResult_t synchronized = tcStreamSynchronize(comm_, TestStream());
    if (synchronized != tcSuccess) {
      failed_ = true;
      ADD_FAILURE() << "rank " << rank_ << ", a batch that ends with "
                    << (batch_.empty() ? "nothing" : Describe(batch_.back().which)) << ": " << synchronized << ", "
                    << tcGetLastError(comm_);
    }
    for (size_t i = 0; i < batch_.size() && !failed_; ++i) Judge(batch_[i], verdicts_.fetched(static_cast<int>(i)));
    {
      const auto lock = LockLaunches();
      verdicts_.Clear(TestStream());
    }
    batch_.clear();
    queued_bytes_ = 0;
  }

  struct Enqueued {
    Case which;
    uint64_t cells, send_cells;
    size_t size;
  };

  void Judge(const Enqueued& enqueued, const Verdict& verdict) {
    ++cases_;
    bytes_ += enqueued.cells * enqueued.size;
    if (verdict.wrong == 0 && verdict.checked == enqueued.cells) return;
    constexpr size_t kShown = 10;
    if (++wrong_ > kShown) return;
    const uint64_t first = ~static_cast<uint64_t>(verdict.nearness);
    const bool in_recv = first >= enqueued.send_cells;
    ADD_FAILURE() << "rank " << rank_ << " of " << n_ranks_ << ", " << Describe(enqueued.which) << ": " << verdict.wrong
                  << " of " << verdict.checked << " cells wrong (" << enqueued.cells << " to check), first cell "
                  << (in_recv ? first - enqueued.send_cells : first) << " of " << (in_recv ? "recvbuff" : "sendbuff")
                  << ", behind a guard zone of " << kGuardBytes / enqueued.size << " cells";
  }

  static constexpr int8_t kUnknown = -1;

  const int rank_, n_ranks_;
  tcComm_t comm_;
  const Rooms& rooms_;
  const size_t most_queued_bytes_, most_queued_;
  Executor executor_;
  Verdicts verdicts_;
  std::vector<Enqueued> batch_;
  size_t queued_bytes_ = 0;
  std::vector<int8_t> has_ = std::vector<int8_t>(kLastOp + 1, kUnknown);
  bool failed_ = false;
  size_t cases_ = 0, wrong_ = 0, bytes_ = 0;
};

// Every collective with every type and reduction that it has.
template <class Visit>
void ForEachKind(const Visit& visit) {
  for (tcOp_t op = kFirstOp; op <= kLastOp; ++op) {
    for (tcDataType_t type = tcInt8; type <= (Reduces(op) ? tcBfloat16 : tcFloat8e5m2); ++type) {
      for (tcRedOp_t reduction = tcSum; reduction <= (Reduces(op) ? tcAvg : tcSum); ++reduction) {
        visit(Case{.op = op, .type = type, .reduction = reduction});
      }
    }
  }
}

// Every way that a case's buffers may lie.
std::vector<Case> WaysToLie(const Case& kind) {
  std::vector<Case> ways;
  for (const bool in_place : {false, true}) {
    if (in_place && !MayBeInPlace(kind.op)) continue;
    for (const bool misaligned : {false, true}) {
      for (const Where where : {Where::kPlain, Where::kRegistered, Where::kMixed}) {
        ways.push_back(kind);
        ways.back().in_place = in_place;
        ways.back().misaligned = misaligned;
        ways.back().where = where;
      }
    }
  }
  return ways;
}

// Numbers the cases: other data in each, and each rank the root in turn.
void Append(Case which, int n_ranks, std::vector<Case>* cases) {
  which.seed = cases->size() + 1;
  which.root = static_cast<int>(which.seed) % n_ranks;
  cases->push_back(which);
}

// The host backend shows that the cases are right, for which fewer elements do.
size_t Large() { return OnGpu() ? size_t{1} << 20 : size_t{1} << 13; }
size_t Huge() { return OnGpu() ? size_t{64} << 20 : size_t{1} << 16; }
size_t RoomBytes(int n_ranks) { return std::max(Huge() * 4, Large() * 8 * n_ranks) + (size_t{1} << 16); }

std::vector<Case> SmallCases(int n_ranks) {
  std::vector<Case> cases;
  ForEachKind([&](const Case& kind) {
    for (const size_t count : {0, 1, 7, 16, 1023, 1025}) {
      for (Case each : WaysToLie(kind)) {
        each.count = count;
        Append(each, n_ranks, &cases);
      }
    }
  });
  return cases;
}

// Two ways each, which go through all of them from one kind to the next.
std::vector<Case> LargeCases(int n_ranks) {
  std::vector<Case> cases;
  size_t turn = 0;
  ForEachKind([&](const Case& kind) {
    const std::vector<Case> ways = WaysToLie(kind);
    for (const size_t count : {Large() - 3, Large() + 3}) {
      for (int i = 0; i < 2; ++i) {
        Case each = ways[turn++ * 5 % ways.size()];  // 5 and the number of ways have no common divisor
        each.count = count;
        Append(each, n_ranks, &cases);
      }
    }
  });
  return cases;
}

// 64 M elements that each operator moves or reduces, those of all blocks together.
std::vector<Case> HugeCases(int n_ranks) {
  std::vector<Case> cases;
  ForEachKind([&](const Case& kind) {
    if (kind.type != tcInt8 && kind.type != tcBfloat16 && kind.type != tcFloat32) return;
    if (kind.reduction != tcSum && kind.reduction != tcMax) return;
    for (Case each : WaysToLie(kind)) {
      if (each.where == Where::kMixed || each.misaligned) continue;
      each.count = CountIsWhole(kind.op) ? Huge() : Huge() / n_ranks;
      Append(each, n_ranks, &cases);
    }
  });
  return cases;
}

std::vector<Case> RegisteredBesidePlain(int n_ranks) {
  std::vector<Case> cases;
  ForEachKind([&](const Case& kind) {
    for (Case each : WaysToLie(kind)) {
      if (each.where != Where::kMixed || !each.misaligned) continue;
      for (const size_t count : {size_t{33}, size_t{5000}, Large() + 1}) {
        each.count = count;
        Append(each, n_ranks, &cases);
      }
    }
  });
  return cases;
}

class CollectivesOnGpu : public ::testing::TestWithParam<std::tuple<Launch, int>> {
 protected:
  static void RunAll(std::vector<Case> (*list)(int n_ranks), size_t workspace_bytes = TestConfig().workspaceBytes) {
    const auto [launch, n_ranks] = GetParam();
    tcConfig_t config = TestConfig();
    config.workspaceBytes = workspace_bytes * LaunchesOfAnEpoch(n_ranks);
    config.entryTimeoutMs = 30'000;  // a rank whose call failed does not come any more
    RunRanks(
        launch, n_ranks,
        [&, n = n_ranks](int rank, tcComm_t comm) {
          const Rooms rooms(comm, RoomBytes(n), RoomBytes(n), true);
          Sweep(rank, n, comm, rooms, workspace_bytes).Run(list(n));
        },
        config);
  }
};

TEST_P(CollectivesOnGpu, AreExactInEveryTypeReductionSizeAndPlace) { RunAll(SmallCases); }
TEST_P(CollectivesOnGpu, AreExactAtAMillionElements) { RunAll(LargeCases); }
TEST_P(CollectivesOnGpu, AreExactAt64MillionElements) { RunAll(HugeCases); }
// In many slabs, too.
TEST_P(CollectivesOnGpu, AreExactWithRegisteredBesidePlainMisalignedBuffers) {
  RunAll(RegisteredBesidePlain, size_t{1} << 20);
}

// threads2, processes2; and ranks that share two GPUs: shared3, ...
INSTANTIATE_TEST_SUITE_P(Ranks, CollectivesOnGpu,
                         ::testing::Values(std::tuple(Launch::kThreads, 2), std::tuple(Launch::kProcesses, 2),
                                           std::tuple(Launch::kThreads, 3), std::tuple(Launch::kThreads, 4),
                                           std::tuple(Launch::kThreads, 5), std::tuple(Launch::kThreads, 8)),
                         [](const auto& param) {
                           const int n_ranks = std::get<1>(param.param);
                           return (n_ranks > 2 ? "shared" : LaunchName(std::get<0>(param.param))) +
                                  std::to_string(n_ranks);
                         });

std::vector<Case> OfEachKind(size_t count) {
  std::vector<Case> cases;
  ForEachKind([&](Case kind) {
    kind.count = count;
    kind.misaligned = true;
    Append(kind, 3, &cases);
  });
  return cases;
}

// The checks themselves, without any operator.
TEST(CollectivesCases, AChangedByteIsSeenWhereverItIs) {
  constexpr size_t kBytes = 2048;
  alignas(16) static unsigned char memory[2][kBytes];
  for (const Case& each : OfEachKind(7)) {
    const Plan plan(each, 1, 3, {memory[kSend], memory[kRecv]});
    ASSERT_LE(plan.Room(), kBytes);
    const Buffers& buffers = plan.after();
    for (uint64_t cell = 0; cell < buffers.cells(); ++cell) buffers.Fill(cell);
    for (uint64_t byte = 0; byte < buffers.cells() * plan.size(); ++byte) {
      const uint64_t send_bytes = buffers.pictures[kSend].cells * plan.size();
      unsigned char& changed = byte < send_bytes ? memory[kSend][byte] : memory[kRecv][byte - send_bytes];
      ASSERT_TRUE(buffers.IsRight(byte / plan.size())) << Describe(each);
      changed ^= 1;
      ASSERT_FALSE(buffers.IsRight(byte / plan.size())) << Describe(each) << ", byte " << byte;
      changed ^= 1;
    }
  }
}

class CollectivesOnGpuAlone : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!OnGpu() || GpuCount() == 0) GTEST_SKIP() << "no GPU";
  }
};

TEST_F(CollectivesOnGpuAlone, ExpectWhatTheHostExpects) {
  constexpr int kRanks = 3;
  constexpr size_t kBytes = size_t{1} << 17;
  unsigned char* device = nullptr;
  Verdict* verdict = nullptr;
  CUDA_EXPECT_OK(cudaMalloc(&device, 2 * kBytes));
  CUDA_EXPECT_OK(cudaMalloc(&verdict, sizeof(*verdict)));
  std::vector<unsigned char> host(2 * kBytes);
  for (const Case& each : OfEachKind(1025)) {
    const Plan on_host(each, 1, kRanks, {host.data(), host.data() + kBytes});
    const Plan on_device(each, 1, kRanks, {device, device + kBytes});
    ASSERT_LE(on_host.Room(), kBytes);
    for (uint64_t cell = 0; cell < on_host.after().cells(); ++cell) on_host.after().Fill(cell);
    CUDA_EXPECT_OK(cudaMemcpy(device, host.data(), host.size(), cudaMemcpyHostToDevice));
    CUDA_EXPECT_OK(cudaMemset(verdict, 0, sizeof(*verdict)));
    CheckCells<<<64, 256>>>(on_device.after(), verdict);
    Verdict found{};
    CUDA_EXPECT_OK(cudaMemcpy(&found, verdict, sizeof(found), cudaMemcpyDeviceToHost));
    EXPECT_EQ(found.checked, on_host.after().cells());
    EXPECT_EQ(found.wrong, 0u) << Describe(each) << ", first cell " << ~found.nearness;
  }
  CUDA_EXPECT_OK(cudaFree(verdict));
  CUDA_EXPECT_OK(cudaFree(device));
}

TEST_F(CollectivesOnGpuAlone, GatherEightGigabytesThroughAWorkspaceOf64Megabytes) {
  size_t free_bytes = 0, total = 0;
  CUDA_EXPECT_OK(cudaMemGetInfo(&free_bytes, &total));
  if (free_bytes < 40'000'000'000) GTEST_SKIP() << "40 GB of GPU memory are needed";
  static constexpr size_t kBytes = size_t{8} << 30;
  static constexpr size_t kWorkspace = size_t{64} << 20;
  tcConfig_t config = TestConfig();
  config.workspaceBytes = kWorkspace;
  RunRanks(
      Launch::kThreads, 2,
      [](int rank, tcComm_t comm) {
        const Rooms rooms(comm, kBytes / 2 + 4096, kBytes + 4096, false);
        const Case gather = {.op = tcOpAllGather, .type = tcUint8, .count = kBytes / 2, .seed = 8};
        Case misaligned = gather;
        misaligned.misaligned = true;
        Sweep(rank, 2, comm, rooms, kWorkspace).Run({gather, misaligned});
      },
      config);
}

// Every collective once in every graph, on other data in each replay.
class ReplayedOperators {
 public:
  // `how`: where the buffers lie.
  ReplayedOperators(int rank, int n_ranks, tcComm_t comm, tcStream_t stream, const Case& how)
      : comm_(comm), stream_(stream), rooms_(comm, kRoom, kRoom, true), executor_(comm, stream) {
    CUDA_EXPECT_OK(cudaMalloc(&round_, sizeof(*round_)));
    Advance<<<1, 1, 0, stream_>>>(round_);  // loads it
    CUDA_EXPECT_OK(cudaMemsetAsync(round_, 0, sizeof(*round_), stream));
    verdicts_.Clear(stream);
    CUDA_EXPECT_OK(cudaStreamSynchronize(stream));
    for (tcOp_t op = kFirstOp; op <= kLastOp; ++op) {
      Case which = how;
      which.op = op;
      which.type = tcBfloat16;
      which.root = n_ranks - 1;
      which.count = 1000;
      which.seed = static_cast<uint64_t>(op) << 32;
      which.in_place = how.in_place && MayBeInPlace(op);
      plans_.emplace_back(which, rank, n_ranks, rooms_.Of(how.where, rank), round_);
      EXPECT_LE(plans_.back().Room(), kRoom);
    }
  }
  ~ReplayedOperators() {
    Rendezvous();
    CUDA_EXPECT_OK(cudaFree(round_));
  }

  void Enqueue() {
    Advance<<<1, 1, 0, stream_>>>(round_);
    for (size_t i = 0; i < plans_.size(); ++i) {
      executor_.Fill(plans_[i].before());
      TC_EXPECT_OK(plans_[i].Call(comm_, stream_));
      executor_.Check(plans_[i].after(), verdicts_.at(static_cast<int>(i)));
    }
  }
  void Synchronize() { TC_EXPECT_OK(tcStreamSynchronize(comm_, stream_)); }
  void ExpectRight(uint64_t rounds) {
    verdicts_.Fetch(stream_);
    Synchronize();
    for (size_t i = 0; i < plans_.size(); ++i) {
      const Verdict& verdict = verdicts_.fetched(static_cast<int>(i));
      EXPECT_EQ(verdict.wrong, 0u) << "operator " << i;
      EXPECT_EQ(verdict.checked, rounds * plans_[i].after().cells()) << "operator " << i;
    }
  }

 private:
  static constexpr size_t kRoom = size_t{1} << 16;

  tcComm_t comm_;
  tcStream_t stream_;
  Rooms rooms_;
  Executor executor_;
  Verdicts verdicts_;
  uint64_t* round_ = nullptr;
  std::vector<Plan> plans_;
};

TEST_F(CollectivesOnGpuAlone, TwoGraphsOfTwoCommunicatorsOnTwoStreamsAreRightInTenThousandReplays) {
  constexpr int kReplays = 10'000;
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t first) {
    tcComm_t second = nullptr;
    TC_EXPECT_OK(tcCommSplit(first, 0, rank, &second, nullptr));
    tcStream_t other = nullptr;
    TC_EXPECT_OK(tcStreamCreate(second, &other));
    {
      // Rank 0 registered and rank 1 plain, at other offsets; both registered.
      ReplayedOperators one(rank, 2, first, TestStream(), {.misaligned = true, .where = Where::kMixed});
      ReplayedOperators two(rank, 2, second, other, {.in_place = true, .where = Where::kRegistered});
      Rendezvous();
      for (ReplayedOperators* each : {&one, &two}) {
        each->Enqueue();
        each->Synchronize();
      }
      Rendezvous();
      {
        Graph graph_of_one(TestStream(), [&] { one.Enqueue(); });
        Graph graph_of_two(other, [&] { two.Enqueue(); });
        Rendezvous();
        for (int i = 0; i < kReplays; ++i) {
          // Ranks do not agree on which communicator comes first.
          if (rank == 0) graph_of_one.Launch(TestStream());
          graph_of_two.Launch(other);
          if (rank == 1) graph_of_one.Launch(TestStream());
          if (i % 200 != 0) continue;
          one.Synchronize();
          two.Synchronize();
        }
        one.ExpectRight(kReplays + 1);
        two.ExpectRight(kReplays + 1);
        Rendezvous();
      }
    }
    TC_EXPECT_OK(tcStreamDestroy(second, other));
    Rendezvous();
    TC_EXPECT_OK(tcCommDestroy(second));
  });
}

// Neither host nor device memory, from the second call on.
template <class Call>
void ExpectNoAllocation(const std::string& what, tcComm_t comm, const Call& call) {
  constexpr int kRounds = 5;
  constexpr int kCalls = 20;  // queued at once
  const auto free_bytes = [] {
    size_t bytes = 0, total = 0;
    Rendezvous();  // all ranks' operators have ended
    CUDA_EXPECT_OK(cudaMemGetInfo(&bytes, &total));
    Rendezvous();
    return bytes;
  };
  TC_EXPECT_OK(call());
  TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  const size_t before = free_bytes();
  size_t allocations = 0;
  std::string callers;
  for (int round = 0; round < kRounds; ++round) {
    tcResult_t result = tcSuccess;
    StartCountingAllocations();
    for (int i = 0; i < kCalls && result == tcSuccess; ++i) result = call();
    std::string of_round;
    allocations += StopCountingAllocations(&of_round);
    callers += of_round;
    TC_EXPECT_OK(result);
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
  }
  EXPECT_EQ(allocations, 0u) << what << ", " << kRounds * kCalls << " calls: " << callers;
  EXPECT_EQ(free_bytes(), before) << what << ": bytes of GPU memory";
}

TEST_F(CollectivesOnGpuAlone, NoOperatorCallAllocates) {
  RunRanks(Launch::kThreads, 2, [](int rank, tcComm_t comm) {
    constexpr size_t kCount = 20'000;
    constexpr size_t kEdge = 64;
    const Rooms rooms(comm, 2 * kCount * 4 + 4096, 2 * kCount * 4 + 4096, true);
    Sweep sweep(rank, 2, comm, rooms);
    ExpectNoAllocation("barrier", comm, [&] { return tcBarrier(comm, TestStream()); });
    const auto& plain = rooms.Of(Where::kPlain, rank);
    tcOpDesc_t gemm;
    TC_OP_DESC_INIT(&gemm);
    gemm.op = tcOpAllGatherGemm;
    gemm.type = tcFloat32;
    gemm.m = gemm.n = gemm.k = kEdge;
    if (tcOpSupported(comm, &gemm) == tcSuccess) {  // not on every plane
      ExpectNoAllocation("all-gather + GEMM", comm, [&] {
        return tcFusedAllGatherGemm(plain[kSend], plain[kSend] + kEdge * kEdge * 4, plain[kRecv], kEdge, kEdge, kEdge,
                                    tcFloat32, nullptr, comm, TestStream());
      });
    }
    for (tcOp_t op = kFirstOp; op <= kLastOp; ++op) {
      if (!sweep.Has(op)) continue;
      for (const size_t count : {size_t{100}, kCount}) {
        for (const Where where : {Where::kPlain, Where::kRegistered}) {
          const Case which = {.op = op, .count = count, .seed = 1, .where = where};
          const Plan plan(which, rank, 2, rooms.Of(where, rank));
          ASSERT_LE(plan.Room(), rooms.capacity());
          ExpectNoAllocation(Describe(which), comm, [&] { return plan.Call(comm, TestStream()); });
        }
      }
    }
  });
}

TEST_F(CollectivesOnGpuAlone, EveryPlaneGivesTheSameBits) {
  constexpr int kRanks = 2;
  constexpr const char* kPlanes[] = {"push", "pull", "copy_engine", "host_staged"};
  const char* const chosen = std::getenv("TC_PLANE");
  const std::string before = chosen != nullptr ? chosen : "";
  for (const tcOp_t op : {tcOpAllReduce, tcOpReduceScatter}) {
    std::vector<unsigned char> first[kRanks];  // what the first plane gave
    for (const char* plane : kPlanes) {
      ::setenv("TC_PLANE", plane, 1);
      RunRanks(Launch::kThreads, kRanks, [&](int rank, tcComm_t comm) {
        constexpr size_t kCount = (size_t{1} << 20) + 3;
        const size_t bytes = kCount * 2 * kRanks + 4096;
        const Rooms rooms(comm, bytes, bytes, true);
        const Case which = {.op = op, .type = tcFloat16, .count = kCount, .seed = 3, .where = Where::kMixed};
        const auto& memory = rooms.Of(which.where, rank);
        Sweep(rank, kRanks, comm, rooms).Run({which});
        std::vector<unsigned char> result(kCount * 2);
        TC_EXPECT_OK(tcMemcpyAsync(comm, result.data(), memory[kRecv] + kGuardBytes, result.size(), TestStream()));
        TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
        if (first[rank].empty()) first[rank] = result;
        EXPECT_TRUE(first[rank] == result) << plane << ", " << Describe(which);
      });
    }
  }
  if (chosen != nullptr) {
    ::setenv("TC_PLANE", before.c_str(), 1);
  } else {
    ::unsetenv("TC_PLANE");
  }
}

}  // namespace
}  // namespace tc::test
