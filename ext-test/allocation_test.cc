// Operators of the host backend allocate nothing, neither in the call nor on the threads that carry them out.
#include <vector>

#include "allocations.h"
#include "cases.h"
#include "ranks.h"

namespace tc::test {
namespace {

constexpr int kRanks = 3;
constexpr int kCalls = 50;  // queued at once

struct OneRank {
  int rank;
  tcComm_t comm;
  tcStream_t stream;
};

// Once a queue has held as many calls.
template <class Call>
void ExpectNoAllocation(const std::string& what, const OneRank& at, const Call& call) {
  const auto call_all = [&] {
    for (int i = 0; i < kCalls; ++i) TC_EXPECT_OK(call());
  };
  for (int late = 0; late < kRanks; ++late) {  // the others' queues wait for it
    if (at.rank != late) call_all();
    Rendezvous();
    if (at.rank == late) call_all();
    TC_EXPECT_OK(tcStreamSynchronize(at.comm, at.stream));
    Rendezvous();
  }
  if (at.rank == 0) StartCountingAllocations(Threads::kAll);
  Rendezvous();
  for (int round = 0; round < 3; ++round) {
    call_all();
    TC_EXPECT_OK(tcStreamSynchronize(at.comm, at.stream));
  }
  Rendezvous();
  if (at.rank == 0) {
    std::string callers;
    EXPECT_EQ(StopCountingAllocations(&callers), 0u) << what << ": " << callers;
  }
  Rendezvous();
}

void ExpectNoneInCollectives(const OneRank& at, unsigned char* const (&memory)[2], Where where) {
  for (tcOp_t op = tcOpAllGather; op <= tcOpAllToAllV; ++op) {
    for (const size_t count : {100, 12'000}) {  // in one slab, in several
      const Case which = {.op = op, .count = static_cast<size_t>(count), .seed = 1, .where = where};
      const Plan plan(which, at.rank, kRanks, memory);
      for (uint64_t cell = 0; cell < plan.before().cells(); ++cell) plan.before().Fill(cell);
      ExpectNoAllocation(Describe(which), at, [&] { return plan.Call(at.comm, at.stream); });
    }
  }
}

void ExpectNoneInGemm(const OneRank& at, unsigned char* const (&memory)[2], bool gathers) {
  constexpr size_t kEdge = 66;
  for (const tcDataType_t type : {tcFloat32, tcBfloat16}) {
    const size_t matrix = kEdge * kEdge * ElementSize(type);
    unsigned char* const a = memory[kSend];
    tcGemmConfig_t config;
    TC_GEMM_CONFIG_INIT(&config);
    config.gatheredA = gathers ? memory[kRecv] + matrix : nullptr;
    ExpectNoAllocation(gathers ? "all-gather + GEMM, gathered" : "all-gather + GEMM", at, [&] {
      return tcFusedAllGatherGemm(a, a + matrix, memory[kRecv], kEdge, kEdge, kEdge, type, &config, at.comm, at.stream);
    });
  }
}

TEST(Allocations, NoOperatorOfTheHostBackendAllocatesOnceItsQueueHasGrown) {
  if (OnGpu()) GTEST_SKIP() << "collectives_gpu_test counts those of the CUDA backend";
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 96 << 10;
  RunRanks(
      Launch::kThreads, kRanks,
      [](int rank, tcComm_t comm) {
        constexpr size_t kRoom = size_t{1} << 19;
        void* window_memory = nullptr;
        tcWindow_t window = nullptr;
        tcStream_t stream = nullptr;
        std::vector<unsigned char> plain(2 * kRoom);
        TC_EXPECT_OK(tcMemAlloc(&window_memory, 2 * kRoom));
        TC_EXPECT_OK(tcCommRegister(comm, window_memory, 2 * kRoom, &window));
        TC_EXPECT_OK(tcStreamCreate(comm, &stream));
        for (const tcStream_t each : {tcStream_t{nullptr}, stream}) {
          const OneRank at = {rank, comm, each};
          ExpectNoAllocation("barrier", at, [&] { return tcBarrier(comm, each); });
          ExpectNoAllocation("copy", at, [&] { return tcMemcpyAsync(comm, plain.data(), window_memory, 100, each); });
          for (const bool registered : {false, true}) {
            auto* const first = registered ? static_cast<unsigned char*>(window_memory) : plain.data();
            unsigned char* const memory[] = {first, first + kRoom};
            ExpectNoneInCollectives(at, memory, registered ? Where::kRegistered : Where::kPlain);
            for (const bool gathers : {false, true}) ExpectNoneInGemm(at, memory, gathers);
          }
        }
        TC_EXPECT_OK(tcStreamDestroy(comm, stream));
        TC_EXPECT_OK(tcCommDeregister(comm, window));
        TC_EXPECT_OK(tcMemFree(window_memory));
      },
      config);
}

}  // namespace
}  // namespace tc::test
