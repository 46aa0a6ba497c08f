// What only GPUs can show: graphs, other kernels on the device, the caller's CUDA state, the cost of init.
#include <cuda_bf16.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <vector>

#include "graph.h"
#include "ranks.h"

namespace tc::test {
namespace {

// A value that bf16 holds exactly, by round, row and column.
__host__ __device__ int ValueAt(int round, int row, int col) { return (round * 31 + row * 7 + col * 3) % 251 - 125; }

constexpr int kRows = 192;  // of the whole a
constexpr int kCols = 64;   // n = k: b is the identity, so that c must be the gathered a exactly

__global__ void FillRows(__nv_bfloat16* a, int first_row, const int* round) {
  const int row = blockIdx.x;
  a[row * kCols + threadIdx.x] = __float2bfloat16(ValueAt(*round, first_row + row, threadIdx.x));
}
__global__ void Advance(int* round) { ++*round; }
__global__ void Identity(__nv_bfloat16* b) {
  b[blockIdx.x * kCols + threadIdx.x] = __float2bfloat16(blockIdx.x == threadIdx.x ? 1 : 0);
}
// Counts wrong elements and poisons what it has read, so that the next round cannot pass on old results.
__global__ void CheckRows(__nv_bfloat16* c, const int* round, unsigned* wrong) {
  __nv_bfloat16& seen = c[blockIdx.x * kCols + threadIdx.x];
  if (__bfloat162float(seen) != ValueAt(*round, blockIdx.x, threadIdx.x)) atomicAdd(wrong, 1u);
  seen = __float2bfloat16(-999);
}

class Gpu : public ::testing::Test {
 protected:
  void SetUp() override {
    ::setenv("TC_TEST_BACKEND", "cuda", 1);
    if (GpuCount() == 0) GTEST_SKIP() << "no GPU";
  }
};

template <class Element>
class Device {
 public:
  explicit Device(size_t count) {
    CUDA_EXPECT_OK(cudaMalloc(&pointer_, count * sizeof(Element)));
    CUDA_EXPECT_OK(cudaMemset(pointer_, 0, count * sizeof(Element)));
  }
  ~Device() { (void)cudaFree(pointer_); }
  operator Element*() const { return pointer_; }

 private:
  Element* pointer_ = nullptr;
};

// One rank's buffers for the exact product c = a * I.
struct ExactProduct {
  explicit ExactProduct(int rank, int n_ranks, tcComm_t owner)
      : comm(owner),
        rows(kRows / n_ranks),
        first(rank * rows),
        a(rows * kCols),
        b(kCols * kCols),
        c(kRows * kCols),
        gathered(kRows * kCols),
        round(1),
        wrong(1) {
    Identity<<<kCols, kCols>>>(b);
    CUDA_EXPECT_OK(cudaDeviceSynchronize());
  }
  void Prepare(tcStream_t stream) {
    Advance<<<1, 1, 0, stream>>>(round);
    FillRows<<<rows, kCols, 0, stream>>>(a, first, round);
  }
  void Launch(tcStream_t stream) {
    TC_EXPECT_OK(tcFusedAllGatherGemm(a, b, c, kRows, kCols, kCols, tcBfloat16, nullptr, comm, stream));
  }
  void Check(tcStream_t stream) { CheckRows<<<kRows, kCols, 0, stream>>>(c, round, wrong); }
  void Multiply(tcStream_t stream) {
    Launch(stream);
    Check(stream);
  }
  void Gather(tcStream_t stream) {
    TC_EXPECT_OK(tcAllGather(a, gathered, rows * kCols, tcBfloat16, comm, stream));
    CheckRows<<<kRows, kCols, 0, stream>>>(gathered, round, wrong);
  }
  void ExpectRight() {
    unsigned count = ~0u;
    CUDA_EXPECT_OK(cudaMemcpy(&count, wrong, sizeof(count), cudaMemcpyDeviceToHost));
    EXPECT_EQ(count, 0u);
  }

