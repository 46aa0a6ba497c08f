// The facts of a machine that plans are made by: what each plane carries, how long signals take, what its GPUs compute.
// Read from and written to JSON; docs/FACTS.md describes the fields.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tc.h"

namespace tc::platform {

// Of the JSON's fields. A file without a version is of version 1.
constexpr int kFactsVersion = 1;

constexpr int kMostGpus = 256;

struct Interval {
  double low = 0, high = 0;
};

// Several GPUs move data at the same time: two, each to the other; each to the next; each to every other at once; GPUs
// below one switch to GPUs below two others.
enum class Pattern { kBothWays, kRing, kAllToAll, kTwoRoots };
constexpr Pattern kPatterns[] = {Pattern::kBothWays, Pattern::kRing, Pattern::kAllToAll, Pattern::kTwoRoots};

using RateByPath = std::map<std::string, double>;  // GB/s of one GPU in one direction, by the path's name

struct PlaneFacts {
  RateByPath alone = {};              // one pair at a time, as many SMs as it takes
  std::map<int, double> by_sms = {};  // one pair of the best path, by blocks of 1024 threads; empty: not measured
  int saturating_sms = 0;             // 0: it takes no SM
  std::map<Pattern, RateByPath> at_once = {};  // of the slowest GPU; a pattern or path that is missing was not measured
};

struct HostStagedFacts {
  double write_alone = 0, read_alone = 0;
  double at_once = 0;  // all GPUs write and read at the same time: each direction of each
  int saturating_sms = 0;
};

// From one node to others, by NCCL.
struct BetweenNodesFacts {
  double gb_s_per_gpu = 0;
  double latency_us = 0;  // of the smallest collective
};

struct GpuFacts {
  std::string model = {};
  std::string arch = {};  // "sm_90"
  int sms = 0;
  std::optional<double> smem_per_block_kib = {};
  std::optional<double> bf16_tflops = {};         // of cuBLAS at 8192 x 8192 x 8192
  std::optional<double> hbm_gb_s = {};            // of a copy, read and write together
  std::optional<double> own_gemm_of_cublas = {};  // how fast this library's GEMM is: 1 as cuBLAS, 0.5 half of it
};

struct FactTable {
  std::string name, source, link;
  bool built_in = false;  // nobody measured this machine
  int gpus = 0;
  GpuFacts gpu;
  std::vector<std::vector<std::string>> paths;  // [gpus][gpus], as `nvidia-smi topo -m` names them; "X" with itself
  bool p2p = true;                              // GPUs reach each other's memory
  std::vector<tcPlane_t> failed_planes;         // verification found them broken
  std::string native_atomics, atomics_lost;     // JSON, as reported; no plan depends on it
  std::map<tcPlane_t, PlaneFacts> planes;       // push, pull, copy engine: those that were measured
  std::optional<HostStagedFacts> host_staged;
  std::map<std::string, double> nccl_busbw;  // GB/s, "all_gather", "all_gather_128_mib", "all_gather_p2p_disabled"
  int nccl_sms = 0;
  std::optional<double> small_message;      // GB/s of transfers below 1 MiB
  std::map<std::string, Interval> latency;  // us, by the name of what was measured
  double bandwidth_interference = 0;        // share of a plane's bandwidth that a running GEMM takes
  std::map<int, Interval> gemm_slowdown;    // measured, by SMs given to communication: 0.04 is 4 % longer
  double row_scatter_penalty = 0;           // share of the bandwidth that 8 KiB rows cost against one range
  std::optional<BetweenNodesFacts> between_nodes;
};

// Best first, as PathClass counts: 0 for NVLink and ranks on one processor ("SHM"), 1 for PIX, ... 5 for SYS. -1: no
// path's name.
int PathOrder(const std::string& name);

// tcInvalidArgument with the place and what is wrong there. *table is complete, and safe to plan by, or untouched.
Status ParseFactTable(const std::string& text, FactTable* table);

// The same with the file's name before it; also for what is no regular file, or larger than 4 MiB.
Status ReadFactTable(const std::string& path, FactTable* table);

// All of it; ParseFactTable gives the same table again.
std::string ToJson(const FactTable& table);

// What is known of a machine without measuring it.
struct MachineKind {
  bool host = false;      // ranks on processors
  std::string arch = {};  // "sm_90"
  int sms = 0;
  std::vector<std::vector<std::string>> paths = {};
};
// The figures of a machine of that kind that was measured: 2x H200 where there is NVLink, else 4x RTX PRO 5000.
FactTable BuiltInFacts(const MachineKind& kind);

// The file's table, or, with a warning in *warning, the built-in one; that without a warning where `path` is empty.
FactTable FactsOrBuiltIn(const std::string& path, const MachineKind& kind, std::string* warning);

}  // namespace tc::platform
