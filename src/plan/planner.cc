#include "plan/planner.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <tuple>

#include "base/data_type.h"
#include "plan/plan.h"

namespace tc {
namespace {

using platform::FactTable;
using platform::Pattern;
using platform::PlaneFacts;

constexpr double kMiB = 1 << 20;
// Where the table is silent. Each use is told among the plan's assumptions, or is too small to decide anything.
constexpr double kAssumedSignalUs = 3, kAssumedNodeUs = 1;
constexpr double kAssumedHostStaged = 25;  // GB/s: what NCCL reaches through host memory over PCIe 5
constexpr platform::BetweenNodesFacts kAssumedBetweenNodes = {25, 15};  // an adapter of 200 Gbit/s for each GPU
constexpr double kAssumedFloat32 = 0.1;                                 // of the bf16 rate
constexpr int kReferenceExtent = 8192;                                  // of the GEMM whose rate the table holds

double CeilDivide(double a, double b) { return std::ceil(a / b); }

// Time of `bytes` at GB/s, in us.
double Time(double bytes, double gb_s) { return bytes / gb_s * 1e-3; }

// What an operator moves and computes.
struct Work {
  double pair_bytes = 0;     // from each rank of a node to each other one of it
  double between_bytes = 0;  // into and out of each GPU between nodes
  double epochs = 1;
  bool gemm = false;
  bool produces = false;  // the GEMM makes what is moved, instead of using it
  double row_bytes = 0;   // of the rows that are moved
};

Status MakeWork(const PlanRequest& request, Work* work) {
  const double element = static_cast<double>(ElementBytes(request.type));
  const double ranks = request.ranks, nodes = request.nodes, all = ranks * nodes;
  const double block = static_cast<double>(request.count) * element;
  const double rows = CeilDivide(static_cast<double>(request.m), all);
  const auto each_block = [&](double bytes) {  // a block of each rank reaches, or comes from, every other
    work->pair_bytes = bytes * nodes;
    work->between_bytes = bytes * (nodes - 1);
  };
  switch (request.op) {
    case tcOpBarrier:
      return {};
    case tcOpAllGather:
    case tcOpAllGatherV:
    case tcOpReduceScatter:
    case tcOpReduceScatterV:
      each_block(block);
      return {};
    case tcOpBroadcast:
      work->pair_bytes = block;
      work->between_bytes = nodes > 1 ? block : 0;
      return {};
    case tcOpAllToAll:
    case tcOpAllToAllV:
      work->pair_bytes = block * nodes;
      work->between_bytes = block * ranks * (nodes - 1);
      return {};
    case tcOpAllReduce:
      if (request.nodes == 1 && ReducesInOneShot(request.count * ElementBytes(request.type), request.ranks, SIZE_MAX)) {
        work->pair_bytes = block;
        return {};
      }
      each_block(2 * block / all);
      work->epochs = 2;
      return {};
    case tcOpAllGatherGemm:
      work->gemm = true;
      work->row_bytes = static_cast<double>(request.k) * element;
      each_block(rows * work->row_bytes);
      return {};
    case tcOpGemmReduceScatter:
    case tcOpGemmAllReduce:
      work->gemm = work->produces = true;
      work->row_bytes = static_cast<double>(request.n) * element;
      work->epochs = request.op == tcOpGemmAllReduce ? 2 : 1;
      each_block(rows * work->row_bytes * work->epochs);
      return {};
    default:
      return Error(tcUnsupported, "the planner has no model of %s yet", OpName(request.op));
  }
}

// Everything that the predictions of one request share.
class Model {
 public:
  Model(const PlanRequest& request, const FactTable& table, const Work& work, Plan* plan)
      : request_(request),
        table_(table),
        work_(work),
        plan_(plan),
        kernels_(request.kernels.empty() ? DesignedKernels(table.gpu.arch) : request.kernels) {
    FindPaths();
    spans_two_roots_ = SpansTwoRoots();
    node_us_ = Latency("empty_graph_node").value_or(kAssumedNodeUs);
    signal_us_ = SignalTime() / 2;
    meeting_us_ = MeetingTime();
    total_bytes_ = work.pair_bytes * (request.ranks - 1);
    if (request.nodes > 1) {
      if (!table.between_nodes) {
        Assume(Format("between nodes, which the table does not know: NCCL with %g GB/s a GPU and %g us",
                      kAssumedBetweenNodes.gb_s_per_gpu, kAssumedBetweenNodes.latency_us));
      }
      between_ = table.between_nodes.value_or(kAssumedBetweenNodes);
      between_us_ = Time(work.between_bytes, between_.gb_s_per_gpu);
    }
    if (work.gemm && request.type == tcFloat32) {
      Assume(Format("an fp32 GEMM at %g of the bf16 rate", kAssumedFloat32));
    }
    if (table.built_in) Assume("the built-in model: nobody measured this machine");
  }

