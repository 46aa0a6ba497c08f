// Measures what it costs that waits are bounded.
//
// Every spin of the library ends by success, by an abort or by its time limit: between polls it backs off, reads the
// clock, every 50 us the abort words in pinned host memory, and whenever 100 ms have passed it would tell the host
// (src/protocol/wait.h). Here two ranks in one process, each with a stream of its own on one GPU or on one of two that
// reach each other's memory, run the same barrier of the protocol (wait_bounds_kernels.cu) with this kind of waiting
// and with a bare loop around the same poll, as graphs of many barriers that take turns. The difference of their
// medians is the price of all of it, the backoff included. It uses the library's internal headers, and no communicator.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <new>

#include "atomic_file.h"
#include "cuda_handles.h"
#include "device.h"
#include "device_kernels.h"
#include "failure.h"
#include "protocol/entry.h"
#include "protocol/epoch.h"
#include "run.h"
#include "wait_bounds_kernels.h"

namespace tc::perf {
namespace {

constexpr const char* kProgram = "wait_bounds_perf";
constexpr int kRanks = 2;
constexpr Waiting kWaitings[] = {Waiting::kBounded, Waiting::kBare};

// The library's defaults.
constexpr std::chrono::nanoseconds kEntryLimit = std::chrono::minutes(30);

const char* NameOf(Waiting waiting) { return waiting == Waiting::kBounded ? "bounded" : "bare"; }

struct WaitBoundsOptions {
  int gpus = 1;
  int iters = 50;
  int warmup_iters = 5;
  int nodes = 200;
  int timeout_s = 60;
  std::string json;
};

std::variant<WaitBoundsOptions, EarlyExit> ParseOptions(int argc, const char* const* argv) {
  CLI::App app("Measures a barrier of two ranks whose waits are bounded beside one whose waits are not.", kProgram);
  std::string gpus = "1", iters = "50", warmup_iters = "5", nodes = "200", timeout = "60";
  WaitBoundsOptions options;
  const auto add = [&](const char* name, std::string& text, const char* help) {
    app.add_option(name, text, help)->type_name("N")->capture_default_str();
  };
  add("-g,--gpus", gpus, "1: both ranks on one GPU; 2: each on its own");
  add("-n,--iters", iters, "Timed iterations with each kind of waiting");
  add("-w,--warmup_iters", warmup_iters, "Iterations before the timed ones");
  add("-G,--cudagraph", nodes, "Barriers in the graph that an iteration times");
  add("-T,--timeout", timeout, "End the whole run after this many seconds: a bare loop has no end of its own");
  app.add_option("-J,--json", options.json, "Also write a report with every time to FILE")->type_name("FILE");
  return ParseCommandLine(kProgram, app, argc, argv, [&] {
    options.gpus = static_cast<int>(ParseInteger("-g/--gpus", gpus, 1, kRanks));
    options.iters = static_cast<int>(ParseInteger("-n/--iters", iters, 1, 1000000));
    options.warmup_iters = static_cast<int>(ParseInteger("-w/--warmup_iters", warmup_iters, 0, 1000000));
    options.nodes = static_cast<int>(ParseInteger("-G/--cudagraph", nodes, 1, 10000));
    options.timeout_s = static_cast<int>(ParseInteger("-T/--timeout", timeout, 1, 1000000));
    return options;
  });
}

// One of the two ranks: its control and local blocks on its GPU, its abort words and its report in pinned host memory,
// as a communicator has them.
class Side {
 public:
  Side(Rank& process, int index, int device)
      : process_(process),
        index_(index),
        device_(device),
        gpu_(UseDevice(process, device)),
        abort_(process, sizeof(AbortBlock)),
        report_(process, sizeof(cuda::Report)),
        start_(process),
        end_(process) {
    control_ = NewZeroed<ControlBlock>();
    local_ = NewZeroed<LocalBlock>();
    std::memset(abort_.Data(), 0, sizeof(AbortBlock));
    new (report_.Data()) cuda::Report{};
    RequireCuda(process_, cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  }
  ~Side() {
    Use();
    RequireCuda(process_, cudaStreamDestroy(stream_), "cudaStreamDestroy");
    RequireCuda(process_, cudaFree(control_), "cudaFree");
    RequireCuda(process_, cudaFree(local_), "cudaFree");
  }
  Side(const Side&) = delete;
  Side& operator=(const Side&) = delete;

  const nlohmann::json& Gpu() const { return gpu_; }

  // Makes the peer's memory reachable, and all that is launched later ready to be.
  void Connect(const Side& peer, int nodes) {
    Use();
    if (peer.device_ != device_) ReachDevice(peer.device_);
    RankView& view = comm_.view;
    view.rank = index_;
    view.n_ranks = kRanks;
    view.local = local_;
    for (const Side* side : {static_cast<const Side*>(this), &peer}) {
      view.control[side->index_] = side->control_;
      view.abort[side->index_] = reinterpret_cast<AbortBlock*>(side->abort_.Data());
    }
    comm_.report = reinterpret_cast<cuda::Report*>(report_.Data());
    comm_.entry_timeout_ns = static_cast<uint64_t>(kEntryLimit.count());
    RequireCuda(process_, LoadMeetings(), "cudaFuncGetAttributes");
    RequireCuda(process_, Pause(0, stream_), "the kernel Pause");
    for (const Waiting waiting : kWaitings) {
      const auto record = [&] {
        for (int node = 0; node < nodes; ++node) Meet(waiting);
      };
      graphs_[waiting] = std::make_unique<Graph>(process_, stream_, record);
      graphs_[waiting]->Prepare(stream_);
    }
    start_.Record(stream_);
    end_.Record(stream_);
    Synchronize();
  }

  // Enqueues an iteration. The pause is long enough to do so on both sides.
  void Start(Waiting waiting, uint64_t pause_ns) {
    Use();
    RequireCuda(process_, Pause(pause_ns, stream_), "the kernel Pause");
    Meet(waiting);
    start_.Record(stream_);
    graphs_[waiting]->Launch(stream_);
    end_.Record(stream_);
  }

  // Waits for it. Returns microseconds.
  double Finish() {
    Use();
    Synchronize();
    const auto* report = reinterpret_cast<const cuda::Report*>(report_.Data());
    if (report->stall.code != 0) {
      process_.Fail("rank " + std::to_string(index_) + " stalled at barrier " +
                    std::to_string(report->stall.stall.epoch));
    }
    return end_.MicrosecondsSince(start_);
  }

  // How many barriers this rank has left.
  uint64_t CountBarriers() const {
    Use();
    uint64_t arrivals = 0;
    const cudaError_t copied = cudaMemcpy(&arrivals, &local_->arrivals, sizeof(arrivals), cudaMemcpyDeviceToHost);
    RequireCuda(process_, copied, "cudaMemcpy");
    return arrivals >> kArrivalBits;
  }

 private:
  template <class Block>
  Block* NewZeroed() const {
    void* block = nullptr;
    RequireCuda(process_, cudaMalloc(&block, sizeof(Block)), "cudaMalloc");
    RequireCuda(process_, cudaMemset(block, 0, sizeof(Block)), "cudaMemset");
    return static_cast<Block*>(block);
  }
  void Use() const { RequireCuda(process_, cudaSetDevice(device_), "cudaSetDevice"); }
  void Synchronize() const { RequireCuda(process_, cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }
  void Meet(Waiting waiting) const {
    RequireCuda(process_, EnqueueMeeting(waiting, comm_, stream_), "the kernel MeetOnce");
  }

  void ReachDevice(int device) const {
    int can = 0;
    RequireCuda(process_, cudaDeviceCanAccessPeer(&can, device_, device), "cudaDeviceCanAccessPeer");
    if (can == 0) {
      process_.Fail("device " + std::to_string(device_) + " cannot reach the memory of device " +
                    std::to_string(device));
    }
    RequireCuda(process_, cudaDeviceEnablePeerAccess(device, 0), "cudaDeviceEnablePeerAccess");
  }

  Rank& process_;
  const int index_;
  const int device_;
  const nlohmann::json gpu_;
  PinnedMemory abort_;
  PinnedMemory report_;
  TimeStamp start_;
  TimeStamp end_;
  ControlBlock* control_ = nullptr;
  LocalBlock* local_ = nullptr;
  cudaStream_t stream_ = nullptr;
  cuda::DeviceComm comm_{};
  std::map<Waiting, std::unique_ptr<Graph>> graphs_;
};

// In a process of its own. Sends the GPUs, then the times of each kind of waiting and how many barriers were wrong.
void Measure(const WaitBoundsOptions& options, const Placement& placement, Rank& process) {
  Side first(process, 0, placement.DeviceOf(0));
  Side second(process, 1, placement.DeviceOf(1));
  process.Send(nlohmann::json::array({first.Gpu(), second.Gpu()}));
  first.Connect(second, options.nodes);
  second.Connect(first, options.nodes);
  const uint64_t pause_ns = NanosecondsToEnqueue(kRanks * (1 + options.nodes));
  std::map<Waiting, std::vector<double>> times_us;
  for (int iteration = 0; iteration < options.warmup_iters + options.iters; ++iteration) {
    for (const Waiting waiting : kWaitings) {
      first.Start(waiting, pause_ns);
      second.Start(waiting, pause_ns);
      const double time_us = std::max(first.Finish(), second.Finish()) / options.nodes;
      if (iteration >= options.warmup_iters) times_us[waiting].push_back(time_us);
    }
  }
  const uint64_t wanted = uint64_t{2} * static_cast<uint64_t>(options.warmup_iters + options.iters) *
                          static_cast<uint64_t>(1 + options.nodes);
  const uint64_t wrong = (first.CountBarriers() != wanted ? 1 : 0) + (second.CountBarriers() != wanted ? 1 : 0);
  process.Send({{"bounded", times_us[Waiting::kBounded]}, {"bare", times_us[Waiting::kBare]}, {"wrong", wrong}});
}

class WaitBoundsPerf {
 public:
  explicit WaitBoundsPerf(const WaitBoundsOptions& options) : options_(options) {
    if (!options_.json.empty()) RequireWritable("-J/--json", options_.json);
    CommonOptions common;
    common.threads = true;
    common.backend = tcBackendCuda;
    common.gpus = options_.gpus;
    placement_ = Place(common, kRanks, VisibleGpus());
  }

  // The exit code.
  int Execute() {
    PrintHeader();
    std::string error;
    try {
      RunProcess();
      table_.Footer(kProgram, wrong_, true);
    } catch (const Failure& failure) {
      error = failure.what();
      std::fprintf(stderr, "%s: %s\n", kProgram, error.c_str());
    }
    report_.Write(options_.json, Config(), wrong_, error);
    return error.empty() && wrong_ == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
  }

 private:
  void PrintHeader() const {
    table_.Start(kProgram);
    table_.Comment("warmup iters: " + std::to_string(options_.warmup_iters) +
                   " iters: " + std::to_string(options_.iters) + " graph: " + std::to_string(options_.nodes));
    table_.Comment("checked: that no barrier stalls, and that both ranks have counted all of them");
    table_.Comment("time of a barrier as a graph node: device events around a graph of " +
                   std::to_string(options_.nodes) + " barriers, after a barrier, divided by their number,");
    table_.Comment("  largest of both ranks");
  }

  void RunProcess() {
    const auto run = [&](Rank& process) { Measure(options_, placement_, process); };
    RankGroup group(1, false, run, [&] { PrepareProcess(placement_, kRanks); });
    bool named = false;
    const auto on_message = [&](int, const nlohmann::json& message) {
      if (named) return Complete(message);
      PrintGpus(message);
      named = true;
    };
    group.Wait(on_message, RankGroup::Clock::now() + std::chrono::seconds(options_.timeout_s));
  }

  void PrintGpus(const nlohmann::json& gpus) {
    table_.Comment("");
    table_.Comment("Using 2 ranks: streams of one process");
    for (size_t rank = 0; rank < gpus.size(); ++rank) {
      table_.Comment(" Rank " + std::to_string(rank) + " device " + std::to_string(gpus[rank]["device"].get<int>()) +
                     " " + gpus[rank]["name"].get<std::string>());
      report_.NoteGpu(gpus[rank]);
    }
    table_.Titles();
  }

  // One number of barriers that is wrong spoils both.
  void Complete(const nlohmann::json& message) {
    wrong_ = message.at("wrong").get<uint64_t>();
    nlohmann::json row = {
        {"ranks", kRanks}, {"backend", "cuda"}, {"gpus", placement_.gpus}, {"threads", true}, {"nwrong", wrong_}};
    std::map<Waiting, double> medians;
    for (const Waiting waiting : kWaitings) {
      const auto times_us = message.at(NameOf(waiting)).get<std::vector<double>>();
      const Summary summary = Summarize(times_us);
      medians[waiting] = summary.median;
      table_.Row({NameOf(waiting), std::to_string(placement_.gpus), FormatNumber(summary.median, 3),
                  FormatNumber(summary.p99, 3), std::to_string(wrong_)});
      row[NameOf(waiting)] = {{"median_us", summary.median}, {"p99_us", summary.p99}, {"times_us", times_us}};
    }
    const double difference_us = medians[Waiting::kBounded] - medians[Waiting::kBare];
    const double percent = 100 * difference_us / medians[Waiting::kBare];
    table_.Comment("bounded less bare: " + FormatNumber(difference_us, 3) + " us, " + FormatNumber(percent) + " %");
    row["difference_us"] = difference_us;
    row["difference_percent"] = percent;
    report_.AddRow(row);
  }

  nlohmann::json Config() const {
    return {{"program", kProgram},
            {"gpus", options_.gpus},
            {"cudagraph", options_.nodes},
            {"iters", options_.iters},
            {"warmup_iters", options_.warmup_iters},
            {"timeout_s", options_.timeout_s}};
  }

  const WaitBoundsOptions& options_;
  Placement placement_;
  Table table_{{{"waiting", "", 10}, {"GPUs", "", 6}, {"median", "(us)", 12}, {"p99", "(us)", 12}, {"#wrong", "", 8}}};
  Report report_;
  uint64_t wrong_ = 0;
};

}  // namespace
}  // namespace tc::perf

int main(int argc, char** argv) {
  using namespace tc::perf;
  return Main<WaitBoundsPerf>(kProgram, ParseOptions(argc, argv));
}
