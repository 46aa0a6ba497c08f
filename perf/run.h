// What every perf binary does around its cases: it places and starts the ranks, hears what they measured, and writes
// the table and the report.
#ifndef TC_PERF_RUN_H_
#define TC_PERF_RUN_H_

#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "handles.h"
#include "options.h"
#include "placement.h"
#include "ranks.h"
#include "report.h"
#include "statistics.h"
#include "table.h"

namespace tc::perf {

// The iterations of a case on one rank: `time(iteration)` returns microseconds; `check(iteration)` looks at what a
// timed iteration has left. Returns the times of the timed ones.
template <class Time, class Check>
std::vector<double> Iterate(const CommonOptions& options, const Time& time, const Check& check) {
  std::vector<double> times_us;
  const int all = options.warmup_iters + options.iters;
  for (int iteration = 0; iteration < all; ++iteration) {
    const double time_us = time(static_cast<uint64_t>(iteration));
    if (iteration < options.warmup_iters) continue;
    times_us.push_back(time_us);
    if (options.check) check(static_cast<uint64_t>(iteration));
  }
  return times_us;
}

// What all ranks have measured in a case.
struct Measured {
  std::vector<std::vector<double>> times_us_of_ranks;
  std::vector<double> times_us;  // an iteration takes as long as its slowest rank
  Summary summary;
};

// What a case adds to the report.
struct CaseEnd {
  uint64_t wrong = 0;
  nlohmann::json row = nlohmann::json::object();  // beside what every case's row has
};

// A run of all cases with all numbers of ranks. The derived class says what a case is.
class Run {
 public:
  virtual ~Run() = default;
  Run(const Run&) = delete;
  Run& operator=(const Run&) = delete;

  // Once. Returns the exit code.
  int Execute();

 protected:
  // Throws Failure when the run cannot be as asked. `options` must outlive this.
  Run(const char* program, const CommonOptions& options, std::vector<Column> columns);

  virtual size_t CaseCount() const = 0;
  // For messages.
  virtual std::string CaseName(size_t index) const = 0;
  // Comments above the table.
  virtual void PrintHeader() const = 0;
  // More words for their line of settings, after a space; none by default.
  virtual std::string Settings() const { return ""; }
  // More of the report's "config".
  virtual void AddConfig(nlohmann::json*) const {}
  // On every rank, in its own process: measures a case. What it returns has times_us.
  virtual nlohmann::json RunCase(size_t index, Communicator& communicator) const = 0;
  // In the parent: prints the case's row. `messages`: what RunCase returned on each rank.
  virtual CaseEnd Complete(size_t index, const Measured& measured, const std::vector<nlohmann::json>& messages) = 0;
  // After the last case, whatever was wrong.
  virtual void Conclude() const {}

  const std::vector<Placement>& Placements() const { return placements_; }  // one for each number of ranks
  bool OnGpus() const { return placements_[0].OnGpus(); }
  uint64_t Wrong() const { return wrong_; }
  // How a row shows `wrong`.
  std::string WrongText(uint64_t wrong) const { return ShowsWrong(wrong) ? std::to_string(wrong) : "N/A"; }

  Table table_;

 private:
  struct Told;

  bool ShowsWrong(uint64_t wrong) const { return options_.check || wrong > 0; }
  void PrintRunHeader() const;
  void RunRanks(int n_ranks, const Placement& placement);
  void Hear(const RankGroup& group, const Placement& placement, int rank, const nlohmann::json& message, Told* told);
  void PrintRanks(const RankGroup& group, const Placement& placement, const Told& told);
  void CompleteCase(size_t index, const Placement& placement, const std::vector<nlohmann::json>& messages);
  nlohmann::json Config() const;

  const char* program_;
  const CommonOptions& options_;
  std::vector<Placement> placements_;
  RankGroup::Clock::time_point deadline_ = RankGroup::Clock::time_point::max();
  Report report_;
  uint64_t wrong_ = 0;
};

// What main returns. `Program`: a Run that is made from the parsed Options.
template <class Program, class Options>
int Main(const char* program, const std::variant<Options, EarlyExit>& parsed) {
  if (const auto* early = std::get_if<EarlyExit>(&parsed)) {
    std::fputs(early->text.c_str(), early->exit_code == 0 ? stdout : stderr);
    return early->exit_code;
  }
  std::optional<Program> run;
  try {
    run.emplace(std::get<Options>(parsed));
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return kUsageExit;
  }
  try {
    return run->Execute();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", program, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace tc::perf

#endif  // TC_PERF_RUN_H_