  void AddCandidates() {
    for (const tcPlane_t plane : {tcPlanePush, tcPlanePull, tcPlaneCopyEngine, tcPlaneHostStaged}) {
      std::string why;
      if (!Usable(plane, &why)) {
        plan_->left_out[plane] = why;
        continue;
      }
      for (const Order order : {Order::kRotated, Order::kStaged}) {
        if (order == Order::kStaged && (request_.ranks < 3 || plane == tcPlaneHostStaged || !Stages(plane))) continue;
        const std::vector<double> steps = StepRates(plane, order);
        for (const int sms : SmChoices(plane)) AddOnPlane(plane, order, steps, sms);
      }
    }
    AddNccl();
  }

 private:
  std::optional<double> Latency(const std::string& key) const {
    const auto found = table_.latency.find(key);
    return found == table_.latency.end() ? std::nullopt : std::optional(found->second.high);
  }

  // The longest round trip of a signal between these ranks.
  double SignalTime() const {
    double longest = 0;
    for (const auto& [key, range] : table_.latency) {
      if (key.rfind("signal_rtt", 0) == 0 && key != "signal_rtt_host") longest = std::max(longest, range.high);
    }
    return longest > 0 ? longest : kAssumedSignalUs;
  }

  // All ranks meet, as at the start of every epoch: measured with as many ranks, or with the next more, or in
  // proportion.
  double MeetingTime() const {
    if (request_.ranks == 1) return 0;
    double time = 0;
    int of_ranks = 0;
    for (const auto& [key, range] : table_.latency) {
      constexpr const char* kPrefix = "slot_barrier_";
      if (key.rfind(kPrefix, 0) != 0) continue;
      const int ranks = std::stoi(key.substr(std::char_traits<char>::length(kPrefix)));
      const bool nearer = of_ranks < request_.ranks ? ranks > of_ranks : ranks >= request_.ranks && ranks < of_ranks;
      if (!nearer) continue;
      of_ranks = ranks;
      time = range.high;
    }
    if (of_ranks == 0) return SignalTime() + node_us_;
    return of_ranks >= request_.ranks ? time : time * request_.ranks / of_ranks;
  }

  void Assume(const std::string& what) {
    auto& all = plan_->assumptions;
    if (std::find(all.begin(), all.end(), what) == all.end()) all.push_back(what);
  }

  const std::string& PathOf(int a, int b) const { return paths_[static_cast<size_t>(a * request_.ranks + b)]; }

  // The paths between ranks; GPUs that the table does not have are as far apart as any that it has.
  void FindPaths() {
    std::string worst = table_.gpus > 1 ? table_.paths[0][1] : "SYS";
    for (const auto& row : table_.paths) {
      for (const std::string& path : row) {
        if (platform::PathOrder(path) > platform::PathOrder(worst)) worst = path;
      }
    }
    bool unknown = false, shared = false;
    for (int a = 0; a < request_.ranks; ++a) {
      for (int b = 0; b < request_.ranks; ++b) {
        const int of_a = GpuOf(a), of_b = GpuOf(b);
        const bool known = of_a < table_.gpus && of_b < table_.gpus && of_a != of_b;
        paths_.push_back(known ? table_.paths[static_cast<size_t>(of_a)][static_cast<size_t>(of_b)] : worst);
        if (a == b || known) continue;
        (of_a == of_b ? shared : unknown) = true;
      }
    }
    if (shared) Assume(Format("ranks that share a GPU are %s apart, as any", worst.c_str()));
    if (unknown) {
      Assume(Format("%d ranks on a node whose table has %d GPUs: the others are %s apart", request_.ranks, table_.gpus,
                    worst.c_str()));
    }
    for (int step = 1; step < request_.ranks; ++step) {
      std::set<std::string>& paths = step_paths_.emplace_back();
      for (int rank = 0; rank < request_.ranks; ++rank) paths.insert(PathOf(rank, (rank + step) % request_.ranks));
    }
  }

