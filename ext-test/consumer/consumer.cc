// A C++11 program that knows tc.h only.
#include <tc.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <type_traits>
#include <vector>

static_assert(sizeof(tcUniqueId) == 128, "the id travels through launchers as 128 bytes");
static_assert(std::is_same<tcResult_t, std::int32_t>::value, "codes have one size on every platform");
static_assert(std::is_standard_layout<tcConfig_t>::value && std::is_standard_layout<tcGemmConfig_t>::value,
              "structures are plain C");
static_assert(std::is_standard_layout<tcMoeConfig_t>::value && std::is_standard_layout<tcOpDesc_t>::value,
              "structures are plain C");

namespace {

constexpr int kM = 21, kN = 17, kK = 33;

void Check(tcResult_t result, const char* call) {
  if (result == tcSuccess) return;
  std::fprintf(stderr, "%s: %s: %s\n", call, tcGetErrorString(result), tcGetLastError(nullptr));
  std::exit(1);
}
#define CHECK(call) Check((call), #call)

float ValueA(int row, int col) { return static_cast<float>((row * 3 + col * 5) % 19 - 9) / 8; }
float ValueB(int rank, int row, int col) { return static_cast<float>((row * 7 + col + rank) % 11 - 5) / 4; }

void RunRank(int rank, int n_ranks, const tcUniqueId& id) {
  tcConfig_t config;
  CHECK(TC_CONFIG_INIT(&config));
  config.backend = tcBackendHost;
  config.name = "c++11";
  tcComm_t comm = nullptr;
  CHECK(tcInitComm(&comm, n_ranks, &id, rank, &config));

  const int per_rank = (kM + n_ranks - 1) / n_ranks;
  std::vector<float> a, b, c(kM * kN);
  for (int i = rank * per_rank; i < kM && i < (rank + 1) * per_rank; ++i) {
    for (int j = 0; j < kK; ++j) a.push_back(ValueA(i, j));
  }
  for (int i = 0; i < kN; ++i) {
    for (int j = 0; j < kK; ++j) b.push_back(ValueB(rank, i, j));
  }
  tcStream_t stream = nullptr;
  CHECK(tcStreamCreate(comm, &stream));
  CHECK(tcFusedAllGatherGemm(a.data(), b.data(), c.data(), kM, kN, kK, tcFloat32, nullptr, comm, stream));
  CHECK(tcStreamSynchronize(comm, stream));
  for (int i = 0; i < kM; ++i) {
    for (int j = 0; j < kN; ++j) {
      double want = 0;
      for (int k = 0; k < kK; ++k) want += static_cast<double>(ValueA(i, k)) * ValueB(rank, j, k);
      if (!(std::fabs(c[i * kN + j] - want) <= 1e-4)) {
        std::fprintf(stderr, "rank %d: c[%d][%d] is %g, not %g\n", rank, i, j, c[i * kN + j], want);
        std::exit(1);
      }
    }
  }
  CHECK(tcStreamDestroy(comm, stream));
  CHECK(tcCommDestroy(comm));
}

void RunRanks(int n_ranks) {
  tcUniqueId id;
  CHECK(tcGetUniqueId(&id));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank) threads.emplace_back(RunRank, rank, n_ranks, id);
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

int main() {
  RunRanks(1);
  RunRanks(4);
  std::puts("consumer: ok");
  return 0;
}