  tcComm_t comm;
  int rows, first;
  Device<__nv_bfloat16> a, b, c, gathered;
  Device<int> round;
  Device<unsigned> wrong;
};

// Two graphs of an odd number of operators, interleaved, with other inputs each time and eager calls between.
TEST_F(Gpu, TenThousandGraphReplaysWithChangingInputsAreRightEveryTime) {
  for (const int n_ranks : {2, 4}) {
    RunRanks(Launch::kThreads, n_ranks, [&](int rank, tcComm_t comm) {
      const tcStream_t stream = TestStream();
      ExactProduct product(rank, n_ranks, comm);
      Rendezvous();  // nobody synchronises the device while another captures
      Graph one(stream, [&] {
        product.Prepare(stream);
        product.Multiply(stream);
      });
      Graph three(stream, [&] {
        product.Prepare(stream);
        product.Multiply(stream);
        product.Gather(stream);
        product.Multiply(stream);
      });
      Rendezvous();
      const int replays = n_ranks == 2 ? 10'000 : 2'000;
      for (int i = 0; i < replays; ++i) {
        (i % 3 == 1 ? three : one).Launch(stream);
        if (i % 7 == 0) {
          product.Prepare(stream);
          product.Multiply(stream);
        }
        if (i % 500 == 0) {
          TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
        }
      }
      TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
      Rendezvous();
      product.ExpectRight();
    });
  }
}

// Holds its SMs, one block each, until the host lets go.
__global__ void Occupy(const volatile int* held, unsigned* arrived) {
  extern __shared__ char all_of_it[];
  if (threadIdx.x == 0) {
    all_of_it[0] = 0;
    atomicAdd_system(arrived, 1u);
    while (*held != 0) __nanosleep(1000);
  }
}

TEST_F(Gpu, OperatorsFinishBesideAnOccupierOfAllButFourSMs) {
  if (GpuCount() < 2) GTEST_SKIP() << "a GPU for each of two ranks is needed";
  for (int occupied = 0; occupied < 2; ++occupied) {
    RunRanks(Launch::kThreads, 2, [&](int rank, tcComm_t comm) {
      ExactProduct product(rank, 2, comm);
      volatile int* held = nullptr;
      unsigned* arrived = nullptr;
      CUDA_EXPECT_OK(cudaHostAlloc((void**)&held, sizeof(int), cudaHostAllocMapped));
      CUDA_EXPECT_OK(cudaHostAlloc((void**)&arrived, sizeof(unsigned), cudaHostAllocMapped));
      *held = rank == occupied;
      *arrived = 0;
      cudaStream_t beside;
      CUDA_EXPECT_OK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
      // CUDA loads this test's kernels when they are first used, and may wait for the device to be idle.
      const auto operate = [&] {
        product.Prepare(TestStream());
        product.Multiply(TestStream());
        product.Gather(TestStream());
      };
      operate();
      TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
      if (rank == occupied) {
        cudaDeviceProp prop;
        CUDA_EXPECT_OK(cudaGetDeviceProperties(&prop, rank));
        const int shared = static_cast<int>(prop.sharedMemPerBlockOptin);
        CUDA_EXPECT_OK(cudaFuncSetAttribute(Occupy, cudaFuncAttributeMaxDynamicSharedMemorySize, shared));
        const unsigned blocks = prop.multiProcessorCount - 4;
        Occupy<<<blocks, 32, shared, beside>>>(const_cast<int*>(held), arrived);
        while (*static_cast<volatile unsigned*>(arrived) < blocks) std::this_thread::yield();
      }
      Rendezvous();
      for (int i = 0; i < 20; ++i) operate();
      TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
      *held = 0;
      CUDA_EXPECT_OK(cudaStreamSynchronize(beside));
      Rendezvous();
      product.ExpectRight();
      CUDA_EXPECT_OK(cudaStreamDestroy(beside));
      CUDA_EXPECT_OK(cudaFreeHost(const_cast<int*>(held)));
      CUDA_EXPECT_OK(cudaFreeHost(arrived));
    });
  }
}

TEST_F(Gpu, TwoCommunicatorsLaunchedInOppositeOrdersBothFinish) {
  RunRanks(Launch::kThreads, 2, [&](int rank, tcComm_t first) {
    tcComm_t second = nullptr;
    TC_EXPECT_OK(tcCommSplit(first, 0, rank, &second, nullptr));
    tcStream_t other = nullptr;
    TC_EXPECT_OK(tcStreamCreate(second, &other));
    ExactProduct one(rank, 2, first), two(rank, 2, second);
    Rendezvous();
    for (int i = 0; i < 300; ++i) {
      one.Prepare(TestStream());
      two.Prepare(other);
      CUDA_EXPECT_OK(cudaStreamSynchronize(TestStream()));
      CUDA_EXPECT_OK(cudaStreamSynchronize(other));
      // Only the operators, so that this holds with one connection, too, where what follows an operator blocks the
      // queue.
      if (rank == 0) one.Launch(TestStream());
      two.Launch(other);
      if (rank == 1) one.Launch(TestStream());
      TC_EXPECT_OK(tcStreamSynchronize(first, TestStream()));
      TC_EXPECT_OK(tcStreamSynchronize(second, other));
      one.Check(TestStream());
      two.Check(other);
    }
    CUDA_EXPECT_OK(cudaDeviceSynchronize());
    Rendezvous();
    one.ExpectRight();
    two.ExpectRight();
    TC_EXPECT_OK(tcStreamDestroy(second, other));
    Rendezvous();
    TC_EXPECT_OK(tcCommDestroy(second));
  });
}

// Eagerly the library orders its operators itself, on whichever streams they are.
TEST_F(Gpu, OperatorsOnChangingStreamsKeepTheirOrder) {
  constexpr int kStreams = 3;
  constexpr int kOperators = 200;
  constexpr size_t kCount = 1 << 12;
  RunRanks(Launch::kThreads, 2, [&](int rank, tcComm_t comm) {
    tcStream_t streams[kStreams];
    for (tcStream_t& stream : streams) TC_EXPECT_OK(tcStreamCreate(comm, &stream));
    Device<int> gathered(kOperators * 2 * kCount);
    std::vector<int> mine(kOperators * kCount), all(kOperators * 2 * kCount);
    for (size_t i = 0; i < mine.size(); ++i) mine[i] = static_cast<int>(i) * 2 + rank;
    Device<int> sent(mine.size());
    CUDA_EXPECT_OK(cudaMemcpy(sent, mine.data(), mine.size() * sizeof(int), cudaMemcpyHostToDevice));
    Rendezvous();
    for (int i = 0; i < kOperators; ++i) {
      if (rank == 1 && i % 50 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(20));
      const tcStream_t stream = streams[i % kStreams];
      if (i % 7 == 3) TC_EXPECT_OK(tcBarrier(comm, stream));
      TC_EXPECT_OK(tcAllGather(sent + i * kCount, gathered + i * 2 * kCount, kCount, tcInt32, comm, stream));
    }
    for (const tcStream_t stream : streams) TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
    Rendezvous();
    CUDA_EXPECT_OK(cudaMemcpy(all.data(), gathered, all.size() * sizeof(int), cudaMemcpyDeviceToHost));
    size_t wrong = 0;
    for (int i = 0; i < kOperators; ++i) {
      for (size_t at = 0; at < 2 * kCount; ++at) {
        const int value = static_cast<int>(i * kCount + at % kCount) * 2 + static_cast<int>(at / kCount);
        wrong += all[i * 2 * kCount + at] != value;
      }
    }
    EXPECT_EQ(wrong, 0u);
    for (const tcStream_t stream : streams) TC_EXPECT_OK(tcStreamDestroy(comm, stream));
    Rendezvous();
  });
}

// In a graph the caller does. When nothing orders two operators of a communicator, the device notices.
TEST_F(Gpu, OperatorsThatOverlapInAGraphAreInvalidUsage) {
  tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  for (const bool barriers : {true, false}) {
    std::atomic<int> noticed{0};
    RunRanks(Launch::kThreads, 2, [&](int rank, tcComm_t comm) {
      ExactProduct product(rank, 2, comm);
      cudaStream_t beside;
      cudaEvent_t fork, join;
      CUDA_EXPECT_OK(cudaStreamCreateWithFlags(&beside, cudaStreamNonBlocking));
      CUDA_EXPECT_OK(cudaEventCreateWithFlags(&fork, cudaEventDisableTiming));
      CUDA_EXPECT_OK(cudaEventCreateWithFlags(&join, cudaEventDisableTiming));
      const auto operate = [&](tcStream_t stream) {
        if (barriers) {
          TC_EXPECT_OK(tcBarrier(comm, stream));
        } else {
          product.Launch(stream);
        }
      };
      Rendezvous();
      Graph graph(TestStream(), [&] {
        CUDA_EXPECT_OK(cudaEventRecord(fork, TestStream()));
        CUDA_EXPECT_OK(cudaStreamWaitEvent(beside, fork, 0));
        operate(TestStream());
        operate(beside);
        CUDA_EXPECT_OK(cudaEventRecord(join, beside));
        CUDA_EXPECT_OK(cudaStreamWaitEvent(TestStream(), join, 0));
      });
      Rendezvous();
      if (rank == 1) std::this_thread::sleep_for(std::chrono::milliseconds(100));  // rank 0's operators wait together
      graph.Launch(TestStream());
      const tcResult_t ended = tcStreamSynchronize(comm, TestStream());
      EXPECT_TRUE(ended == tcInvalidUsage || ended == tcRemoteError) << ended << " " << tcGetLastError(comm);
      if (ended == tcInvalidUsage) {
        ++noticed;
        EXPECT_NE(std::string(tcGetLastError(comm)).find("at the same time"), std::string::npos)
            << tcGetLastError(comm);
      }
      Rendezvous();
      CUDA_EXPECT_OK(cudaStreamDestroy(beside));
      CUDA_EXPECT_OK(cudaEventDestroy(fork));
      CUDA_EXPECT_OK(cudaEventDestroy(join));
    });
    EXPECT_GE(noticed, 1);
  }
  tcSetLogCallback(nullptr, nullptr);
}

TEST_F(Gpu, ACaptureInGlobalModeElsewhereIsNotBroken) {
  CUDA_EXPECT_OK(cudaSetDevice(0));
  cudaStream_t captured;
  CUDA_EXPECT_OK(cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking));
  Device<int> word(1);
  CUDA_EXPECT_OK(cudaStreamBeginCapture(captured, cudaStreamCaptureModeGlobal));
  Advance<<<1, 1, 0, captured>>>(word);
  std::thread([&] {
    const tcConfig_t config = TestConfig();
    tcUniqueId id;
    tcComm_t comm = nullptr;
    void* memory = nullptr;
    tcWindow_t window = nullptr;
    tcStream_t stream = nullptr;
    TC_EXPECT_OK(tcGetUniqueId(&id));
    TC_EXPECT_OK(tcInitComm(&comm, 1, &id, 0, &config));
    TC_EXPECT_OK(tcMemAlloc(&memory, 4096));
    TC_EXPECT_OK(tcCommRegister(comm, memory, 4096, &window));
    TC_EXPECT_OK(tcStreamCreate(comm, &stream));
    TC_EXPECT_OK(tcAllGather(memory, memory, 16, tcFloat32, comm, stream));
    TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
    TC_EXPECT_OK(tcStreamDestroy(comm, stream));
    TC_EXPECT_OK(tcCommDeregister(comm, window));
    TC_EXPECT_OK(tcMemFree(memory));
    TC_EXPECT_OK(tcCommDestroy(comm));
  }).join();
  cudaGraph_t graph = nullptr;
  CUDA_EXPECT_OK(cudaStreamEndCapture(captured, &graph));
  ASSERT_NE(graph, nullptr);
  CUDA_EXPECT_OK(cudaGraphDestroy(graph));
  CUDA_EXPECT_OK(cudaStreamDestroy(captured));
}

TEST_F(Gpu, TheCurrentDeviceAndTheLastErrorStayAsTheyWere) {
  const int mine = GpuCount() - 1;
  CUDA_EXPECT_OK(cudaSetDevice(mine));
  Device<float> a(64), c(64);
  const auto untouched = [&](const char* call) {
    int device = -1;
    EXPECT_EQ(cudaPeekAtLastError(), cudaErrorInvalidDevice) << call;
    EXPECT_EQ(cudaGetDevice(&device), cudaSuccess);
    EXPECT_EQ(device, mine) << call;
  };
  EXPECT_EQ(cudaSetDevice(1000), cudaErrorInvalidDevice);  // the caller's own error, not yet looked at
  tcConfig_t config = TestConfig();
  config.device = 0;
  tcUniqueId id;
  tcComm_t comm = nullptr;
  void* memory = nullptr;
  tcStream_t stream = nullptr;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  TC_EXPECT_OK(tcInitComm(&comm, 1, &id, 0, &config));
  untouched("tcInitComm");
  TC_EXPECT_OK(tcMemAlloc(&memory, 1 << 20));
  untouched("tcMemAlloc");
  TC_EXPECT_OK(tcStreamCreate(comm, &stream));
  untouched("tcStreamCreate");
  TC_EXPECT_OK(tcBarrier(comm, stream));
  untouched("tcBarrier");
  tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  EXPECT_EQ(tcAllGather(nullptr, a, 4, tcFloat32, comm, stream), tcInvalidArgument);
  tcSetLogCallback(nullptr, nullptr);
  untouched("a refused tcAllGather");
  TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
  untouched("tcStreamSynchronize");
  TC_EXPECT_OK(tcMemFree(memory));
  untouched("tcMemFree");
  TC_EXPECT_OK(tcStreamDestroy(comm, stream));
  TC_EXPECT_OK(tcCommDestroy(comm));
  untouched("tcCommDestroy");
  (void)cudaGetLastError();
}

TEST_F(Gpu, InitTakesAtMostASecondAndTwoHundredMegabytes) {
  const int gpus = std::min(GpuCount(), 2);
  size_t before[2], after[2], total;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CUDA_EXPECT_OK(cudaSetDevice(gpu));
    CUDA_EXPECT_OK(cudaFree(nullptr));
    CUDA_EXPECT_OK(cudaMemGetInfo(&before[gpu], &total));
  }
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 0;  // the default
  tcComm_t comms[2];
  const int devices[] = {0, gpus - 1};
  const auto start = std::chrono::steady_clock::now();
  TC_EXPECT_OK(tcInitCommAll(comms, 2, devices, &config));
  const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
  EXPECT_LE(seconds.count(), 1.0);
  const size_t ranks_each = 2 / gpus;
  for (int gpu = 0; gpu < gpus; ++gpu) {
    CUDA_EXPECT_OK(cudaSetDevice(gpu));
    CUDA_EXPECT_OK(cudaMemGetInfo(&after[gpu], &total));
    const double beyond =
        (static_cast<double>(before[gpu]) - static_cast<double>(after[gpu])) / 1e6 - ranks_each * (256 << 20) / 1e6;
    EXPECT_LE(beyond, 200.0) << "MB on GPU " << gpu;
    std::printf("init: %.3f s, %.1f MB beyond the workspace on GPU %d\n", seconds.count(), beyond, gpu);
  }
  for (tcComm_t comm : comms) TC_EXPECT_OK(tcCommDestroy(comm));
}