  int GpuOf(int rank) const {
    return request_.gpu_of_rank.empty() ? rank : request_.gpu_of_rank[static_cast<size_t>(rank)];
  }

  // Groups of ranks that reach each other without a host bridge. A rank below one switch that writes to two others at
  // once is the pattern of kTwoRoots.
  bool SpansTwoRoots() const {
    std::vector<int> island(static_cast<size_t>(request_.ranks));
    int islands = 0;
    for (int rank = 0; rank < request_.ranks; ++rank) {
      int& own = island[static_cast<size_t>(rank)];
      own = -1;
      for (int other = 0; other < rank && own < 0; ++other) {
        if (platform::PathOrder(PathOf(rank, other)) <= platform::PathOrder("PXB")) {
          own = island[static_cast<size_t>(other)];
        }
      }
      if (own < 0) own = islands++;
    }
    return islands >= 3;
  }

  bool Does(const PlannedKernel& row, tcPlane_t plane) const {
    return (row.planes >> plane & 1) != 0 && work_.gemm == (row.tile_m != 0) && request_.m <= row.most_m;
  }

  bool Stages(tcPlane_t plane) const {
    return std::any_of(kernels_.begin(), kernels_.end(),
                       [&](const auto& row) { return row.stages && Does(row, plane); });
  }

  bool Usable(tcPlane_t plane, std::string* why) {
    if (request_.ranks == 1) {
      *why = "the only rank of a node moves nothing inside it";
      return plane == tcPlanePush;
    }
    if (request_.plane != tcPlaneAuto && request_.plane != plane) {
      *why = Format("plane %s was asked for", PlaneName(request_.plane));
      return false;
    }
    const auto failed = request_.failed.find(plane);
    const auto& in_table = table_.failed_planes;
    if (failed != request_.failed.end() || std::find(in_table.begin(), in_table.end(), plane) != in_table.end()) {
      *why = "its verification failed" + (failed == request_.failed.end() ? "" : ": " + failed->second);
      return false;
    }
    if (std::none_of(kernels_.begin(), kernels_.end(), [&](const auto& row) { return Does(row, plane); })) {
      *why = "there is no kernel for it";
      return false;
    }
    if (plane == tcPlaneHostStaged) return true;
    if (!table_.p2p) {
      *why = "GPUs do not reach each other's memory";
      return false;
    }
    const auto facts = table_.planes.find(plane);
    if (facts == table_.planes.end()) {
      *why = "the table has no figures of it";
      return false;
    }
    for (const auto& paths : step_paths_) {
      for (const std::string& path : paths) {
        if (facts->second.alone.count(path) != 0) continue;
        *why = "it was not measured between GPUs that are " + path + " apart";
        return false;
      }
    }
    return true;
  }

  static std::optional<double> Measured(const PlaneFacts& facts, Pattern pattern, const std::string& path) {
    const auto rates = facts.at_once.find(pattern);
    if (rates == facts.at_once.end()) return std::nullopt;
    const auto rate = rates->second.find(path);
    return rate == rates->second.end() ? std::nullopt : std::optional(rate->second);
  }

  // What is left of a rate under this pattern on the plane and path that lose most of it; none: measured nowhere.
  std::optional<double> WorstShare(Pattern pattern) const {
    std::optional<double> worst;
    for (const auto& [plane, facts] : table_.planes) {
      const auto rates = facts.at_once.find(pattern);
      if (rates == facts.at_once.end()) continue;
      for (const auto& [path, rate] : rates->second) {
        const auto alone = facts.alone.find(path);
        if (alone == facts.alone.end()) continue;
        worst = std::min({worst.value_or(1), rate / alone->second, 1.0});
      }
    }
    return worst;
  }

  double RateUnder(tcPlane_t plane, Pattern pattern, const std::string& path) {
    const PlaneFacts& facts = table_.planes.at(plane);
    const double alone = facts.alone.at(path);
    if (const auto measured = Measured(facts, pattern, path)) return std::min(*measured, alone);
    const double share = WorstShare(pattern).value_or(1);
    if (share < 1) {
      Assume(
          Format("%s between GPUs that are %s apart, when all GPUs move data: not measured, so %.2f of what one pair "
                 "reaches, as on the plane that loses most",
                 PlaneName(plane), path.c_str(), share));
    }
    return alone * share;
  }

