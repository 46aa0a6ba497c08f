#include "device.h"

#include <fstream>

#include "cuda_handles.h"

namespace tc::perf {
namespace {

// 13.0, from 13000.
std::string CudaVersionText(int code) { return std::to_string(code / 1000) + "." + std::to_string(code % 1000 / 10); }

nlohmann::json DriverVersion() {
  std::ifstream file("/sys/module/nvidia/version");
  std::string version;
  if (!(file >> version)) return nullptr;
  return version;
}

}  // namespace

bool IsBuiltForGpus() { return true; }

nlohmann::json UseDevice(Rank& rank, int device) {
  RequireCuda(rank, cudaSetDevice(device), "cudaSetDevice(" + std::to_string(device) + ")");
  cudaDeviceProp properties;
  RequireCuda(rank, cudaGetDeviceProperties(&properties, device), "cudaGetDeviceProperties");
  int driver = 0;
  int runtime = 0;
  RequireCuda(rank, cudaDriverGetVersion(&driver), "cudaDriverGetVersion");
  RequireCuda(rank, cudaRuntimeGetVersion(&runtime), "cudaRuntimeGetVersion");
  return {{"device", device},
          {"name", properties.name},
          {"driver_version", DriverVersion()},
          {"cuda_driver_version", CudaVersionText(driver)},
          {"cuda_runtime_version", CudaVersionText(runtime)}};
}

}  // namespace tc::perf
