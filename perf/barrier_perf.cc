// Measures tcBarrier, and checks that no rank leaves a barrier before all have come to it.
#include "barrier_case.h"
#include "run.h"

namespace tc::perf {
namespace {

constexpr const char* kProgram = "barrier_perf";

constexpr const char* kExamples =
    "Exit code: 0 every barrier held, 1 one that did not or a rank that failed, 2 a command line that cannot be run.\n"
    "\n"
    "  barrier_perf -r 2,4,8 --threads -n 1000\n"
    "  barrier_perf --backend cuda -g 2 -r 2 -G 1000 -n 50 -J report.json\n";

std::variant<CommonOptions, EarlyExit> ParseBarrierOptions(int argc, const char* const* argv) {
  CLI::App app("Measures and checks the barrier of all ranks.", kProgram);
  app.footer(kExamples);
  const CommonOptionsKind kind = {
      .types = false,
      .graph = "Time a CUDA graph of N barriers in each iteration, and divide its time by N; 0: no graph"};
  const CommonOptionsParser parser(app, kind);
  return ParseCommandLine(kProgram, app, argc, argv, [&] { return parser.Values(); });
}

class BarrierPerf final : public Run {
 public:
  explicit BarrierPerf(const CommonOptions& options)
      : Run(kProgram, options, {{"ranks", "", 7}, {"median", "(us)", 12}, {"p99", "(us)", 12}, {"#wrong", "", 8}}),
        options_(options) {}

 private:
  size_t CaseCount() const override { return 1; }
  std::string CaseName(size_t) const override { return "barrier"; }

  void PrintHeader() const override {
    if (options_.check) {
      table_.Comment(
          "checked, after each timed iteration: that tcCommGetStats has counted its barriers; and by words in");
      table_.Comment(
          "  memory outside the library, with barriers of their own to which one rank comes 100 to 200 us late,");
      table_.Comment("  each rank once: that nobody leaves before all have come");
    } else {
      table_.Comment("checked: nothing (-c 0)");
    }
    table_.Comment(Clock() + ", largest of all ranks");
  }

  std::string Clock() const {
    if (!OnGpus()) return "time: host clock around call and synchronize, after a barrier";
    const int nodes = options_.graph_replays;
    if (nodes == 0) return "time: device events around one barrier, after another one; what events cost is in it";
    return "time of a barrier as a graph node: device events around a graph of " + std::to_string(nodes) +
           " barriers, after a barrier, divided by their number";
  }

  nlohmann::json RunCase(size_t, Communicator& communicator) const override {
    return RunBarriers(options_, *roll_, communicator);
  }

  CaseEnd Complete(size_t, const Measured& measured, const std::vector<nlohmann::json>& messages) override {
    std::vector<BarrierResult> results;
    uint64_t wrong = 0;
    for (const nlohmann::json& message : messages) {
      const BarrierResult& result = results.emplace_back(message.get<BarrierResult>());
      wrong += result.early + result.miscounted;
    }
    table_.Row({std::to_string(results.size()), FormatNumber(measured.summary.median),
                FormatNumber(measured.summary.p99), WrongText(wrong)});
    for (size_t rank = 0; rank < results.size(); ++rank) {
      const std::string who = "  rank " + std::to_string(rank) + ": ";
      const BarrierResult& result = results[rank];
      if (result.early > 0) {
        table_.Comment(who + "left a barrier " + std::to_string(result.early) + " times before a peer had come to it");
      }
      if (result.miscounted > 0) {
        table_.Comment(who + "tcCommGetStats is wrong by " + std::to_string(result.miscounted) + " barriers");
      }
    }
    return {.wrong = wrong};
  }

  const CommonOptions& options_;
  const std::unique_ptr<RollCall> roll_ = std::make_unique<RollCall>();
};

}  // namespace
}  // namespace tc::perf

int main(int argc, char** argv) {
  using namespace tc::perf;
  return Main<BarrierPerf>(kProgram, ParseBarrierOptions(argc, argv));
}