  // Between two ranks while all others move data, too.
  double PairRate(tcPlane_t plane, Order order, const std::string& path) {
    if (request_.ranks == 2) return RateUnder(plane, Pattern::kBothWays, path);
    double rate = RateUnder(plane, Pattern::kRing, path);
    if (order == Order::kStaged) return rate;
    if (WorstShare(Pattern::kAllToAll)) rate = std::min(rate, RateUnder(plane, Pattern::kAllToAll, path));
    if (spans_two_roots_ && WorstShare(Pattern::kTwoRoots)) {
      rate = std::min(rate, RateUnder(plane, Pattern::kTwoRoots, path));
    }
    return rate;
  }

  // Step s moves the blocks from every rank r to r + s + 1. The ranks share bridges, so that a step is as slow as its
  // slowest pair: which is what the measured patterns hold.
  std::vector<double> StepRates(tcPlane_t plane, Order order) {
    std::vector<double> rates(static_cast<size_t>(request_.ranks - 1));
    for (int step = 1; step < request_.ranks; ++step) {
      double& slowest = rates[static_cast<size_t>(step - 1)];
      slowest = HUGE_VAL;
      if (plane == tcPlaneHostStaged) {
        slowest = HostStagedRate();
      } else {
        for (const std::string& path : step_paths_[static_cast<size_t>(step - 1)]) {
          slowest = std::min(slowest, PairRate(plane, order, path));
        }
      }
      if (table_.small_message && work_.pair_bytes < kMiB) slowest = std::min(slowest, *table_.small_message);
      if (work_.gemm) slowest *= 1 - table_.bandwidth_interference;
    }
    return rates;
  }

  double HostStagedRate() {
    if (table_.host_staged) return table_.host_staged->at_once;
    Assume(Format("the host-staged plane, which the table does not know: %g GB/s", kAssumedHostStaged));
    return kAssumedHostStaged;
  }

  int SaturatingSms(tcPlane_t plane) const {
    if (plane == tcPlaneHostStaged) return 2 * (table_.host_staged ? table_.host_staged->saturating_sms : 4);
    const auto facts = table_.planes.find(plane);
    return facts == table_.planes.end() ? 1 : facts->second.saturating_sms;
  }

  std::vector<int> SmChoices(tcPlane_t plane) const {
    if (request_.ranks == 1 || total_bytes_ == 0) return {0};
    if (plane == tcPlaneCopyEngine && SaturatingSms(plane) == 0) return {0};
    if (request_.comm_sms > 0) return {std::min(request_.comm_sms, std::max(table_.gpu.sms - 1, 1))};
    std::set<int> choices = {1, 2, 3, 4, 6, 8, 12, 16, 24, 32};
    choices.insert(SaturatingSms(plane));
    const int most = std::max(table_.gpu.sms / 2, 1);
    std::vector<int> fitting;
    for (const int sms : choices) {
      if (sms > 0 && sms <= most) fitting.push_back(sms);
    }
    return fitting;
  }

  // What `sms` SMs reach on one pair; with `potential` if no link held them up.
  double SmRate(tcPlane_t plane, int sms, bool potential) const {
    if (sms == 0) return HUGE_VAL;
    const auto facts = table_.planes.find(plane);
    if (plane == tcPlaneHostStaged || facts == table_.planes.end() || facts->second.by_sms.empty()) {
      double most = table_.host_staged ? table_.host_staged->at_once : kAssumedHostStaged;
      if (plane != tcPlaneHostStaged && facts != table_.planes.end()) {
        for (const auto& [path, rate] : facts->second.alone) most = std::max(most, rate);
      }
      const double share = static_cast<double>(sms) / std::max(SaturatingSms(plane), 1);
      return most * (potential ? share : std::min(share, 1.0));
    }
    const auto& curve = facts->second.by_sms;
    const auto [first_sms, first] = *curve.begin();
    if (potential || sms <= first_sms) return first * sms / first_sms;
    const auto above = curve.lower_bound(sms);
    if (above == curve.end()) return curve.rbegin()->second;
    const auto below = std::prev(above);
    const double share = static_cast<double>(sms - below->first) / (above->first - below->first);
    return below->second + share * (above->second - below->second);
  }

