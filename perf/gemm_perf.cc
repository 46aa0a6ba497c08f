// Measures the library's matrix product alone on one GPU, beside cuBLASLt's.
//
// No operator of tc.h is a product alone, so this uses the library's internal headers. Contenders take turns in each
// iteration, as graphs of several products over input sets that together do not fit the L2 cache.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <functional>
#include <memory>
#include <random>

#include "atomic_file.h"
#include "cublaslt.h"
#include "cuda_handles.h"
#include "device.h"
#include "failure.h"
#include "gemm_kernels.h"
#include "gemm_options.h"
#include "run.h"

namespace tc::perf {
namespace {

using cuda::GemmProblem;

constexpr const char* kProgram = "gemm_perf";
constexpr const char* kExamples =
    "Exit code: 0 all results right, 1 wrong data or a failure, 2 a command line that cannot be run.\n"
    "\n"
    "  gemm_perf -M 4K,8K -N 8K -K 8K --peer cublaslt\n"
    "  gemm_perf --preset fused --peer cublaslt -J report.json\n"
    "  gemm_perf --random 200 --seed 7 --peer cublaslt\n"
    "  gemm_perf --preset decode --sweep\n";

// The products of the fused operators that are measured against NCCL and cuBLAS: M, N and K of one rank.
constexpr GemmShape kFused[] = {
    {512, 14336, 4096},   {1024, 14336, 4096}, {2048, 14336, 4096}, {4096, 14336, 4096}, {8192, 14336, 4096},
    {4096, 8192, 8192},   {8192, 8192, 8192},  {16384, 8192, 8192}, {8192, 14336, 8192}, {512, 4096, 14336},
    {1024, 4096, 14336},  {2048, 4096, 14336}, {4096, 4096, 14336}, {8192, 4096, 14336}, {8192, 8192, 14336},
    {16384, 14336, 4096}, {4096, 4096, 4096},  {2048, 2048, 2048},
};
// Rows of a batch that is decoded, and the weights of a transformer's layers.
constexpr GemmShape kDecode[] = {
    {1, 14336, 4096}, {8, 14336, 4096}, {16, 14336, 4096}, {64, 14336, 4096},
    {1, 4096, 14336}, {8, 4096, 14336}, {16, 4096, 14336}, {64, 4096, 14336},
};

struct Options {
  std::vector<GemmShape> shapes;
  tcDataType_t type = tcBfloat16;
  tcBLayout_t layout = tcBLayoutNK;
  bool peer = false;
  bool sweep = false;
  int iters = 20;
  int warmup_iters = 3;
  uint64_t seed = 1;
  int timeout_s = 0;
  std::string json;
};

// N and K are multiples of 8; sizes are spread evenly over their logarithms.
std::vector<GemmShape> RandomShapes(uint64_t count, uint64_t seed) {
  std::mt19937_64 engine(seed);
  const auto draw = [&](double least, double most, uint64_t multiple) {
    const double part = static_cast<double>(engine() >> 11) * 0x1p-53;
    const auto size = static_cast<uint64_t>(least * std::exp(part * std::log(most / least)));
    return std::max<uint64_t>(size / multiple * multiple, multiple);
  };
  std::vector<GemmShape> shapes;
  for (uint64_t i = 0; i < count; ++i) {
    const size_t m = draw(1, 16384, 1);
    const size_t n = draw(256, 16384, 8);
    shapes.push_back({m, n, draw(256, 16384, 8)});
  }
  return shapes;
}

std::variant<Options, EarlyExit> ParseOptions(int argc, const char* const* argv) {
  CLI::App app("Measures and checks a matrix product on one GPU: c [M,N] = a [M,K] x b.", kProgram);
  app.footer(kExamples);
  std::string m = "4096", n = "4096", k = "4096", preset, random = "0", type = "bfloat16", layout = "nk", peer;
  std::string iters = "20", warmup_iters = "3", seed = "1", timeout = "0";
  Options options;
  const auto add = [&](const char* name, std::string& text, const char* kind, const char* help) {
    app.add_option(name, text, help)->type_name(kind)->capture_default_str();
  };
  add("-M", m, "LIST", "Rows of a and c");
  add("-N", n, "LIST", "Columns of c");
  add("-K", k, "LIST", "The summed dimension");
  add("--preset", preset, "fused|decode", "These shapes instead of -M, -N and -K");
  add("--random", random, "COUNT", "So many random shapes instead");
  add("-d,--datatype", type, "half|bfloat16", "Element type");
  add("-b,--blayout", layout, "nk|kn", "nk: b is [n,k]; kn: b is [k,n]");
  add("--peer", peer, "cublaslt", "Also measure this library, with the best of its first 8 algorithms");
  app.add_flag("--sweep", options.sweep, "Also measure every other shape of tiles and number of splits");
  add("-n,--iters", iters, "N", "Timed iterations of a shape");
  add("-w,--warmup_iters", warmup_iters, "N", "Iterations before the timed ones");
  add("--seed", seed, "N", "Seed of inputs, sampled checks and random shapes");
  add("-T,--timeout", timeout, "SECONDS", "End the whole run after this many seconds; 0: never");
  app.add_option("-J,--json", options.json, "Also write a report with every time to FILE")->type_name("FILE");
  return ParseCommandLine(kProgram, app, argc, argv, [&] {
    const auto integer = [](const char* name, const std::string& text, uint64_t least) {
      return static_cast<int>(ParseInteger(name, text, least, 1000000));
    };
    options.iters = integer("-n/--iters", iters, 1);
    options.warmup_iters = integer("-w/--warmup_iters", warmup_iters, 0);
    options.timeout_s = integer("-T/--timeout", timeout, 0);
    options.seed = ParseInteger("--seed", seed, 0, ~uint64_t{0});
    if (type != "half" && type != "bfloat16") throw Failure("-d/--datatype: there are half and bfloat16.");
    if (layout != "nk" && layout != "kn") throw Failure("-b/--blayout: there are nk and kn.");
    if (!peer.empty() && peer != "cublaslt") throw Failure("--peer: there is cublaslt.");
    options.type = type == "half" ? tcFloat16 : tcBfloat16;
    options.layout = layout == "kn" ? tcBLayoutKN : tcBLayoutNK;
    options.peer = !peer.empty();
    const uint64_t random_shapes = ParseInteger("--random", random, 0, 100000);
    if (random_shapes > 0) {
      options.shapes = RandomShapes(random_shapes, options.seed);
    } else if (preset == "fused") {
      options.shapes.assign(std::begin(kFused), std::end(kFused));
    } else if (preset == "decode") {
      options.shapes.assign(std::begin(kDecode), std::end(kDecode));
    } else if (!preset.empty()) {
      throw Failure("--preset: there are fused and decode.");
    } else {
      for (const size_t rows : ParseSizes("-M", m)) {
        for (const size_t cols : ParseSizes("-N", n)) {
          for (const size_t terms : ParseSizes("-K", k)) {
            if (rows == 0 || cols == 0 || terms == 0) throw Failure("-M, -N and -K: a product of nothing.");
            if (cols % 8 != 0 || terms % 8 != 0) throw Failure("-N and -K: the core takes multiples of 8.");
            options.shapes.push_back({rows, cols, terms});
          }
        }
      }
    }
    return options;
  });
}

class DeviceMemory {
 public:
  DeviceMemory(Rank& process, size_t bytes) : process_(process) {
    RequireCuda(process_, cudaMalloc(&memory_, std::max<size_t>(bytes, 1)), "cudaMalloc");
  }
  ~DeviceMemory() { (void)cudaFree(memory_); }
  DeviceMemory(const DeviceMemory&) = delete;
  DeviceMemory& operator=(const DeviceMemory&) = delete;
  void* Data() const { return memory_; }

