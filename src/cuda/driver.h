// The CUDA driver's functions for virtual memory, devices, contexts, waits in streams and tensor maps, found at run
// time: the library loads without a driver.
#pragma once

#include <cuda.h>
#include <cuda_runtime_api.h>

#include <string>

#include "base/status.h"

namespace tc::cuda {

struct Driver {
  decltype(&::cuDeviceGet) DeviceGet;
  decltype(&::cuDeviceGetAttribute) DeviceGetAttribute;
  decltype(&::cuCtxGetCurrent) CtxGetCurrent;
  decltype(&::cuCtxSetCurrent) CtxSetCurrent;
  decltype(&::cuMemGetAllocationGranularity) MemGetAllocationGranularity;
  decltype(&::cuMemCreate) MemCreate;
  decltype(&::cuMemRelease) MemRelease;
  decltype(&::cuMemAddressReserve) MemAddressReserve;
  decltype(&::cuMemAddressFree) MemAddressFree;
  decltype(&::cuMemMap) MemMap;
  decltype(&::cuMemUnmap) MemUnmap;
  decltype(&::cuMemSetAccess) MemSetAccess;
  decltype(&::cuMemExportToShareableHandle) MemExportToShareableHandle;
  decltype(&::cuMemImportFromShareableHandle) MemImportFromShareableHandle;
  decltype(&::cuStreamWaitValue64) StreamWaitValue64;
  decltype(&::cuTensorMapEncodeTiled) TensorMapEncodeTiled;
};

// NULL, with the reason in *why, when there is no driver or it lacks a function.
const Driver* FindDriver(Status* why);

// The driver of a process that has a CUDA backend.
const Driver& TheDriver();

// "CUDA driver error 801": a driver's own words would need one more function of it.
std::string DriverError(CUresult error);
// Whether a GPU has what an attribute says that is 0 or 1.
bool DeviceHas(int device, CUdevice_attribute attribute);

Status CheckRuntime(cudaError_t error, const char* what);
Status CheckDriver(CUresult error, const char* what);

#define TC_RETURN_IF_CUDA_ERROR(call) TC_RETURN_IF_ERROR(::tc::cuda::CheckRuntime((call), #call))
#define TC_RETURN_IF_DRIVER_ERROR(call) TC_RETURN_IF_ERROR(::tc::cuda::CheckDriver((call), #call))

// Makes a device current for a scope and puts back what the thread had before. Inside it, another thread's capture of a
// stream in global mode is not broken by what this one allocates or waits for.
class DeviceScope {
 public:
  explicit DeviceScope(int device);
  ~DeviceScope();
  DeviceScope(const DeviceScope&) = delete;
  DeviceScope& operator=(const DeviceScope&) = delete;

 private:
  CUcontext before_ = nullptr;
  cudaStreamCaptureMode mode_ = cudaStreamCaptureModeRelaxed;
};

}  // namespace tc::cuda