  std::vector<double> ChunkChoices(tcPlane_t plane) const {
    std::vector<double> sizes;
    const double unit = work_.gemm ? work_.row_bytes : 1;
    if (plane == tcPlaneCopyEngine) {
      sizes = {4 * kMiB, 8 * kMiB, 16 * kMiB};
    } else if (!request_.chunks.empty()) {
      for (const uint64_t chunk : request_.chunks) sizes.push_back(static_cast<double>(chunk) * unit);
    } else if (work_.gemm) {
      for (const double rows : {64, 128, 256, 512, 1024}) sizes.push_back(rows * unit);
    } else {
      sizes = {kMiB / 64, kMiB / 16, kMiB / 4, kMiB};
    }
    std::set<double> fitting;
    for (const double size : sizes) fitting.insert(std::max(std::min(size, work_.pair_bytes), 1.0));
    return {fitting.begin(), fitting.end()};
  }

  // The blocks of all steps, in chunks: as fast as the slowest of link, SMs together, and each SM with its signals.
  double MoveTime(tcPlane_t plane, Order order, const std::vector<double>& steps, int sms, double chunk) const {
    if (total_bytes_ == 0 && between_us_ == 0) return 0;
    const double chunks = static_cast<double>(steps.size()) * CeilDivide(work_.pair_bytes, chunk);
    const int busy = static_cast<int>(std::min<double>(sms, chunks));  // a chunk is one SM's
    double time = 0;
    for (const double link : steps) time += Time(work_.pair_bytes, std::min(link, SmRate(plane, busy, false)));
    if (sms == 0) {
      time += chunks * node_us_;  // a copy and a publisher are nodes
    } else {
      const double each = Time(total_bytes_, SmRate(plane, busy, true)) + CeilDivide(chunks, busy) * signal_us_;
      time = std::max(time, each);
    }
    if (order == Order::kStaged) time += static_cast<double>(steps.size() - 1) * signal_us_;
    if (request_.nodes == 1) return time;
    return std::max(time, between_us_) + std::min(time, between_us_) / request_.nodes;  // a node's blocks at a time
  }

  double Head(tcPlane_t plane) const {
    double head = meeting_us_ * work_.epochs;
    if (plane == tcPlaneHostStaged) head += Latency("signal_rtt_host").value_or(2 * kAssumedSignalUs);
    if (plane == tcPlaneCopyEngine) head += 2 * node_us_;  // the gate before, the last publisher behind
    if (request_.nodes > 1) head += between_.latency_us * work_.epochs;
    return head;
  }

  void Add(Candidate candidate) {
    candidate.total_us = std::max(candidate.comm_us, candidate.compute_us) + candidate.head_us + candidate.tail_us;
    if (candidate.way != Way::kOne && work_.gemm) {
      candidate.total_us = candidate.comm_us + candidate.compute_us + candidate.head_us + candidate.tail_us;
    }
    if (candidate.comm_us > 0) candidate.gb_s = (total_bytes_ + work_.between_bytes) / candidate.comm_us * 1e-3;
    const double work = std::max(candidate.comm_us, candidate.compute_us);
    candidate.bound = candidate.head_us + candidate.tail_us > work ? Bound::kLatency
                      : candidate.comm_us > candidate.compute_us   ? Bound::kCommunication
                                                                   : Bound::kCompute;
    plan_->ranked.push_back(std::move(candidate));
  }

  void AddOnPlane(tcPlane_t plane, Order order, const std::vector<double>& steps, int sms) {
    for (const double chunk : ChunkChoices(plane)) {
      Candidate candidate;
      candidate.plane = plane;
      candidate.order = order;
      candidate.comm_sms = sms;
      candidate.chunk_bytes = static_cast<uint64_t>(std::min(chunk, 9e18));
      candidate.comm_us = MoveTime(plane, order, steps, sms, chunk);
      candidate.head_us = Head(plane);
      candidate.tail_us = total_bytes_ > 0 ? signal_us_ : 0;
      for (const PlannedKernel& kernel : kernels_) {
        if (!Does(kernel, plane) || (order == Order::kStaged && !kernel.stages)) continue;
        candidate.kernel = kernel.name;
        if (!work_.gemm) {
          Add(candidate);
          continue;
        }
        if (sms < table_.gpu.sms) Add(Fused(candidate, kernel, steps, chunk));
      }
      if (work_.gemm) {
        candidate.way = Way::kTurn;
        candidate.kernel = "collective + cuBLAS";
        candidate.compute_us = BestGemm();
        candidate.tail_us += node_us_;
        Add(candidate);
      }
    }
  }

