// What a perf binary needs of GPUs. device_case.cc implements it, and no_device.cc where the build has no CUDA.
#ifndef TC_PERF_DEVICE_H_
#define TC_PERF_DEVICE_H_

#include <memory>
#include <nlohmann/json.hpp>

#include "gemm_case.h"

namespace tc::perf {

// Whether the build can use GPUs at all.
bool IsBuiltForGpus();

// Makes `device` the calling rank's current one. Returns what it is: device, name, driver_version (null where the
// system does not tell), cuda_driver_version, cuda_runtime_version.
nlohmann::json UseDevice(Rank& rank, int device);

// A case on the current device: its memory, events or graph replays as clock, and a check by kernels. On every rank at
// once.
std::unique_ptr<GemmCase> MakeDeviceCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                                         Communicator& communicator);

}  // namespace tc::perf

#endif  // TC_PERF_DEVICE_H_