// What cudaMemGetInfo sees of communicators beside one that is there already, and with it CUDA's own.
TEST_F(Gpu, StatsReportAllMemoryAndItIsLittleBesideTheWorkspace) {
  constexpr size_t kPiece = size_t{2} << 20;  // CUDA maps no less to a peer
  constexpr size_t kOnTheHost = size_t{64} << 10;
  const auto free_bytes = [] {
    size_t bytes = 0, total = 0;
    CUDA_EXPECT_OK(cudaMemGetInfo(&bytes, &total));
    return bytes;
  };
  const std::vector<int> devices(8, 0);
  tcConfig_t config = TestConfig();
  tcComm_t warm = nullptr;
  TC_EXPECT_OK(tcInitCommAll(&warm, 1, devices.data(), &config));
  for (const int n_ranks : {2, 8}) {
    // A multiple of a piece, and one that leaves half a piece.
    for (const size_t workspace : {8 * kPiece, 8 * kPiece - kPiece / 2}) {
      config.workspaceBytes = workspace;
      std::vector<tcComm_t> comms(n_ranks);
      const size_t before = free_bytes();
      TC_EXPECT_OK(tcInitCommAll(comms.data(), n_ranks, devices.data(), &config));
      const size_t held = before - free_bytes();
      size_t reported = 0;
      for (const tcComm_t comm : comms) {
        tcCommStats_t stats;
        TC_COMM_STATS_INIT(&stats);
        TC_EXPECT_OK(tcCommGetStats(comm, &stats));
        reported += stats.memoryBytes;
      }
      for (const tcComm_t comm : comms) TC_EXPECT_OK(tcCommDestroy(comm));
      std::printf("%d ranks, workspaces of %zu bytes: %zu bytes held on the GPU, %zu reported\n", n_ranks, workspace,
                  held, reported);
      EXPECT_GE(reported, held);
      EXPECT_LE(reported, held + n_ranks * kOnTheHost);
      const size_t fixed = reported / n_ranks - workspace;
      if (workspace % kPiece == 0) {
        EXPECT_LE(fixed, kPiece + kOnTheHost);
      } else {
        EXPECT_LT(fixed, 2'000'000u);  // slots and control fit what is left of the last piece
      }
      EXPECT_EQ(free_bytes(), before);
    }
  }
  TC_EXPECT_OK(tcCommDestroy(warm));
}