  Candidate Fused(Candidate candidate, const PlannedKernel& kernel, const std::vector<double>& steps,
                  double chunk) const {
    PlannedKernel own = kernel;
    own.of_cublas *= table_.gpu.own_gemm_of_cublas.value_or(1);
    const int sms = std::max(table_.gpu.sms - candidate.comm_sms, 1);
    candidate.compute_us = GemmTime(table_, own, request_, sms);
    if (request_.local_hop && (candidate.plane == tcPlanePush || candidate.plane == tcPlaneCopyEngine)) {
      candidate.compute_us += Time(2 * total_bytes_, *table_.gpu.hbm_gb_s);  // beside the GEMM, in the same memory
    }
    if (total_bytes_ == 0) return candidate;
    // The tiles of one chunk: what is computed when the last has come, or before the first can go.
    PlanRequest last = request_;
    last.m = static_cast<uint64_t>(std::max(chunk / work_.row_bytes, 1.0));
    const double tiles = std::min(GemmTime(table_, own, last, sms), candidate.compute_us);
    double longest = std::max(candidate.compute_us, candidate.comm_us + tiles);
    if (work_.produces) longest = std::max(longest, candidate.compute_us + Time(chunk, steps.back()));
    candidate.tail_us += longest - std::max(candidate.comm_us, candidate.compute_us);
    return candidate;
  }

  double BestGemm() const {
    double best = HUGE_VAL;
    for (const PlannedKernel& kernel : DesignedKernels(table_.gpu.arch)) {
      if (kernel.tile_m == 0 || request_.m > kernel.most_m) continue;
      best = std::min(best, GemmTime(table_, kernel, request_, table_.gpu.sms));
    }
    return best;
  }

  // Of an operator of NCCL's: bytes by all its ranks' bus bandwidth.
  std::optional<double> NcclRate(const std::string& op) const {
    if (!table_.p2p) {
      const auto found = table_.nccl_busbw.find(op + "_p2p_disabled");
      if (found != table_.nccl_busbw.end()) return found->second;
    }
    const auto exact = table_.nccl_busbw.find(op);
    if (exact != table_.nccl_busbw.end()) return exact->second;
    for (const auto& [key, rate] : table_.nccl_busbw) {
      if (key.rfind(op + "_", 0) == 0 && key != op + "_p2p_disabled") return rate;
    }
    return std::nullopt;
  }

  void AddNccl() {
    const auto smallest =
        Latency("nccl_smallest_graph").has_value() ? Latency("nccl_smallest_graph") : Latency("nccl_smallest");
    std::optional<double> rate;
    switch (request_.op) {
      case tcOpReduceScatter:
      case tcOpReduceScatterV:
      case tcOpGemmReduceScatter:
        rate = NcclRate("reduce_scatter");
        break;
      case tcOpAllReduce:
      case tcOpGemmAllReduce:
        rate = NcclRate("all_reduce").has_value() ? NcclRate("all_reduce") : NcclRate("reduce_scatter");
        break;
      case tcOpAllToAll:
      case tcOpAllToAllV:
        rate = NcclRate("all_to_all").has_value() ? NcclRate("all_to_all") : NcclRate("all_gather");
        break;
      default:
        rate = NcclRate("all_gather");
    }
    if (request_.ranks * request_.nodes == 1 || !rate || !smallest || request_.plane != tcPlaneAuto) return;
    Candidate candidate;
    candidate.way = Way::kNccl;
    candidate.kernel = work_.gemm ? "NCCL + cuBLAS" : "NCCL";
    candidate.comm_sms = table_.nccl_sms;
    candidate.head_us = *smallest;
    // In one shot this library moves more than NCCL does.
    const double bytes = request_.op == tcOpAllReduce && work_.epochs == 1
                             ? 2 * work_.pair_bytes * (request_.ranks - 1) / request_.ranks
                             : total_bytes_;
    candidate.comm_us = Time(bytes, *rate);
    if (request_.nodes > 1) {  // its ring passes each byte through every GPU, and a node's adapters side by side
      const double ring = std::min(*rate, between_.gb_s_per_gpu * request_.ranks);
      candidate.comm_us = Time(bytes + work_.between_bytes, ring);
      candidate.head_us = std::max(*smallest, between_.latency_us);
    }
    if (work_.gemm) {
      candidate.compute_us = BestGemm();
      candidate.tail_us = node_us_;
    }
    Add(candidate);
  }

