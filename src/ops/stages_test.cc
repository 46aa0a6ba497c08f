// All-gather + GEMM taken apart: each stage alone, what it leaves compared byte for byte, many times and for several
// loads.
#include <gtest/gtest.h>

#include <barrier>
#include <cstring>
#include <vector>

#include "ops/rank_threads.h"
#include "order/problem.h"
#include "plan/plan.h"

namespace tc {
namespace {

constexpr int kIterations = 30;

// Small integers, so that every product and sum is exact in fp32 whatever the order.
float ValueAt(int iteration, uint64_t row, uint64_t col) {
  return static_cast<float>(static_cast<int>((iteration * 5 + row * 3 + col * 7) % 17) - 8);
}

struct Load {
  std::vector<size_t> rows;  // of each rank
  size_t n, k;
};

// One rank taking one load apart.
class Rank {
 public:
  Rank(Communicator& comm, const Load& load, tcPlane_t plane, std::barrier<>& meet)
      : comm_(comm),
        meet_(meet),
        plane_(plane),
        shards_(GivenShards(load.rows.data(), comm.n_ranks())),
        n_(load.n),
        k_(load.k) {
    problem_.shards = shards_;
    problem_.n = n_;
    problem_.k = k_;
    problem_.lda = problem_.ldb = k_;
    problem_.ldc = n_;
    a_ = DeviceAlloc(shards_.rows(comm.rank()) * k_ * 4 + 4);
    b_ = DeviceAlloc(n_ * k_ * 4);
    c_ = DeviceAlloc(shards_.total() * n_ * 4);
    gathered_ = DeviceAlloc(shards_.total() * k_ * 4);
    problem_.a = a_;
    problem_.b = b_;
    problem_.c = c_;
    EXPECT_TRUE(comm.backend().CreateStream(&stream_).ok());
  }
  ~Rank() {
    EXPECT_TRUE(comm_.backend().DestroyStream(stream_).ok());
    for (void* pointer : {a_, b_, c_, gathered_}) DeviceFree(pointer);
  }

  void Run(int iteration) {
    FillInputs(iteration);
    Launch(kStageMove, nullptr);
    ExpectStaged(iteration);
    Launch(kStageMove, gathered_);
    ExpectGathered(iteration);
    Launch(kStageCompute, nullptr);
    ExpectProduct(iteration);
  }

 private:
  std::vector<float> Rows(int iteration, uint64_t first, uint64_t count) const {
    std::vector<float> rows(count * k_);
    for (uint64_t i = 0; i < count; ++i) {
      for (uint64_t j = 0; j < k_; ++j) rows[i * k_ + j] = ValueAt(iteration, first + i, j);
    }
    return rows;
  }
  float B(uint64_t row, uint64_t col) const { return ValueAt(comm_.rank(), row, col); }

  void FillInputs(int iteration) {
    const std::vector<float> own = Rows(iteration, shards_.begin[comm_.rank()], shards_.rows(comm_.rank()));
    CopyAny(a_, own.data(), own.size() * 4);
    std::vector<float> b(n_ * k_);
    for (uint64_t i = 0; i < n_; ++i) {
      for (uint64_t j = 0; j < k_; ++j) b[i * k_ + j] = B(i, j);
    }
    CopyAny(b_, b.data(), b.size() * 4);
  }

  void Launch(uint32_t stages, void* gathered) {
    problem_.stages = stages;
    problem_.gathered = gathered;
    const KernelRow* row = nullptr;
    ASSERT_TRUE(ChooseKernel(tcOpAllGatherGemm, tcFloat32, plane_, comm_.backend().name(), &row).ok());
    meet_.arrive_and_wait();  // what follows may wait for every rank, what went before may wait for the device
    const OperatorShape shape{.op = tcOpAllGatherGemm, .type = tcFloat32, .m = shards_.total(), .n = n_, .k = k_};
    EXPECT_TRUE(row->launch({.comm = comm_,
                             .stream = stream_,
                             .shape = shape,
                             .problem = problem_,
                             .plane = plane_,
                             .slab = 1 << 12})
                    .ok());
    EXPECT_TRUE(comm_.backend().SynchronizeStream(stream_).ok());
    EXPECT_TRUE(comm_.fatal().ok()) << comm_.fatal().sentence();
    meet_.arrive_and_wait();
  }

  void ExpectStaged(int iteration) const {
    const size_t pitch = StagedPitch(k_ * 4);
    std::vector<std::byte> staged(shards_.total() * pitch);
    CopyAny(staged.data(), comm_.view().workspace[comm_.rank()], staged.size());
    const std::vector<float> all = Rows(iteration, 0, shards_.total());
    for (uint64_t row = 0; row < shards_.total(); ++row) {
      const bool own = row >= shards_.begin[comm_.rank()] && row < shards_.begin[comm_.rank() + 1];
      if (own) continue;  // read where they are
      ASSERT_EQ(std::memcmp(&staged[row * pitch], &all[row * k_], k_ * 4), 0) << "staged row " << row;
    }
  }
  void ExpectGathered(int iteration) const {
    std::vector<float> gathered(shards_.total() * k_);
    CopyAny(gathered.data(), gathered_, gathered.size() * 4);
    ASSERT_EQ(gathered, Rows(iteration, 0, shards_.total()));
  }
  void ExpectProduct(int iteration) const {
    std::vector<float> c(shards_.total() * n_);
    CopyAny(c.data(), c_, c.size() * 4);
    for (uint64_t i = 0; i < shards_.total(); ++i) {
      for (uint64_t j = 0; j < n_; ++j) {
        float sum = 0;
        for (uint64_t kk = 0; kk < k_; ++kk) sum += ValueAt(iteration, i, kk) * B(j, kk);
        ASSERT_EQ(c[i * n_ + j], sum) << "element " << i << ", " << j;
      }
    }
  }

  Communicator& comm_;
  std::barrier<>& meet_;
  const tcPlane_t plane_;
  const Shards shards_;
  const size_t n_, k_;
  AllGatherGemmProblem problem_;
  void *a_, *b_, *c_, *gathered_;
  tcStream_t stream_ = nullptr;
};

TEST(Stages, EachLeavesExactlyWhatTheNextNeeds) {
  if (!HasTestDevice()) GTEST_SKIP() << "no GPU";
  const Load loads[] = {
      {{64, 64}, 32, 16},         // whole chunks
      {{130, 7}, 40, 33},         // uneven, rows off 16 bytes
      {{0, 200, 3}, 130, 20},     // a rank without rows, blocks of several ranks
      {{65, 65, 65, 65}, 17, 5},  // one row more than a chunk
      {{1, 1, 1, 1, 1}, 3, 1},    // one row each
  };
  std::vector<tcPlane_t> planes{HostStaged() ? tcPlaneHostStaged : tcPlanePush};
  if (OnGpu() && !HostStaged()) planes.insert(planes.end(), {tcPlanePull, tcPlaneCopyEngine});
  for (const Load& load : loads) {
    RunRanks(static_cast<int>(load.rows.size()), 1, [&](Communicator& comm, std::barrier<>& meet) {
      for (const tcPlane_t plane : planes) {
        Rank rank(comm, load, plane, meet);
        for (int iteration = 0; iteration < kIterations; ++iteration) rank.Run(iteration);
      }
    });
  }
}

}  // namespace
}  // namespace tc
