#include "placement.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "failure.h"

namespace tc::perf {
namespace {

bool IsNumber(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// /dev/nvidia0, /dev/nvidia1, ...: a container may hold any of them.
int DeviceFiles() {
  constexpr std::string_view kPrefix = "nvidia";
  int count = 0;
  std::error_code none;
  for (const auto& entry : std::filesystem::directory_iterator("/dev", none)) {
    const std::string name = entry.path().filename();
    if (name.starts_with(kPrefix) && IsNumber(std::string_view(name).substr(kPrefix.size()))) ++count;
  }
  return count;
}

std::string GpusText(int count) { return std::to_string(count) + (count == 1 ? " GPU" : " GPUs"); }

}  // namespace

int CountVisibleGpus(const char* visible, int device_files) {
  if (visible == nullptr) return device_files;
  // CUDA reads the list up to the first entry that is no device.
  int count = 0;
  std::string_view rest = visible;
  for (bool more = true; more && count < device_files;) {
    const size_t end = rest.find(',');
    more = end != std::string_view::npos;
    const std::string entry(rest.substr(0, end));
    const bool known = IsNumber(entry) ? std::atoi(entry.c_str()) < device_files
                                       : entry.starts_with("GPU-") || entry.starts_with("MIG-");
    if (!known) break;
    ++count;
    if (more) rest.remove_prefix(end + 1);
  }
  return count;
}

int VisibleGpus() { return CountVisibleGpus(std::getenv("CUDA_VISIBLE_DEVICES"), DeviceFiles()); }

Placement Place(const CommonOptions& options, int n_ranks, int visible_gpus) {
  Placement placement;
  placement.threads = options.threads;
  const bool wanted = options.backend == tcBackendCuda || options.gpus > 0 || options.graph_replays > 0;
  if (options.backend == tcBackendHost || (visible_gpus == 0 && !wanted)) return placement;
  if (visible_gpus == 0) {
    throw Failure("no GPU: there is none that this process sees, or this build has no CUDA backend.");
  }
  if (options.gpus > visible_gpus) {
    throw Failure("-g/--gpus: " + GpusText(options.gpus) + " asked for, and this process sees " +
                  GpusText(visible_gpus) + ".");
  }
  placement.backend = tcBackendCuda;
  placement.gpus = options.gpus > 0 ? options.gpus : visible_gpus;
  if (n_ranks <= placement.gpus || placement.threads) return placement;
  const std::string few = std::to_string(n_ranks) + " ranks on " + GpusText(placement.gpus);
  if (options.backend == tcBackendCuda) {
    throw Failure(few + ": ranks can share a GPU only as threads of one process; add --threads, or ask for fewer -r.");
  }
  placement.threads = true;
  placement.note = few + " share them, which only threads of one process can: as with --threads";
  return placement;
}

void PrepareProcess(const Placement& placement, int n_ranks) {
  // Above all for tcMemAlloc, which knows no communicator.
  setenv("TC_BACKEND", placement.OnGpus() ? "cuda" : "host", 1);
  // Else the kernels of ranks that share a GPU may be queued behind each other, each waiting for the next.
  if (placement.OnGpus() && n_ranks > placement.gpus) setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
}

}  // namespace tc::perf
