#include "cuda/driver.h"

namespace tc::cuda {
namespace {

struct Found {
  Driver driver{};
  Status why;
};

template <class Function>
void Find(const char* name, Function* function, Status* why) {
  void* address = nullptr;
  cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
  // The version whose declarations this file was compiled with; all of these functions are as they were in 12.0.
  const cudaError_t error = cudaGetDriverEntryPointByVersion(name, &address, 12000, cudaEnableDefault, &result);
#else
  const cudaError_t error = cudaGetDriverEntryPoint(name, &address, cudaEnableDefault, &result);
#endif
  if (error != cudaSuccess || result != cudaDriverEntryPointSuccess || address == nullptr) {
    if (why->ok()) *why = Error(tcUnsupported, "the CUDA driver lacks %s: %s", name, cudaGetErrorString(error));
    return;
  }
  *function = reinterpret_cast<Function>(address);
}

Found FindAll() {
  Found found;
  int devices = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&devices); error != cudaSuccess || devices == 0) {
    found.why = Error(tcUnsupported, "no GPU was found (%s)", cudaGetErrorString(error));
    return found;
  }
  Driver& driver = found.driver;
  Find("cuDeviceGet", &driver.DeviceGet, &found.why);
  Find("cuDeviceGetAttribute", &driver.DeviceGetAttribute, &found.why);
  Find("cuCtxGetCurrent", &driver.CtxGetCurrent, &found.why);
  Find("cuCtxSetCurrent", &driver.CtxSetCurrent, &found.why);
  Find("cuMemGetAllocationGranularity", &driver.MemGetAllocationGranularity, &found.why);
  Find("cuMemCreate", &driver.MemCreate, &found.why);
  Find("cuMemRelease", &driver.MemRelease, &found.why);
  Find("cuMemAddressReserve", &driver.MemAddressReserve, &found.why);
  Find("cuMemAddressFree", &driver.MemAddressFree, &found.why);
  Find("cuMemMap", &driver.MemMap, &found.why);
  Find("cuMemUnmap", &driver.MemUnmap, &found.why);
  Find("cuMemSetAccess", &driver.MemSetAccess, &found.why);
  Find("cuMemExportToShareableHandle", &driver.MemExportToShareableHandle, &found.why);
  Find("cuMemImportFromShareableHandle", &driver.MemImportFromShareableHandle, &found.why);
  Find("cuStreamWaitValue64", &driver.StreamWaitValue64, &found.why);
  Find("cuTensorMapEncodeTiled", &driver.TensorMapEncodeTiled, &found.why);
  return found;
}

const Found& TheFound() {
  static const Found found = FindAll();
  return found;
}

}  // namespace

const Driver* FindDriver(Status* why) {
  const Found& found = TheFound();
  *why = found.why;
  return found.why.ok() ? &found.driver : nullptr;
}

const Driver& TheDriver() { return TheFound().driver; }

std::string DriverError(CUresult error) { return Format("CUDA driver error %d", static_cast<int>(error)); }

bool DeviceHas(int device, CUdevice_attribute attribute) {
  CUdevice handle = 0;
  int value = 0;
  return TheDriver().DeviceGet(&handle, device) == CUDA_SUCCESS &&
         TheDriver().DeviceGetAttribute(&value, attribute, handle) == CUDA_SUCCESS && value != 0;
}

Status CheckRuntime(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return {};
  (void)cudaGetLastError();  // reported here; a program that shares this runtime must not find it
  return Error(tcUnhandledCudaError, "%s: %s", what, cudaGetErrorString(error));
}

Status CheckDriver(CUresult error, const char* what) {
  if (error == CUDA_SUCCESS) return {};
  return Error(tcUnhandledCudaError, "%s: %s", what, DriverError(error).c_str());
}

DeviceScope::DeviceScope(int device) {
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
  (void)TheDriver().CtxGetCurrent(&before_);
  (void)cudaSetDevice(device);
}

DeviceScope::~DeviceScope() {
  (void)TheDriver().CtxSetCurrent(before_);
  (void)cudaThreadExchangeStreamCaptureMode(&mode_);
}

}  // namespace tc::cuda
