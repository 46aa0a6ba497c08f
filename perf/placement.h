// Where the ranks of a run are: on CPUs or on which GPUs, as processes or as threads. Nothing here touches CUDA: a
// process that forks must not have.
#ifndef TC_PERF_PLACEMENT_H_
#define TC_PERF_PLACEMENT_H_

#include <string>

#include "options.h"

namespace tc::perf {

struct Placement {
  tcBackend_t backend = tcBackendHost;
  int gpus = 0;  // that ranks take turns on
  bool threads = false;
  std::string note;  // what was decided unasked; empty: nothing

  bool OnGpus() const { return backend == tcBackendCuda; }
  // The GPU of a rank; -1 on CPUs.
  int DeviceOf(int rank) const { return OnGpus() ? rank % gpus : -1; }
};

// GPUs that this process would see: by their device files, and CUDA_VISIBLE_DEVICES where that is set.
int VisibleGpus();
// `visible`: the value of CUDA_VISIBLE_DEVICES, or nullptr. `device_files`: how many GPUs there are.
int CountVisibleGpus(const char* visible, int device_files);

// `visible_gpus`: what the process sees, 0 when the build cannot use them. Throws Failure when ranks cannot be placed
// as asked.
Placement Place(const CommonOptions& options, int n_ranks, int visible_gpus);

// In each fresh process of ranks, before it touches CUDA: sets the environment that the library and CUDA read.
void PrepareProcess(const Placement& placement, int n_ranks);

}  // namespace tc::perf

#endif  // TC_PERF_PLACEMENT_H_
