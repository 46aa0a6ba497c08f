// Ranks the ways to run an operator by what a cost model predicts of them:
//   T = max(T_comm, ceil(tiles / (SMs - communication SMs)) * t_tile) + head + tail.
// Pure functions of the operator, the fact table, the ranks and what verification found: the same on every rank.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/fact_table.h"
#include "tc.h"

namespace tc {

// A kernel as the planner sees it.
struct PlannedKernel {
  std::string name;
  uint32_t planes = 0;              // bit p: runs on tcPlane_t p
  uint64_t tile_m = 0, tile_n = 0;  // of its GEMM; 0: it computes nothing
  uint64_t most_m = UINT64_MAX;     // rows that it is made for
  bool stages = false;              // knows the staged order of destinations
  double of_cublas = 1;             // rate of a full tile against cuBLAS's
};

struct PlanRequest {
  tcOp_t op = tcOpBarrier;
  tcDataType_t type = tcBfloat16;
  uint64_t count = 0;                 // elements, as a plain collective takes them
  uint64_t m = 0, n = 0, k = 0;       // of a fused GEMM: all rows, this rank's columns or depth
  int ranks = 1;                      // of one node
  int nodes = 1;                      // with as many ranks each; between them NCCL
  std::vector<int> gpu_of_rank = {};  // in the table; empty: 0, 1, ...
  // What a push brings has to be moved once more by its receiver (gathered rows that are wanted in memory which is not
  // registered); a pull puts it in its place.
  bool local_hop = false;
  std::vector<PlannedKernel> kernels = {};  // empty: all that the library is designed to have on that architecture
  // Of SM planes: rows of a chunk (fused), or bytes; empty: a few sizes are tried.
  std::vector<uint64_t> chunks = {};
  tcPlane_t plane = tcPlaneAuto;                 // or the only one
  int comm_sms = 0;                              // or the only number
  std::map<tcPlane_t, std::string> failed = {};  // verification failed, and how
};

// kTurn: a collective of this library, then cuBLAS. kNccl: NCCL, then cuBLAS where there is a GEMM.
enum class Way { kOne, kTurn, kNccl };
// Destinations one after the other, each rank beginning with its neighbour; or in steps that all ranks take together,
// so that there is one stream out of a rank and one into it.
enum class Order { kRotated, kStaged };
enum class Bound { kCommunication, kCompute, kLatency };

struct Candidate {
  Way way = Way::kOne;
  std::string kernel;
  tcPlane_t plane = tcPlaneAuto;  // of NCCL: auto
  int comm_sms = 0;
  uint64_t chunk_bytes = 0;
  Order order = Order::kRotated;
  Bound bound = Bound::kLatency;
  double comm_us = 0, compute_us = 0, head_us = 0, tail_us = 0, total_us = 0;
  double gb_s = 0;  // what comm_us comes to
};

struct Plan {
  std::vector<Candidate> ranked;  // the best first; never empty
  std::map<tcPlane_t, std::string> left_out;
  std::vector<std::string> assumptions;  // what the table does not say
  std::string reason;

  const Candidate& best() const { return ranked.front(); }
};

// tcUnsupported: an operator that there is no model of. tcInvalidArgument: numbers that are none.
Status MakePlan(const PlanRequest& request, const platform::FactTable& table, Plan* plan);

// The best of each way and plane, the best first.
std::vector<Candidate> BestOfEachKind(const Plan& plan);

// What a GEMM takes on `sms` SMs, in us.
double GemmTime(const platform::FactTable& table, const PlannedKernel& kernel, const PlanRequest& request, int sms);

// The rows that the design has for an architecture.
std::vector<PlannedKernel> DesignedKernels(const std::string& arch);

const char* WayName(Way way);
const char* OrderName(Order order);
const char* BoundName(Bound bound);

// "push with 4 SMs, rotated, chunks of 524288 bytes"
std::string Describe(const Candidate& candidate);

}  // namespace tc
