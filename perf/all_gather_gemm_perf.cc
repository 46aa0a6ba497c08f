// Measures tcFusedAllGatherGemm and checks the results of the timed iterations.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <optional>

#include "atomic_file.h"
#include "device.h"
#include "environment.h"
#include "failure.h"
#include "gemm_case.h"
#include "gemm_options.h"
#include "npy.h"
#include "placement.h"
#include "ranks.h"
#include "reference.h"
#include "statistics.h"
#include "table.h"

namespace tc::perf {
namespace {

constexpr const char* kProgram = "all_gather_gemm_perf";

// What the ranks of one group have told so far. One may be ahead of the others: a case is complete when its slowest
// rank has reported.
struct Told {
  explicit Told(int n_ranks) : gpus(static_cast<size_t>(n_ranks)), results(static_cast<size_t>(n_ranks)) {}

  bool AllGpus() const {
    return std::none_of(gpus.begin(), gpus.end(), [](const nlohmann::json& gpu) { return gpu.is_null(); });
  }
  bool HasNext() const {
    return std::all_of(results.begin(), results.end(), [&](const auto& all) { return all.size() > complete; });
  }
  std::vector<RankResult> Next() const {
    std::vector<RankResult> next;
    for (const auto& all : results) next.push_back(all[complete]);
    return next;
  }

  std::vector<nlohmann::json> gpus;  // of each rank: what UseDevice returned
  std::vector<std::vector<RankResult>> results;
  size_t complete = 0;  // cases
};

struct Case {
  GemmShape shape;
  const Inputs* inputs;
};

std::string Describe(const Case& c) {
  return "M " + std::to_string(c.shape.m) + ", N " + std::to_string(c.shape.n) + ", K " + std::to_string(c.shape.k) +
         ", " + c.inputs->Type().name;
}

// The user's own arrays, read and found to fit together.
struct OwnArrays {
  NpyMatrix a;
  NpyMatrix b;

  static std::string ShapeText(const NpyMatrix& matrix) {
    return "(" + std::to_string(matrix.rows) + ", " + std::to_string(matrix.cols) + ")";
  }

  explicit OwnArrays(const GemmOptions& options) : a(ReadNpy(options.a_path)), b(ReadNpy(options.b_path)) {
    if (a.type != b.type) {
      throw Failure(options.a_path + " holds " + a.type->name + " and " + options.b_path + " holds " + b.type->name +
                    ": both must have one type.");
    }
    const bool nk = options.b_layout == tcBLayoutNK;
    if (a.cols != (nk ? b.cols : b.rows)) {
      throw Failure("the shapes do not match: " + options.a_path + " is " + ShapeText(a) + " = (M, K), and " +
                    options.b_path + " is " + ShapeText(b) + ", which has to be " +
                    (nk ? "(N, K); for a B of (K, N) say -b kn." : "(K, N)."));
    }
    if (a.cols == 0) throw Failure(options.a_path + " has K = 0, but a product needs at least one term.");
  }

  GemmShape Shape(tcBLayout_t layout) const { return {a.rows, layout == tcBLayoutNK ? b.rows : b.cols, a.cols}; }
};

class AllGatherGemmPerf {
 public:
  explicit AllGatherGemmPerf(const GemmOptions& options) : options_(options) {
    if (!options_.common.json.empty()) RequireWritable("-J/--json", options_.common.json);
    if (!options_.out_path.empty()) RequireWritable("--out", options_.out_path);
    if (options_.OwnArrays()) {
      MakeOwnCase();
    } else {
      MakeCases();
    }
    const int gpus = IsBuiltForGpus() ? VisibleGpus() : 0;
    for (const int n_ranks : options_.common.ranks) {
      placements_.push_back(Place(options_.common, n_ranks, gpus));
      if (placements_.back().OnGpus()) continue;  // which say themselves when their memory is full
      for (const Case& c : cases_) RequireMemory(c, n_ranks);
    }
  }