  const PlanRequest& request_;
  const FactTable& table_;
  const Work& work_;
  Plan* const plan_;
  const std::vector<PlannedKernel> kernels_;
  double node_us_ = 0, signal_us_ = 0, meeting_us_ = 0;  // of a graph's node, one way, all ranks
  double total_bytes_ = 0;                               // into each rank from its node
  platform::BetweenNodesFacts between_;
  double between_us_ = 0;
  std::vector<std::string> paths_;                 // [ranks][ranks]
  std::vector<std::set<std::string>> step_paths_;  // of all pairs of a step
  bool spans_two_roots_ = false;
};

// Predictions that differ by less than 10 ns are equal: then as the library did before it could plan, by push where
// that is possible; on one plane what moves sooner, in case that predictions are a little off; then the fewest SMs.
bool Better(const Candidate& a, const Candidate& b) {
  const auto key = [](const Candidate& c) {
    const auto rounded = [](double us) { return std::round(us * 100); };
    return std::tuple(rounded(c.total_us), c.way, c.plane, c.order, rounded(c.comm_us), c.comm_sms, c.chunk_bytes);
  };
  return key(a) < key(b);
}

std::string ReasonOf(const PlanRequest& request, const Plan& plan) {
  const Candidate& best = plan.best();
  std::string reason;
  switch (best.bound) {
    case Bound::kCommunication:
      reason = Format("Communication bounds it: moving takes %.1f us, at %.1f GB/s", best.comm_us, best.gb_s);
      if (best.compute_us > 0) reason += Format(", the GEMM %.1f us", best.compute_us);
      break;
    case Bound::kCompute:
      reason = Format("The GEMM bounds it: %.1f us", best.compute_us);
      if (best.comm_us > 0) reason += Format("; moving takes %.1f us", best.comm_us);
      break;
    case Bound::kLatency:
      reason = Format("Latency bounds it: ranks meet and signal for %.1f us, and move data for %.1f us",
                      best.head_us + best.tail_us, best.comm_us);
      break;
  }
  reason += ". Chosen: " + Describe(best) + Format(", predicted to take %.1f us", best.total_us);
  for (const Candidate& other : BestOfEachKind(plan)) {
    if (other.way == best.way && other.plane == best.plane) continue;
    reason += Format("; %s would take %.1f us (%+.1f %%)", Describe(other).c_str(), other.total_us,
                     (other.total_us / best.total_us - 1) * 100);
  }
  reason += ".";
  if (best.order == Order::kStaged) {
    reason += " Destinations are staged because concurrent writes lose bandwidth here.";
  }
  for (const auto& [plane, why] : plan.left_out) {
    if (request.plane == tcPlaneAuto && request.ranks > 1) {
      reason += Format(" Not considered: %s (%s).", PlaneName(plane), why.c_str());
    }
  }
  return reason;
}

}  // namespace

Status MakePlan(const PlanRequest& request, const FactTable& table, Plan* plan) {
  constexpr int kMostNodes = 1 << 16;
  constexpr double kMostExtent = 1e12;
  if (request.ranks < 1 || request.ranks > platform::kMostGpus || request.nodes < 1 || request.nodes > kMostNodes) {
    return Error(tcInvalidArgument, "%d ranks on each of %d nodes: there can be 1 to %d, and 1 to %d", request.ranks,
                 request.nodes, platform::kMostGpus, kMostNodes);
  }
  if (ElementBytes(request.type) == 0) return Error(tcInvalidArgument, "type %d is no tcDataType_t", request.type);
  for (const uint64_t extent : {request.count, request.m, request.n, request.k}) {
    if (static_cast<double>(extent) > kMostExtent) {
      return Error(tcInvalidArgument, "%llu elements are more than can be", static_cast<unsigned long long>(extent));
    }
  }
  if (!request.gpu_of_rank.empty() && request.gpu_of_rank.size() != static_cast<size_t>(request.ranks)) {
    return Error(tcInternalError, "%zu GPUs are named for %d ranks", request.gpu_of_rank.size(), request.ranks);
  }
  Work work;
  TC_RETURN_IF_ERROR(MakeWork(request, &work));
  if (work.gemm && (request.m == 0 || request.n == 0 || request.k == 0)) {
    return Error(tcInvalidArgument, "m, n and k are %llu, %llu and %llu; a plan needs 1 or more",
                 static_cast<unsigned long long>(request.m), static_cast<unsigned long long>(request.n),
                 static_cast<unsigned long long>(request.k));
  }
  *plan = {};
  Model(request, table, work, plan).AddCandidates();
  if (plan->ranked.empty()) {
    std::string why;
    for (const auto& [plane, said] : plan->left_out) why += Format(" %s: %s.", PlaneName(plane), said.c_str());
    return Error(tcUnsupported, "%s cannot be planned:%s", OpName(request.op), why.c_str());
  }
  std::stable_sort(plan->ranked.begin(), plan->ranked.end(), Better);
  plan->reason = ReasonOf(request, *plan);
  return {};
}

std::vector<Candidate> BestOfEachKind(const Plan& plan) {
  std::vector<Candidate> best;
  for (const Candidate& candidate : plan.ranked) {
    const bool seen = std::any_of(best.begin(), best.end(), [&](const Candidate& other) {
      return other.way == candidate.way && other.plane == candidate.plane;
    });
    if (!seen) best.push_back(candidate);
  }
  return best;
}

double GemmTime(const FactTable& table, const PlannedKernel& kernel, const PlanRequest& request, int sms) {
  const auto tile_m = static_cast<double>(kernel.tile_m), tile_n = static_cast<double>(kernel.tile_n);
  const auto m = static_cast<double>(request.m), n = static_cast<double>(request.n), k = static_cast<double>(request.k);
  // The reference lost something in its last wave, too.
  const double reference = CeilDivide(kReferenceExtent, tile_m) * CeilDivide(kReferenceExtent, tile_n);
  const double filled = reference / (std::ceil(reference / table.gpu.sms) * table.gpu.sms);
  double rate = *table.gpu.bf16_tflops / table.gpu.sms / filled * kernel.of_cublas;  // TFLOP/s of an SM
  const auto element = static_cast<double>(ElementBytes(request.type));
  rate *= element == 1 ? 2 : element == 2 ? 1 : kAssumedFloat32;
  const double tile_us = 2 * tile_m * tile_n * k / rate * 1e-6;
  const double waves = std::ceil(CeilDivide(m, tile_m) * CeilDivide(n, tile_n) / sms);
  return std::max(waves * tile_us, Time((m * k + n * k + m * n) * element, *table.gpu.hbm_gb_s));
}

std::vector<PlannedKernel> DesignedKernels(const std::string& arch) {
  constexpr uint32_t kAll = 1u << tcPlanePush | 1u << tcPlanePull | 1u << tcPlaneCopyEngine | 1u << tcPlaneHostStaged;
  const bool wide = arch == "sm_90" || arch == "sm_100";  // wgmma and its successor
  const uint64_t columns = wide ? 256 : 128;
  const PlannedKernel collective{.name = "collective", .planes = kAll, .stages = true};
  const PlannedKernel gemm{.name = Format("tile 128x%llu", static_cast<unsigned long long>(columns)),
                           .planes = kAll,
                           .tile_m = 128,
                           .tile_n = columns,
                           .stages = true};
  PlannedKernel skinny = gemm;
  skinny.name = Format("tile 64x%llu", static_cast<unsigned long long>(columns));
  skinny.tile_m = skinny.most_m = 64;
  return {collective, gemm, skinny};
}

const char* WayName(Way way) { return way == Way::kOne ? "one_kernel" : way == Way::kTurn ? "in_turn" : "nccl"; }
const char* OrderName(Order order) { return order == Order::kRotated ? "rotated" : "staged"; }
const char* BoundName(Bound bound) {
  return bound == Bound::kCommunication ? "communication" : bound == Bound::kCompute ? "compute" : "latency";
}

std::string Describe(const Candidate& candidate) {
  if (candidate.way == Way::kNccl) return candidate.kernel;
  std::string text = PlaneName(candidate.plane);
  text += candidate.comm_sms == 0   ? " without SMs"
          : candidate.comm_sms == 1 ? " with 1 SM"
                                    : Format(" with %d SMs", candidate.comm_sms);
  text += std::string(", ") + OrderName(candidate.order);
  if (candidate.way == Way::kTurn) text += ", then cuBLAS";
  return text;
}

}  // namespace tc
