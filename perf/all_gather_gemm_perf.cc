// Measures tcFusedAllGatherGemm and checks the results of the timed iterations.
#include <memory>
#include <optional>

#include "atomic_file.h"
#include "environment.h"
#include "failure.h"
#include "gemm_case.h"
#include "gemm_options.h"
#include "npy.h"
#include "reference.h"
#include "run.h"

namespace tc::perf {
namespace {

constexpr const char* kProgram = "all_gather_gemm_perf";

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

class AllGatherGemmPerf final : public Run {
 public:
  explicit AllGatherGemmPerf(const GemmOptions& options)
      : Run(kProgram, options.common,
            {{"M", "", 7},
             {"N", "", 8},
             {"K", "", 8},
             {"type", "", 10},
             {"ranks", "", 7},
             {"median", "(us)", 12},
             {"p99", "(us)", 12},
             {"GFLOP/s", "", 10},
             {"#wrong", "", 8}}),
        options_(options) {
    if (!options_.out_path.empty()) RequireWritable("--out", options_.out_path);
    if (options_.OwnArrays()) {
      MakeOwnCase();
    } else {
      MakeCases();
    }
    for (size_t i = 0; i < Placements().size(); ++i) {
      if (Placements()[i].OnGpus()) continue;  // which say themselves when their memory is full
      for (const Case& c : cases_) RequireMemory(c, options_.common.ranks[i]);
    }
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

  size_t CaseCount() const override { return cases_.size(); }
  std::string CaseName(size_t index) const override { return Describe(cases_[index]); }

  std::string Settings() const override {
    return std::string(" b: ") + (options_.b_layout == tcBLayoutNK ? "[n,k]" : "[k,n]") + " gatheredA: " +
           (options_.registered ? "registered"
            : options_.gathered ? "plain"
                                : "no");
  }

  void PrintHeader() const override {
    if (options_.OwnArrays()) {
      table_.Comment("A: " + options_.a_path + " " + OwnArrays::ShapeText(arrays_->a) + ", B: " + options_.b_path +
                     " " + OwnArrays::ShapeText(arrays_->b));
    }
    PrintWhatIsChecked();
    PrintWhatIsTimed();
  }

  void PrintWhatIsTimed() const {
    const int replays = options_.common.graph_replays;
    const std::string clock = !OnGpus()      ? "host clock around call and synchronize"
                              : replays == 0 ? "device events around the operator, after a barrier"
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

  nlohmann::json RunCase(size_t index, Communicator& communicator) const override {
    const Case& c = cases_[index];
    return RunAllGatherGemm(options_, c.shape, *c.inputs, communicator, kept_.get());
  }

  CaseEnd Complete(size_t index, const Measured& measured, const std::vector<nlohmann::json>& messages) override {
    const Case& c = cases_[index];
    const ElementType& type = c.inputs->Type();
    std::vector<RankResult> results;
    uint64_t wrong = 0;
    for (const nlohmann::json& message : messages) {
      const RankResult& result = results.emplace_back(message.get<RankResult>());
      wrong += result.wrong + result.spoiled + result.differing;
    }
    const Summary& summary = measured.summary;
    const double flop =
        2.0 * static_cast<double>(c.shape.m) * static_cast<double>(c.shape.n) * static_cast<double>(c.shape.k);
    const double gflops = flop / summary.median / 1e3;
    table_.Row({std::to_string(c.shape.m), std::to_string(c.shape.n), std::to_string(c.shape.k), type.name,
                std::to_string(results.size()), FormatNumber(summary.median), FormatNumber(summary.p99),
                FormatNumber(gflops), WrongText(wrong)});
    ExplainWrong(results);
    return {wrong, {{"m", c.shape.m}, {"n", c.shape.n}, {"k", c.shape.k}, {"type", type.name}, {"gflops", gflops}}};
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

  void Conclude() const override {
    if (kept_ == nullptr) return;
    if (Wrong() > 0) return table_.Comment(options_.out_path + " is not written: the result is wrong");
    const GemmShape& shape = cases_.back().shape;
    WriteNpy(options_.out_path, cases_.back().inputs->Type(), shape.m, shape.n, kept_->Data());
    table_.Comment("C: " + options_.out_path + " (" + std::to_string(shape.m) + ", " + std::to_string(shape.n) + ")");
  }

  void AddConfig(nlohmann::json* config) const override {
    (*config)["blayout"] = options_.b_layout == tcBLayoutNK ? "nk" : "kn";
    (*config)["gathered"] = options_.gathered;
    (*config)["registered"] = options_.registered;
    if (options_.OwnArrays()) {
      (*config)["arrays"] = {{"a", options_.a_path}, {"b", options_.b_path}, {"out", options_.out_path}};
    }
  }

  const GemmOptions& options_;
  std::optional<OwnArrays> arrays_;
  std::vector<std::unique_ptr<Inputs>> inputs_;  // one a type
  std::vector<Case> cases_;
  std::unique_ptr<SharedResult> kept_;
};

}  // namespace
}  // namespace tc::perf

int main(int argc, char** argv) {
  using namespace tc::perf;
  return Main<AllGatherGemmPerf>(kProgram, ParseGemmOptions(kProgram, argc, argv));
}