// An element by row and column: small integers, so that every sum is exact in fp32.
__device__ int EntryAt(uint64_t row, uint64_t col) {
  auto mixed = static_cast<uint32_t>(row) * 0x9E37'79B1u + static_cast<uint32_t>(col) * 0x85EB'CA77u;
  mixed = (mixed ^ mixed >> 15) * 0x2C1B'3C6Du;
  return static_cast<int>((mixed ^ mixed >> 13) % 5) - 2;
}
__global__ void FillEntries(__nv_bfloat16* matrix, uint64_t rows, uint64_t cols, uint64_t stride, uint64_t first_row) {
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (uint64_t col = threadIdx.x; col < cols; col += blockDim.x) {
      matrix[row * stride + col] = __float2bfloat16(EntryAt(first_row + row, col));
    }
  }
}
__global__ void CheckEntries(const __nv_bfloat16* matrix, uint64_t rows, uint64_t cols, unsigned* wrong) {
  for (uint64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    for (uint64_t col = threadIdx.x; col < cols; col += blockDim.x) {
      if (__bfloat162float(matrix[row * cols + col]) != EntryAt(row, col)) atomicAdd(wrong, 1u);
    }
  }
}
// c is a * b^T for the entries' a and b. A warp for each element.
constexpr uint64_t kFirstRowOfB = 1 << 30;
__global__ void CheckSums(const float* c, uint64_t rows, uint64_t cols, uint64_t stride, uint64_t k, unsigned* wrong) {
  const uint64_t warps = uint64_t{gridDim.x} * blockDim.x / 32;
  for (uint64_t at = (uint64_t{blockIdx.x} * blockDim.x + threadIdx.x) / 32; at < rows * cols; at += warps) {
    const uint64_t row = at / cols, col = at % cols;
    int sum = 0;
    for (uint64_t i = threadIdx.x % 32; i < k; i += 32) sum += EntryAt(row, i) * EntryAt(kFirstRowOfB + col, i);
    sum = __reduce_add_sync(~0u, sum);
    if (threadIdx.x % 32 == 0 && c[row * stride + col] != static_cast<float>(sum)) atomicAdd(wrong, 1u);
  }
}

