#include "platform/nvml.h"

#include <dlfcn.h>

#include <algorithm>
#include <memory>

namespace tc::platform {
namespace {

// NVML's ABI, as far as it is used here: nvml.h need not be there when the library is built.
using Device = struct nvmlDevice_st*;
struct PciInfo {
  char legacy_address[16];
  unsigned domain, bus, device, device_and_vendor, subsystem;
  char address[32];
};
constexpr int kSuccess = 0;
constexpr unsigned kTextBytes = 96;
constexpr unsigned kMostLinks = 64;  // more than any GPU has; NVML refuses numbers beyond a GPU's own

struct Nvml {
  int (*Init)();
  int (*Shutdown)();
  int (*DeviceGetCount)(unsigned* count);
  int (*DeviceGetHandleByIndex)(unsigned index, Device* device);
  int (*DeviceGetPciInfo)(Device device, PciInfo* info);
  int (*DeviceGetUuid)(Device device, char* text, unsigned bytes);
  int (*DeviceGetName)(Device device, char* text, unsigned bytes);
  int (*DeviceGetNvLinkState)(Device device, unsigned link, int* active);
  int (*DeviceGetNvLinkRemotePciInfo)(Device device, unsigned link, PciInfo* info);
  int (*DeviceGetNvLinkRemoteDeviceType)(Device device, unsigned link, int* type);
};

struct CloseLibrary {
  void operator()(void* library) const { ::dlclose(library); }
};

Status FindFunctions(void* library, Nvml* nvml) {
  const char* missing = nullptr;
  const auto find = [&](const char* name, auto* function) {
    void* address = ::dlsym(library, name);
    if (address == nullptr && missing == nullptr) missing = name;
    *function = reinterpret_cast<std::remove_pointer_t<decltype(function)>>(address);
  };
  find("nvmlInit_v2", &nvml->Init);
  find("nvmlShutdown", &nvml->Shutdown);
  find("nvmlDeviceGetCount_v2", &nvml->DeviceGetCount);
  find("nvmlDeviceGetHandleByIndex_v2", &nvml->DeviceGetHandleByIndex);
  find("nvmlDeviceGetPciInfo_v3", &nvml->DeviceGetPciInfo);
  find("nvmlDeviceGetUUID", &nvml->DeviceGetUuid);
  find("nvmlDeviceGetName", &nvml->DeviceGetName);
  find("nvmlDeviceGetNvLinkState", &nvml->DeviceGetNvLinkState);
  find("nvmlDeviceGetNvLinkRemotePciInfo_v2", &nvml->DeviceGetNvLinkRemotePciInfo);
  if (missing != nullptr) return Error(tcSystemError, "NVML lacks %s: the driver is too old", missing);
  find("nvmlDeviceGetNvLinkRemoteDeviceType", &nvml->DeviceGetNvLinkRemoteDeviceType);  // since driver 470
  return {};
}

// The array is NVML's to fill; it need not have put a zero at its end.
template <size_t kBytes>
std::string Text(const char (&text)[kBytes]) {
  return std::string(text, std::find(text, text + kBytes, '\0'));
}

std::vector<NvLink> ReadNvLinks(const Nvml& nvml, Device device) {
  std::vector<NvLink> links;
  for (unsigned number = 0; number < kMostLinks; ++number) {
    int active = 0;
    if (nvml.DeviceGetNvLinkState(device, number, &active) != kSuccess) break;
    if (active == 0) continue;
    PciInfo info{};
    NvLink link{NvLinkEnd::kOther, "", 1};
    if (nvml.DeviceGetNvLinkRemotePciInfo(device, number, &info) == kSuccess) {
      link.address = ParsePciAddress(Text(info.address)).value_or("");
    }
    int type = -1;
    if (nvml.DeviceGetNvLinkRemoteDeviceType != nullptr &&
        nvml.DeviceGetNvLinkRemoteDeviceType(device, number, &type) == kSuccess) {
      link.end = type == 0 ? NvLinkEnd::kGpu : type == 2 ? NvLinkEnd::kSwitch : NvLinkEnd::kOther;
    }
    const auto same = std::find_if(links.begin(), links.end(), [&link](const NvLink& other) {
      return other.end == link.end && other.address == link.address;
    });
    if (same != links.end()) {
      ++same->count;
    } else {
      links.push_back(std::move(link));
    }
  }
  return links;
}

}  // namespace

Status ReadNvml(const char* library, bool* found, std::vector<NvmlGpu>* gpus) {
  gpus->clear();
  const std::unique_ptr<void, CloseLibrary> handle(::dlopen(library, RTLD_NOW | RTLD_LOCAL));
  *found = handle != nullptr;
  if (!*found) return {};
  Nvml nvml{};
  TC_RETURN_IF_ERROR(FindFunctions(handle.get(), &nvml));
  if (const int error = nvml.Init(); error != kSuccess) {
    return Error(tcSystemError, "NVML does not start (error %d): is the driver loaded, of the same version?", error);
  }
  unsigned count = 0;
  const int counted = nvml.DeviceGetCount(&count);
  for (unsigned index = 0; counted == kSuccess && index < count; ++index) {
    Device device = nullptr;
    PciInfo info{};
    if (nvml.DeviceGetHandleByIndex(index, &device) != kSuccess) continue;  // a GPU this process may not use
    if (nvml.DeviceGetPciInfo(device, &info) != kSuccess) continue;
    const std::optional<std::string> address = ParsePciAddress(Text(info.address));
    if (!address) continue;
    char uuid[kTextBytes] = {}, name[kTextBytes] = {};
    (void)nvml.DeviceGetUuid(device, uuid, sizeof(uuid));  // what fails leaves its text empty
    (void)nvml.DeviceGetName(device, name, sizeof(name));
    gpus->push_back({*address, Text(uuid), Text(name), ReadNvLinks(nvml, device)});
  }
  (void)nvml.Shutdown();
  return counted == kSuccess ? Status()
                             : Error(tcSystemError, "NVML does not say how many GPUs there are (error %d)", counted);
}

void AddNvml(const std::vector<NvmlGpu>& gpus, Topology* topology) {
  const auto find = [topology](const std::string& address) {
    return std::find_if(topology->gpus.begin(), topology->gpus.end(),
                        [&address](const Gpu& gpu) { return gpu.address == address; });
  };
  for (const NvmlGpu& seen : gpus) {
    auto gpu = find(seen.address);
    if (gpu == topology->gpus.end()) {
      topology->unknowns.push_back(
          Format("sysfs does not show the GPU %s, which NVML knows: where it sits is not known, "
                 "and paths to it count as SYS unless they are NVLinks.",
                 seen.address.c_str()));
      gpu = topology->gpus.insert(gpu, Gpu{});
      gpu->address = seen.address;
    }
    gpu->uuid = seen.uuid;
    gpu->name = seen.name;
    gpu->nvlinks = seen.nvlinks;
  }
  // Without NVML's word on the other end: what has a GPU's address is a GPU.
  for (Gpu& gpu : topology->gpus) {
    for (NvLink& link : gpu.nvlinks) {
      if (find(link.address) != topology->gpus.end()) link.end = NvLinkEnd::kGpu;
    }
  }
}

}  // namespace tc::platform