  // The exit code.
  int Run() {
    const int timeout_s = options_.common.timeout_s;
    if (timeout_s > 0) deadline_ = RankGroup::Clock::now() + std::chrono::seconds(timeout_s);
    PrintHeader();
    std::string error;
    try {
      for (size_t i = 0; i < placements_.size(); ++i) RunRanks(options_.common.ranks[i], placements_[i]);
      KeepResult();
      table_.Footer(kProgram, wrong_, options_.common.check);
    } catch (const Failure& failure) {
      error = failure.what();
      std::fprintf(stderr, "%s: %s\n", kProgram, error.c_str());
    }
    WriteReport(error);
    return error.empty() && wrong_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  void MakeCases() {
    for (const ElementType* type : options_.common.types) {
      inputs_.push_back(std::make_unique<GeneratedInputs>(*type, options_.common.seed));
    }
    for (const GemmShape& shape : options_.shapes) {
      for (const auto& inputs : inputs_) cases_.push_back({shape, inputs.get()});
    }
  }

  void MakeOwnCase() {
    arrays_.emplace(options_);
    inputs_.push_back(std::make_unique<ArrayInputs>(arrays_->a, arrays_->b, options_.b_layout));
    cases_.push_back({arrays_->Shape(options_.b_layout), inputs_.back().get()});
    if (options_.out_path.empty()) return;
    const GemmShape& shape = cases_.back().shape;
    kept_ = std::make_unique<SharedResult>(shape.m * shape.n * arrays_->a.type->bytes);
  }

  // Better a sentence now than the kernel's choice of a victim later.
  void RequireMemory(const Case& c, int n_ranks) const {
    const ElementType& type = c.inputs->Type();
    const double wanted = n_ranks * GemmCaseBytes(options_, c.shape, c.inputs->Sets(), type.bytes, n_ranks);
    if (wanted <= MemoryBytes()) return;
    constexpr double kGiB = 1 << 30;
    throw Failure(Describe(c) + " with " + std::to_string(n_ranks) + " ranks takes " + FormatNumber(wanted / kGiB) +
                  " GiB, and this machine has " + FormatNumber(MemoryBytes() / kGiB) + " GiB.");
  }

  void PrintHeader() const {
    const CommonOptions& common = options_.common;
    table_.Comment(std::string(kProgram) + ": TileComm library " + LibraryVersion() + ", header " + HeaderVersion());
    table_.Comment("host " + HostName() + ", " + std::to_string(CpuCount()) + " CPUs");
    table_.Comment("warmup iters: " + std::to_string(common.warmup_iters) + " iters: " + std::to_string(common.iters) +
                   " check: " + std::to_string(common.check ? 1 : 0) + " seed: " + std::to_string(common.seed) +
                   " graph: " + std::to_string(common.graph_replays) +
                   " b: " + (options_.b_layout == tcBLayoutNK ? "[n,k]" : "[k,n]") + " gatheredA: " +
                   (options_.registered ? "registered"
                    : options_.gathered ? "plain"
                                        : "no"));
    if (options_.OwnArrays()) {
      table_.Comment("A: " + options_.a_path + " " + OwnArrays::ShapeText(arrays_->a) + ", B: " + options_.b_path +
                     " " + OwnArrays::ShapeText(arrays_->b));
    }
    PrintWhatIsChecked();
    PrintWhatIsTimed();
  }

  void PrintWhatIsTimed() const {
    const int replays = options_.common.graph_replays;
    const std::string clock = !placements_[0].OnGpus() ? "host clock around call and synchronize"
                              : replays == 0           ? "device events around the operator, after a barrier"
                                                       : "device events around " + std::to_string(replays) +
                                                   " graph replays, after a barrier, divided by their number";
    table_.Comment("time: " + clock + ", largest of all ranks; GFLOP/s: 2*M*N*K / median, per rank");
  }

  void PrintWhatIsChecked() const {
    if (!options_.common.check) return table_.Comment("checked: nothing (-c 0)");
    table_.Comment("checked, after each timed iteration: every element against fp64 where M*N*K <= 2^27;");
    table_.Comment("  else " + std::to_string(GemmReference::kSampledElements) +
                   " or more random ones, corners and edges of c and of each rank's rows among them,");
    table_.Comment("  and every element for having been written; guard zones around c" +
                   std::string(options_.gathered ? " and gatheredA; gatheredA bit by bit" : ""));
  }

  void RunRanks(int n_ranks, const Placement& placement) {
    tcUniqueId id;
    if (tcGetUniqueId(&id) != tcSuccess) throw Failure(std::string("tcGetUniqueId: ") + tcGetLastError(nullptr));
    const auto run = [&](Rank& rank) {
      if (placement.OnGpus()) rank.Send(UseDevice(rank, placement.DeviceOf(rank.Index())));
      Communicator communicator(rank, id, placement);
      for (const Case& c : cases_) {
        rank.Send(RunAllGatherGemm(options_, c.shape, *c.inputs, communicator, kept_.get()));
      }
    };
    RankGroup group(n_ranks, placement.threads, run, [&] { PrepareProcess(placement, n_ranks); });
    Told told(n_ranks);
    if (!placement.OnGpus()) PrintRanks(group, placement, told);
    const auto on_message = [&](int rank, const nlohmann::json& message) {
      Hear(group, placement, rank, message, &told);
    };
    try {
      group.Wait(on_message, deadline_);
    } catch (const Failure& failure) {
      const std::string where =
          told.complete < cases_.size() ? "in the case " + Describe(cases_[told.complete]) : "after the last case";
      throw Failure(where + ", with " + std::to_string(n_ranks) + " ranks:\n" + failure.what());
    }
  }

  // A rank on a GPU first tells which, then every rank the result of one case after the other.
  void Hear(const RankGroup& group, const Placement& placement, int rank, const nlohmann::json& message, Told* told) {
    const auto index = static_cast<size_t>(rank);
    if (placement.OnGpus() && told->gpus[index].is_null()) {
      told->gpus[index] = message;
      if (told->AllGpus()) PrintRanks(group, placement, *told);
      return;
    }
    told->results[index].push_back(message.get<RankResult>());
    if (told->HasNext()) {
      const std::vector<RankResult> results = told->Next();
      Complete(cases_[told->complete++], placement, results);
    }
  }

  void PrintRanks(const RankGroup& group, const Placement& placement, const Told& told) {
    if (!placement.note.empty()) table_.Comment(placement.note);
    std::vector<std::string> places;
    for (const nlohmann::json& gpu : told.gpus) {
      places.push_back(gpu.is_null() ? ""
                                     : " device " + std::to_string(gpu["device"].get<int>()) + " " +
                                           gpu["name"].get<std::string>());
      if (!gpu.is_null()) NoteGpu(gpu);
    }
    table_.Ranks(group, places, placement.threads);
    table_.Titles();
  }

  // For the report: each GPU once, and what is the same for all of them.
  void NoteGpu(const nlohmann::json& gpu) {
    nlohmann::json& gpus = gpu_environment_["gpus"];
    const nlohmann::json named = {{"device", gpu["device"]}, {"name", gpu["name"]}};
    if (std::find(gpus.begin(), gpus.end(), named) == gpus.end()) gpus.push_back(named);
    for (const char* version : {"driver_version", "cuda_driver_version", "cuda_runtime_version"}) {
      gpu_environment_[version] = gpu[version];
    }
  }

  // Prints and keeps one case's row.
  void Complete(const Case& c, const Placement& placement, const std::vector<RankResult>& results) {
    const bool checked = options_.common.check;
    const ElementType& type = c.inputs->Type();
    const std::string n_ranks = std::to_string(results.size());
    std::vector<std::vector<double>> times_of_ranks;
    uint64_t wrong = 0;
    for (const RankResult& result : results) {
      times_of_ranks.push_back(result.times_us);
      wrong += result.wrong + result.spoiled + result.differing;
    }
    const std::vector<double> times = MaxOverRanks(times_of_ranks);
    const Summary summary = Summarize(times);
    const double flop =
        2.0 * static_cast<double>(c.shape.m) * static_cast<double>(c.shape.n) * static_cast<double>(c.shape.k);
    const double gflops = flop / summary.median / 1e3;
    table_.Row({std::to_string(c.shape.m), std::to_string(c.shape.n), std::to_string(c.shape.k), type.name, n_ranks,
                FormatNumber(summary.median), FormatNumber(summary.p99), FormatNumber(gflops),
                checked || wrong > 0 ? std::to_string(wrong) : "N/A"});
    ExplainWrong(results);
    wrong_ += wrong;
    nlohmann::json row = {{"m", c.shape.m},        {"n", c.shape.n},          {"k", c.shape.k},
                          {"type", type.name},     {"ranks", results.size()}, {"median_us", summary.median},
                          {"p99_us", summary.p99}, {"gflops", gflops},        {"times_us", times}};
    row["backend"] = BackendName(placement.backend);
    row["gpus"] = std::min(placement.gpus, static_cast<int>(results.size()));
    row["threads"] = placement.threads;
    row["times_us_of_ranks"] = times_of_ranks;
    row["nwrong"] = checked || wrong > 0 ? nlohmann::json(wrong) : nlohmann::json(nullptr);
    rows_.push_back(row);
  }

  void ExplainWrong(const std::vector<RankResult>& results) const {
    for (size_t rank = 0; rank < results.size(); ++rank) {
      const RankResult& result = results[rank];
      const std::string who = "  rank " + std::to_string(rank);
      if (result.wrong > 0) table_.Comment(who + ": " + std::to_string(result.wrong) + " wrong elements");
      if (result.spoiled > 0)
        table_.Comment(who + ": " + std::to_string(result.spoiled) + " elements written beside a result");
      if (result.differing > 0) {
        table_.Comment(who + ": " + std::to_string(result.differing) + " elements of C differ from rank 0's");
      }
    }
  }

  void KeepResult() const {
    if (kept_ == nullptr) return;
    if (wrong_ > 0) return table_.Comment(options_.out_path + " is not written: the result is wrong");
    const GemmShape& shape = cases_.back().shape;
    WriteNpy(options_.out_path, cases_.back().inputs->Type(), shape.m, shape.n, kept_->Data());
    table_.Comment("C: " + options_.out_path + " (" + std::to_string(shape.m) + ", " + std::to_string(shape.n) + ")");
  }

  nlohmann::json Config() const {
    const CommonOptions& common = options_.common;
    nlohmann::json config = {{"program", kProgram},
                             {"ranks", common.ranks},
                             {"threads", common.threads},
                             {"backend", BackendName(common.backend)},
                             {"gpus", common.gpus},
                             {"cudagraph", common.graph_replays},
                             {"iters", common.iters},
                             {"warmup_iters", common.warmup_iters},
                             {"check", common.check},
                             {"seed", common.seed},
                             {"blayout", options_.b_layout == tcBLayoutNK ? "nk" : "kn"},
                             {"gathered", options_.gathered},
                             {"registered", options_.registered},
                             {"timeout_s", common.timeout_s}};
    if (options_.OwnArrays())
      config["arrays"] = {{"a", options_.a_path}, {"b", options_.b_path}, {"out", options_.out_path}};
    return config;
  }

  void WriteReport(const std::string& error) const {
    if (options_.common.json.empty()) return;
    nlohmann::json report = {{"config", Config()}, {"environment", Environment()}, {"results", rows_}};
    report["environment"].update(gpu_environment_);
    report["out_of_bounds"] = {{"count", wrong_}, {"okay", wrong_ == 0}};
    report["error"] = error.empty() ? nlohmann::json(nullptr) : nlohmann::json(error);
    // A path need not be UTF-8, and a report is worth more than its exact bytes.
    const std::string text = report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
    WriteFileAtomically(options_.common.json, {text});
  }

  const GemmOptions& options_;
  std::optional<OwnArrays> arrays_;
  std::vector<std::unique_ptr<Inputs>> inputs_;  // one a type
  std::vector<Case> cases_;
  std::vector<Placement> placements_;  // one for each number of ranks
  std::unique_ptr<SharedResult> kept_;
  RankGroup::Clock::time_point deadline_ = RankGroup::Clock::time_point::max();
  Table table_{{{"M", "", 7},
                {"N", "", 8},
                {"K", "", 8},
                {"type", "", 10},
                {"ranks", "", 7},
                {"median", "(us)", 12},
                {"p99", "(us)", 12},
                {"GFLOP/s", "", 10},
                {"#wrong", "", 8}}};
  nlohmann::json gpu_environment_ = nlohmann::json::object();
  nlohmann::json rows_ = nlohmann::json::array();
  uint64_t wrong_ = 0;
};

int Main(int argc, const char* const* argv) {
  const auto parsed = ParseGemmOptions(kProgram, argc, argv);
  if (const auto* early = std::get_if<EarlyExit>(&parsed)) {
    std::fputs(early->text.c_str(), early->exit_code == 0 ? stdout : stderr);
    return early->exit_code;
  }
  std::optional<AllGatherGemmPerf> perf;
  try {
    perf.emplace(std::get<GemmOptions>(parsed));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kProgram, error.what());
    return kUsageExit;
  }
  try {
    return perf->Run();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", kProgram, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace
}  // namespace tc::perf

int main(int argc, char** argv) { return tc::perf::Main(argc, argv); }