struct LargeShape {
  size_t m, n, k, lda, ldc;
};

// With the default workspace, so in many slabs; all of c is checked, and of gatheredA, which is registered.
void ExpectExactLargeProduct(int rank, tcComm_t comm, const LargeShape& shape, bool gathers) {
  constexpr int kBlocks = 1024, kThreads = 256;
  const size_t rows = shape.m / 2;
  const size_t c_elements = (shape.m - 1) * shape.ldc + shape.n;
  const size_t gathered_bytes = shape.m * shape.k * sizeof(__nv_bfloat16);
  Device<__nv_bfloat16> a((rows - 1) * shape.lda + shape.k), b(shape.n * shape.k);
  Device<float> c(c_elements);
  Device<unsigned> wrong(1);
  void* gathered = nullptr;
  tcWindow_t window = nullptr;
  if (gathers) {
    TC_EXPECT_OK(tcMemAlloc(&gathered, gathered_bytes));
    TC_EXPECT_OK(tcCommRegister(comm, gathered, gathered_bytes, &window));
  }
  const tcStream_t stream = TestStream();
  FillEntries<<<kBlocks, kThreads, 0, stream>>>(a, rows, shape.k, shape.lda, rank * rows);
  FillEntries<<<kBlocks, kThreads, 0, stream>>>(b, shape.n, shape.k, shape.k, kFirstRowOfB);
  CUDA_EXPECT_OK(cudaMemsetAsync(c, 0xff, c_elements * sizeof(float), stream));
  CUDA_EXPECT_OK(cudaStreamSynchronize(stream));
  Rendezvous();
  tcGemmConfig_t config;
  TC_GEMM_CONFIG_INIT(&config);
  config.outType = tcFloat32;
  config.lda = shape.lda;
  config.ldc = shape.ldc;
  config.gatheredA = gathered;
  TC_EXPECT_OK(tcFusedAllGatherGemm(a, b, c, shape.m, shape.n, shape.k, tcBfloat16, &config, comm, stream));
  TC_EXPECT_OK(tcStreamSynchronize(comm, stream));
  Rendezvous();  // CUDA loads the kernels that follow
  CheckSums<<<kBlocks, kThreads, 0, stream>>>(c, shape.m, shape.n, shape.ldc, shape.k, wrong);
  if (gathers) {
    CheckEntries<<<kBlocks, kThreads, 0, stream>>>(static_cast<__nv_bfloat16*>(gathered), shape.m, shape.k, wrong);
  }
  unsigned count = ~0u;
  CUDA_EXPECT_OK(cudaStreamSynchronize(stream));
  CUDA_EXPECT_OK(cudaMemcpy(&count, wrong, sizeof(count), cudaMemcpyDeviceToHost));
  EXPECT_EQ(count, 0u) << "of " << shape.m * shape.n + (gathers ? shape.m * shape.k : 0) << " elements on rank "
                       << rank;
  std::printf("rank %d: %zu elements of c%s checked\n", rank, shape.m * shape.n,
              gathers ? " and all of gatheredA" : "");
  Rendezvous();
  if (gathers) {
    TC_EXPECT_OK(tcCommDeregister(comm, window));
    TC_EXPECT_OK(tcMemFree(gathered));
  }
}

