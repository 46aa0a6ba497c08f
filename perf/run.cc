#include "run.h"

#include <algorithm>

#include "atomic_file.h"
#include "device.h"
#include "environment.h"
#include "failure.h"

namespace tc::perf {

// What the ranks of one group have told so far. One may be ahead of the others: a case is complete when its slowest
// rank has reported.
struct Run::Told {
  explicit Told(int n_ranks) : gpus(static_cast<size_t>(n_ranks)), results(static_cast<size_t>(n_ranks)) {}

  bool AllGpus() const {
    return std::none_of(gpus.begin(), gpus.end(), [](const nlohmann::json& gpu) { return gpu.is_null(); });
  }
  bool HasNext() const {
    return std::all_of(results.begin(), results.end(), [&](const auto& all) { return all.size() > complete; });
  }
  std::vector<nlohmann::json> Next() const {
    std::vector<nlohmann::json> next;
    for (const auto& all : results) next.push_back(all[complete]);
    return next;
  }

  std::vector<nlohmann::json> gpus;  // of each rank: what UseDevice returned
  std::vector<std::vector<nlohmann::json>> results;
  size_t complete = 0;  // cases
};

Run::Run(const char* program, const CommonOptions& options, std::vector<Column> columns)
    : table_(std::move(columns)), program_(program), options_(options) {
  if (!options_.json.empty()) RequireWritable("-J/--json", options_.json);
  const int gpus = IsBuiltForGpus() ? VisibleGpus() : 0;
  for (const int n_ranks : options_.ranks) placements_.push_back(Place(options_, n_ranks, gpus));
}

int Run::Execute() {
  if (options_.timeout_s > 0) deadline_ = RankGroup::Clock::now() + std::chrono::seconds(options_.timeout_s);
  PrintRunHeader();
  PrintHeader();
  std::string error;
  try {
    for (size_t i = 0; i < placements_.size(); ++i) RunRanks(options_.ranks[i], placements_[i]);
    Conclude();
    table_.Footer(program_, wrong_, options_.check);
  } catch (const Failure& failure) {
    error = failure.what();
    std::fprintf(stderr, "%s: %s\n", program_, error.c_str());
  }
  report_.Write(options_.json, Config(), wrong_, error);
  return error.empty() && wrong_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

void Run::PrintRunHeader() const {
  table_.Start(program_);
  table_.Comment("warmup iters: " + std::to_string(options_.warmup_iters) +
                 " iters: " + std::to_string(options_.iters) + " check: " + std::to_string(options_.check ? 1 : 0) +
                 " seed: " + std::to_string(options_.seed) + " graph: " + std::to_string(options_.graph_replays) +
                 Settings());
}

void Run::RunRanks(int n_ranks, const Placement& placement) {
  tcUniqueId id;
  if (tcGetUniqueId(&id) != tcSuccess) throw Failure(std::string("tcGetUniqueId: ") + tcGetLastError(nullptr));
  const auto run = [&](Rank& rank) {
    if (placement.OnGpus()) rank.Send(UseDevice(rank, placement.DeviceOf(rank.Index())));
    Communicator communicator(rank, id, placement);
    for (size_t index = 0; index < CaseCount(); ++index) rank.Send(RunCase(index, communicator));
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
        told.complete < CaseCount() ? "in the case " + CaseName(told.complete) : "after the last case";
    throw Failure(where + ", with " + std::to_string(n_ranks) + " ranks:\n" + failure.what());
  }
}

// A rank on a GPU first tells which, then every rank the result of one case after the other.
void Run::Hear(const RankGroup& group, const Placement& placement, int rank, const nlohmann::json& message,
               Told* told) {
  const auto index = static_cast<size_t>(rank);
  if (placement.OnGpus() && told->gpus[index].is_null()) {
    told->gpus[index] = message;
    if (told->AllGpus()) PrintRanks(group, placement, *told);
    return;
  }
  told->results[index].push_back(message);
  if (told->HasNext()) {
    const std::vector<nlohmann::json> messages = told->Next();
    CompleteCase(told->complete++, placement, messages);
  }
}

void Run::PrintRanks(const RankGroup& group, const Placement& placement, const Told& told) {
  if (!placement.note.empty()) table_.Comment(placement.note);
  std::vector<std::string> places;
  for (const nlohmann::json& gpu : told.gpus) {
    places.push_back(gpu.is_null() ? ""
                                   : " device " + std::to_string(gpu["device"].get<int>()) + " " +
                                         gpu["name"].get<std::string>());
    if (!gpu.is_null()) report_.NoteGpu(gpu);
  }
  table_.Ranks(group, places, placement.threads);
  table_.Titles();
}

// Prints and keeps one case's row.
void Run::CompleteCase(size_t index, const Placement& placement, const std::vector<nlohmann::json>& messages) {
  Measured measured;
  for (const nlohmann::json& message : messages) {
    measured.times_us_of_ranks.push_back(message.at("times_us").get<std::vector<double>>());
  }
  measured.times_us = MaxOverRanks(measured.times_us_of_ranks);
  measured.summary = Summarize(measured.times_us);
  CaseEnd end = Complete(index, measured, messages);
  wrong_ += end.wrong;
  end.row.update({{"ranks", messages.size()},
                  {"median_us", measured.summary.median},
                  {"p99_us", measured.summary.p99},
                  {"times_us", measured.times_us},
                  {"times_us_of_ranks", measured.times_us_of_ranks},
                  {"backend", BackendName(placement.backend)},
                  {"gpus", std::min(placement.gpus, static_cast<int>(messages.size()))},
                  {"threads", placement.threads},
                  {"nwrong", ShowsWrong(end.wrong) ? nlohmann::json(end.wrong) : nlohmann::json(nullptr)}});
  report_.AddRow(end.row);
}

nlohmann::json Run::Config() const {
  nlohmann::json config = {{"program", program_},
                           {"ranks", options_.ranks},
                           {"threads", options_.threads},
                           {"backend", BackendName(options_.backend)},
                           {"gpus", options_.gpus},
                           {"cudagraph", options_.graph_replays},
                           {"iters", options_.iters},
                           {"warmup_iters", options_.warmup_iters},
                           {"check", options_.check},
                           {"seed", options_.seed},
                           {"timeout_s", options_.timeout_s}};
  AddConfig(&config);
  return config;
}

}  // namespace tc::perf