 private:
  Rank& process_;
  void* memory_ = nullptr;
};

// Products that take turns over the input sets, as one graph, and their times.
class Contender {
 public:
  Contender(Rank& process, cudaStream_t stream, int products, const std::function<void(int)>& launch)
      : products_(products), start_(process), end_(process), graph_(process, stream, [&] {
          for (int product = 0; product < products; ++product) launch(product);
        }) {
    graph_.Prepare(stream);
  }
  void Enqueue(cudaStream_t stream) {
    start_.Record(stream);
    graph_.Launch(stream);
    end_.Record(stream);
  }
  double Microseconds() const { return end_.MicrosecondsSince(start_) / products_; }
  std::vector<double> times_us;

 private:
  int products_;
  TimeStamp start_;
  TimeStamp end_;
  Graph graph_;
};

// In a process of its own. Sends the GPU, then a message for each shape.
class Measurement {
 public:
  Measurement(const Options& options, Rank& process, int device) : options_(options), process_(process) {
    process_.Send(UseDevice(process_, device));
    multiprocessors_ = cuda::HopperMultiprocessors();
    if (multiprocessors_ == 0) process_.Fail("the core needs a GPU of compute capability 9.0");
    if (options_.peer) peer_ = std::make_unique<CublasLt>();
    RequireCuda(process_, cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
    wrong_ = std::make_unique<DeviceMemory>(process_, sizeof(unsigned long long));
  }
  ~Measurement() { (void)cudaStreamDestroy(stream_); }
  Measurement(const Measurement&) = delete;
  Measurement& operator=(const Measurement&) = delete;

  void Measure(const GemmShape& shape);

 private:
  static constexpr uint64_t kSetsBytes = uint64_t{256} << 20;  // more than twice any L2 cache
  static constexpr double kGraphFlops = 2e11;                  // a few hundred microseconds, if the tensor cores bound
  static constexpr uint64_t kSamples = 16384;

  GemmProblem Problem(const GemmShape& shape, int set) const;
  uint64_t CheckSets(const GemmShape& shape);
  std::vector<GemmTiling> Tilings(const GemmShape& shape) const;
  int BestPeer(const GemmShape& shape);
  void Synchronize() { RequireCuda(process_, cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

  const Options& options_;
  Rank& process_;
  uint32_t multiprocessors_ = 0;
  cudaStream_t stream_ = nullptr;
  std::unique_ptr<CublasLt> peer_;
  std::unique_ptr<DeviceMemory> wrong_;
  std::vector<std::unique_ptr<DeviceMemory>> a_, b_, c_;
};

GemmProblem Measurement::Problem(const GemmShape& shape, int set) const {
  GemmProblem problem;
  problem.type = options_.type;
  problem.layout = options_.layout;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.a = a_[set]->Data();
  problem.lda = shape.k;
  problem.b = b_[set]->Data();
  problem.ldb = options_.layout == tcBLayoutKN ? shape.n : shape.k;
  problem.c = c_[set]->Data();
  problem.ldc = shape.n;
  return problem;
}

uint64_t Measurement::CheckSets(const GemmShape& shape) {
  RequireCuda(process_, cudaMemsetAsync(wrong_->Data(), 0, sizeof(unsigned long long), stream_), "cudaMemsetAsync");
  auto* count = static_cast<unsigned long long*>(wrong_->Data());
  for (size_t set = 0; set < c_.size(); ++set) {
    const GemmProblem problem = Problem(shape, static_cast<int>(set));
    RequireCuda(process_, CountWrong(problem, kSamples / c_.size(), options_.seed + set, count, stream_), "CountWrong");
  }
  unsigned long long wrong = 0;
  RequireCuda(process_, cudaMemcpyAsync(&wrong, count, sizeof(wrong), cudaMemcpyDeviceToHost, stream_),
              "cudaMemcpyAsync");
  Synchronize();
  return wrong;
}

// The library's choice, then, in a sweep, all others.
std::vector<GemmTiling> Measurement::Tilings(const GemmShape& shape) const {
  const bool kn = options_.layout == tcBLayoutKN;
  std::vector<GemmTiling> tilings = {ChooseGemmTiling(shape.m, shape.n, shape.k, kn, multiprocessors_)};
  for (int index = 0; options_.sweep && index < kGemmTileShapeCount; ++index) {
    const GemmTileShape& tile = kGemmTileShapes[index];
    const uint32_t clusters = multiprocessors_ / tile.Blocks();
    if (kn && !TakesContiguousColumns(tile)) continue;
    for (uint32_t splits = 1; splits <= kMaxSplits; ++splits) {
      const GemmGrid grid = GridOf(shape.m, shape.n, shape.k, tile, splits, clusters);
      if (splits > 1 && (splits > grid.k_steps || grid.Works() > 2 * clusters)) break;
      if (index != tilings[0].shape || splits != tilings[0].grid.splits) tilings.push_back({index, grid});
    }
  }
  return tilings;
}

// Tries each of cuBLASLt's algorithms a few times.
int Measurement::BestPeer(const GemmShape& shape) {
  const int algorithms = peer_->Prepare(Problem(shape, 0));
  int best = 0;
  double least_us = 0;
  for (int index = 0; index < algorithms; ++index) {
    TimeStamp start(process_), end(process_);
    double time_us = 0;
    for (int round = 0; round < 4; ++round) {
      start.Record(stream_);
      for (size_t set = 0; set < c_.size(); ++set) peer_->Launch(Problem(shape, static_cast<int>(set)), index, stream_);
      end.Record(stream_);
      Synchronize();
      const double this_us = end.MicrosecondsSince(start);
      if (round == 1 || (round > 1 && this_us < time_us)) time_us = this_us;  // the first warms up
    }
    if (index == 0 || time_us < least_us) {
      best = index;
      least_us = time_us;
    }
  }
  return best;
}

void Measurement::Measure(const GemmShape& shape) {
  const uint64_t a_count = shape.m * shape.k, b_count = shape.n * shape.k, c_count = shape.m * shape.n;
  const uint64_t set_bytes = 2 * (a_count + b_count + c_count);
  const auto sets = static_cast<size_t>(std::clamp<uint64_t>(1 + kSetsBytes / set_bytes, 2, 64));
  a_.clear();
  b_.clear();
  c_.clear();
  for (size_t set = 0; set < sets; ++set) {
    a_.push_back(std::make_unique<DeviceMemory>(process_, 2 * a_count));
    b_.push_back(std::make_unique<DeviceMemory>(process_, 2 * b_count));
    c_.push_back(std::make_unique<DeviceMemory>(process_, 2 * c_count));
    RequireCuda(process_, FillRandom(a_[set]->Data(), a_count, options_.type, 2 * set + options_.seed, stream_),
                "FillRandom");
    RequireCuda(process_, FillRandom(b_[set]->Data(), b_count, options_.type, 2 * set + options_.seed + 1, stream_),
                "FillRandom");
    RequireCuda(process_, cudaMemsetAsync(c_[set]->Data(), 0xff, 2 * c_count, stream_), "cudaMemsetAsync");
  }
  const double flops = 2.0 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k);
  const int products = static_cast<int>(std::max<double>(std::clamp(kGraphFlops / flops, 1.0, 64.0), 1.0));

  std::vector<std::unique_ptr<Contender>> contenders;
  std::vector<std::unique_ptr<DeviceMemory>> workspaces;
  nlohmann::json tilings = nlohmann::json::array();
  uint64_t wrong = 0;
  for (const GemmTiling& tiling : Tilings(shape)) {
    workspaces.push_back(std::make_unique<DeviceMemory>(process_, cuda::HopperGemmWorkspaceBytes(tiling)));
    void* workspace = workspaces.back()->Data();
    RequireCuda(process_, cudaMemsetAsync(workspace, 0, cuda::HopperGemmZeroBytes(tiling), stream_), "cudaMemsetAsync");
    const auto launch = [&](int product) {
      const Status status =
          cuda::LaunchHopperGemm(Problem(shape, product % static_cast<int>(sets)), tiling, workspace, stream_);
      if (!status.ok()) process_.Fail(status.sentence());
    };
    for (size_t set = 0; set < sets; ++set) {
      RequireCuda(process_, cudaMemsetAsync(c_[set]->Data(), 0xff, 2 * c_count, stream_), "cudaMemsetAsync");
      launch(static_cast<int>(set));
    }
    const uint64_t these = CheckSets(shape);
    wrong += these;
    contenders.push_back(std::make_unique<Contender>(process_, stream_, products, launch));
    const GemmTileShape& tile = kGemmTileShapes[tiling.shape];
    const std::string name = std::to_string(tile.rows) + "x" + std::to_string(tile.cols) +
                             (tile.share == ClusterShare::kA   ? "a"
                              : tile.share == ClusterShare::kB ? "b"
                                                               : "") +
                             "/" + std::to_string(tiling.grid.splits);
    tilings.push_back({{"tiles", name}, {"nwrong", these}});
  }
  if (options_.peer) {
    const int best = BestPeer(shape);
    contenders.push_back(std::make_unique<Contender>(process_, stream_, products, [&](int product) {
      peer_->Launch(Problem(shape, product % static_cast<int>(sets)), best, stream_);
    }));
  }
  for (int iteration = 0; iteration < options_.warmup_iters + options_.iters; ++iteration) {
    for (const auto& contender : contenders) contender->Enqueue(stream_);
    Synchronize();
    if (iteration < options_.warmup_iters) continue;
    for (const auto& contender : contenders) contender->times_us.push_back(contender->Microseconds());
  }
  for (size_t i = 0; i < tilings.size(); ++i) tilings[i]["times_us"] = contenders[i]->times_us;
  nlohmann::json message = {{"m", shape.m}, {"n", shape.n}, {"k", shape.k}, {"tilings", tilings}, {"nwrong", wrong}};
  if (options_.peer) message["peer_times_us"] = contenders.back()->times_us;
  process_.Send(message);
}

class GemmPerf {
 public:
  explicit GemmPerf(const Options& options) : options_(options) {
    if (!options_.json.empty()) RequireWritable("-J/--json", options_.json);
    CommonOptions common;
    common.threads = true;
    common.backend = tcBackendCuda;
    common.gpus = 1;
    placement_ = Place(common, 1, VisibleGpus());
  }

  // The exit code.
  int Execute() {
    table_.Start(kProgram);
    table_.Comment("warmup iters: " + std::to_string(options_.warmup_iters) +
                   " iters: " + std::to_string(options_.iters) + " seed: " + std::to_string(options_.seed));
    table_.Comment("checked: elements of every product, sampled where there are many, against sums in fp64");
    table_.Comment("time of a product: device events around a graph of products over rotated inputs, divided by their");
    table_.Comment(
        "  number; contenders take turns; tiles: rows x columns, the operand a cluster shares / splits of K");
    std::string error;
    try {
      RunProcess();
      if (ratios_ > 0) {
        table_.Comment("ratio to the peer: geometric mean " + FormatNumber(std::exp(log_ratios_ / ratios_), 4) +
                       ", least " + FormatNumber(least_ratio_, 4));
      }
      table_.Footer(kProgram, wrong_, true);
    } catch (const Failure& failure) {
      error = failure.what();
      std::fprintf(stderr, "%s: %s\n", kProgram, error.c_str());
    }
    report_.Write(options_.json, Config(), wrong_, error);
    return error.empty() && wrong_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  void RunProcess() {
    const auto run = [&](Rank& process) {
      try {
        Measurement measurement(options_, process, placement_.DeviceOf(0));
        for (const GemmShape& shape : options_.shapes) measurement.Measure(shape);
      } catch (const Failure& failure) {
        process.Fail(failure.what());
      }
    };
    RankGroup group(1, false, run, [&] { PrepareProcess(placement_, 1); });
    bool named = false;
    const auto on_message = [&](int, const nlohmann::json& message) {
      if (named) return Complete(message);
      report_.NoteGpu(message);
      table_.Comment("Using device " + std::to_string(message["device"].get<int>()) + " " +
                     message["name"].get<std::string>());
      table_.Titles();
      named = true;
    };
    const auto limit = std::chrono::seconds(options_.timeout_s > 0 ? options_.timeout_s : 1000000);
    group.Wait(on_message, RankGroup::Clock::now() + limit);
  }

  void Complete(const nlohmann::json& message) {
    nlohmann::json row = message;
    const double flops = 2 * message["m"].get<double>() * message["n"].get<double>() * message["k"].get<double>();
    std::string peer_median = "-", peer_tflops = "-", ratio_text = "-";
    double peer_us = 0;
    if (options_.peer) {
      const Summary peer = Summarize(message["peer_times_us"].get<std::vector<double>>());
      peer_us = peer.median;
      peer_median = FormatNumber(peer_us);
      peer_tflops = FormatNumber(flops / peer_us * 1e-6, 1);
      row["peer"] = {{"median_us", peer.median}, {"p99_us", peer.p99}};
    }
    for (size_t i = 0; i < message["tilings"].size(); ++i) {
      const nlohmann::json& tiling = message["tilings"][i];
      const Summary ours = Summarize(tiling["times_us"].get<std::vector<double>>());
      row["tilings"][i]["median_us"] = ours.median;
      row["tilings"][i]["p99_us"] = ours.p99;
      if (options_.peer) {
        const double ratio = peer_us / ours.median;
        row["tilings"][i]["ratio"] = ratio;
        ratio_text = FormatNumber(ratio, 3);
        if (i == 0) {
          log_ratios_ += std::log(ratio);
          least_ratio_ = ratios_++ == 0 ? ratio : std::min(least_ratio_, ratio);
        }
      }
      table_.Row({std::to_string(message["m"].get<uint64_t>()), std::to_string(message["n"].get<uint64_t>()),
                  std::to_string(message["k"].get<uint64_t>()), tiling["tiles"].get<std::string>(),
                  FormatNumber(ours.median), FormatNumber(ours.p99), FormatNumber(flops / ours.median * 1e-6, 1),
                  peer_median, peer_tflops, ratio_text, std::to_string(tiling["nwrong"].get<uint64_t>())});
    }
    wrong_ += message["nwrong"].get<uint64_t>();
    report_.AddRow(row);
  }

  nlohmann::json Config() const {
    return {{"program", kProgram},
            {"datatype", options_.type == tcFloat16 ? "half" : "bfloat16"},
            {"blayout", options_.layout == tcBLayoutKN ? "kn" : "nk"},
            {"peer", options_.peer ? nlohmann::json("cublaslt") : nlohmann::json(nullptr)},
            {"iters", options_.iters},
            {"warmup_iters", options_.warmup_iters},
            {"seed", options_.seed},
            {"timeout_s", options_.timeout_s}};
  }

  const Options& options_;
  Placement placement_;
  Table table_{{{"M", "", 7},
                {"N", "", 7},
                {"K", "", 7},
                {"tiles", "", 12},
                {"median", "(us)", 10},
                {"p99", "(us)", 10},
                {"TFLOP/s", "", 9},
                {"peer", "(us)", 10},
                {"TFLOP/s", "", 9},
                {"ratio", "", 7},
                {"#wrong", "", 8}}};
  Report report_;
  uint64_t wrong_ = 0;
  int ratios_ = 0;
  double log_ratios_ = 0;
  double least_ratio_ = 0;
};

}  // namespace
}  // namespace tc::perf

int main(int argc, char** argv) {
  using namespace tc::perf;
  return Main<GemmPerf>(kProgram, ParseOptions(argc, argv));
}
