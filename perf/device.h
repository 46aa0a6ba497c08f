// What a perf binary needs of GPUs, whatever it measures. no_device.cc implements it where the build has no CUDA.
#ifndef TC_PERF_DEVICE_H_
#define TC_PERF_DEVICE_H_

#include <nlohmann/json.hpp>

#include "ranks.h"

namespace tc::perf {

// Whether the build can use GPUs at all.
bool IsBuiltForGpus();

// Makes `device` the calling rank's current one. Returns what it is: device, name, driver_version (null where the
// system does not tell), cuda_driver_version, cuda_runtime_version.
nlohmann::json UseDevice(Rank& rank, int device);

}  // namespace tc::perf

#endif  // TC_PERF_DEVICE_H_