TEST_F(Gpu, AFusedOperatorReachesBeyond32BitsOfElementsAndBytes) {
  size_t free_bytes = 0, total = 0;
  CUDA_EXPECT_OK(cudaMemGetInfo(&free_bytes, &total));
  if (free_bytes < 25'000'000'000) GTEST_SKIP() << "25 GB of GPU memory are needed";
  constexpr LargeShape kMany = {.m = 262'152, .n = 16, .k = 8200, .lda = 8200, .ldc = 16};
  static_assert(kMany.m * kMany.k > size_t{1} << 31);
  constexpr LargeShape kFar = {.m = 2050, .n = 24, .k = 72, .lda = 2'100'000, .ldc = 524'400};
  static_assert((kFar.m / 2 - 1) * kFar.lda * 2 > size_t{1} << 32 && (kFar.m - 1) * kFar.ldc * 4 > size_t{1} << 32);
  tcConfig_t config = TestConfig();
  config.workspaceBytes = 0;  // the default
  RunRanks(
      Launch::kThreads, 2,
      [&](int rank, tcComm_t comm) {
        ExpectExactLargeProduct(rank, comm, kMany, false);
        ExpectExactLargeProduct(rank, comm, kMany, true);
        ExpectExactLargeProduct(rank, comm, kFar, false);
      },
      config);
}

TEST_F(Gpu, RanksThatShareADeviceMayNotUseTheDefaultStream) {
  if (GpuCount() > 1) GTEST_SKIP() << "ranks share a GPU here only when there is one";
  tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  RunRanks(Launch::kThreads, 2, [](int, tcComm_t comm) {
    EXPECT_EQ(tcBarrier(comm, nullptr), tcInvalidUsage);
    EXPECT_NE(std::string(tcGetLastError(comm)).find("stream of its own"), std::string::npos) << tcGetLastError(comm);
  });
  tcSetLogCallback(nullptr, nullptr);
}

// Forks, so it runs in a process that has not touched CUDA: see the filter in CMakeLists.txt.
TEST(GpuFork, TwoProcessesOnOneGpuAreRefusedAndBothNamed) {
  if (GpuCount() == 0) GTEST_SKIP() << "no GPU";
  tcUniqueId id;
  TC_EXPECT_OK(tcGetUniqueId(&id));
  pid_t children[2];
  for (int rank = 0; rank < 2; ++rank) {
    children[rank] = ::fork();
    if (children[rank] != 0) continue;
    tcSetLogCallback([](int, const char*, void*) {}, nullptr);
    tcConfig_t config = TestConfig();
    config.backend = tcBackendCuda;
    config.device = 0;
    tcComm_t comm = nullptr;
    const tcResult_t result = tcInitComm(&comm, 2, &id, rank, &config);
    const std::string said = tcGetLastError(nullptr);
    const bool named = said.find("two processes on one GPU") != std::string::npos &&
                       said.find("rank 0") != std::string::npos && said.find("rank 1") != std::string::npos;
    if (!named) std::printf("rank %d: %d %s\n", rank, result, said.c_str());
    std::fflush(nullptr);
    ::_exit(result == tcInvalidUsage && named ? 0 : 1);
  }
  for (const pid_t child : children) {
    int status = 0;
    ::waitpid(child, &status, 0);
    EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
  }
}

void GatherInAWindow(int rank, tcComm_t comm, int round) {
  constexpr int kCount = 1000;
  const auto value = [&](int of_rank) { return 1000 * round + 10 * of_rank + 1; };
  void* memory = nullptr;
  tcWindow_t window = nullptr;
  std::vector<int> all(2 * kCount, 0);
  std::fill_n(all.begin() + rank * kCount, kCount, value(rank));
  const size_t bytes = all.size() * sizeof(int);
  TC_EXPECT_OK(tcMemAlloc(&memory, bytes));
  CopyWindow(comm, memory, all.data(), bytes);
  TC_EXPECT_OK(tcCommRegister(comm, memory, bytes, &window));
  TC_EXPECT_OK(tcAllGather(static_cast<int*>(memory) + rank * kCount, memory, kCount, tcInt32, comm, TestStream()));
  CopyWindow(comm, all.data(), memory, bytes);
  for (int i = 0; i < 2 * kCount; ++i) ASSERT_EQ(all[i], value(i / kCount)) << "element " << i << ", round " << round;
  TC_EXPECT_OK(tcCommDeregister(comm, window));
  TC_EXPECT_OK(tcMemFree(memory));
}

// Rank 0 shares its memory by cudaIpc, rank 1 does so in every second round. Rank 0 lets go of a communicator while
// rank 1 still has it, and makes another, which must not get memory that rank 1 has open.
TEST(GpuFork, RanksShareMemoryInDifferentWaysAndLetGoAtDifferentTimes) {
  ::setenv("TC_TEST_BACKEND", "cuda", 1);
  RunRanks(Launch::kProcesses, 2, [](int rank, tcComm_t first) {
    const auto destroy = [](tcComm_t comm) {
      if (comm != nullptr) TC_EXPECT_OK(tcCommDestroy(comm));
    };
    const tcConfig_t config = TestConfig();
    tcComm_t before = nullptr;
    for (int round = 0; round < 6; ++round) {
      ::setenv("TC_VMM_DISABLE", rank == 0 || round % 2 == 0 ? "1" : "0", 1);
      tcComm_t comm = nullptr;
      if (rank == 0) destroy(before);
      TC_EXPECT_OK(tcCommSplit(first, 0, rank, &comm, &config));  // with a configuration it reads the environment anew
      if (rank == 1) destroy(before);
      GatherInAWindow(rank, comm, round);
      before = comm;
    }
    destroy(before);
  });
}

}  // namespace
}  // namespace tc::test
