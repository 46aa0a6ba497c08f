// What only NVIDIA's management library (NVML) knows of GPUs: their UUIDs, names and NVLinks. It comes with the driver
// and is looked for at run time.
#pragma once

#include <string>
#include <vector>

#include "platform/topology.h"

namespace tc::platform {

struct NvmlGpu {
  std::string address, uuid, name;
  std::vector<NvLink> nvlinks;
};

// `library`: a file name for dlopen. Without it there is nothing to read: success, and *found is false. Of a GPU that
// does not answer there is what it did answer.
constexpr const char* kNvmlLibrary = "libnvidia-ml.so.1";
Status ReadNvml(const char* library, bool* found, std::vector<NvmlGpu>* gpus);

// Adds what NVML says to the GPUs of the same address. A GPU that sysfs does not show, as in some containers, is added
// at a place that is not known.
void AddNvml(const std::vector<NvmlGpu>& gpus, Topology* topology);

}  // namespace tc::platform
