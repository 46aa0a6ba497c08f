// For tests: an NVML of four GPUs. 0 and 1 have five links to each other, one of them down; 2 has five links to two
// switches; 3 answers nothing. The environment's FAKE_NVML_ERROR is what nvmlInit_v2 returns.
#include <cstdlib>
#include <cstring>

struct nvmlDevice_st {
  unsigned index;
};

namespace {

nvmlDevice_st devices[4] = {{0}, {1}, {2}, {3}};
constexpr const char* kAddresses[] = {"00000000:3B:00.0", "00000000:5E:00.0", "00010000:01:00.0"};
constexpr int kInvalidArgument = 2, kNotSupported = 3, kUnknown = 999;

struct PciInfo {
  char legacy_address[16];
  unsigned numbers[5];
  char address[32];
};

int Copy(const char* text, char* to, unsigned bytes) {
  if (std::strlen(text) >= bytes) return kInvalidArgument;
  std::strcpy(to, text);
  return 0;
}

int live = 0;  // inits without their shutdown

}  // namespace

#define FAKE extern "C" __attribute__((visibility("default"))) int

FAKE nvmlInit_v2() {
  const char* error = std::getenv("FAKE_NVML_ERROR");
  if (error != nullptr) return std::atoi(error);
  ++live;
  return 0;
}
FAKE nvmlShutdown() { return live-- > 0 ? 0 : 1; }
FAKE nvmlDeviceGetCount_v2(unsigned* count) {
  *count = live == 1 ? 4 : 0;
  return 0;
}
FAKE nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_st** device) {
  *device = &devices[index];
  return 0;
}
FAKE nvmlDeviceGetPciInfo_v3(nvmlDevice_st* device, PciInfo* info) {
  return device->index < 3 ? Copy(kAddresses[device->index], info->address, sizeof(info->address)) : kUnknown;
}
FAKE nvmlDeviceGetUUID(nvmlDevice_st* device, char* text, unsigned bytes) {
  constexpr const char* kUuids[] = {"GPU-a", "GPU-b", "GPU-c"};
  return Copy(kUuids[device->index], text, bytes);
}
FAKE nvmlDeviceGetName(nvmlDevice_st* device, char* text, unsigned bytes) {
  return device->index == 2 ? kUnknown : Copy("NVIDIA Test", text, bytes);
}
FAKE nvmlDeviceGetNvLinkState(nvmlDevice_st* device, unsigned link, int* active) {
  if (device->index == 3) return kNotSupported;
  if (link >= 5) return kInvalidArgument;
  *active = device->index == 2 || link != 1;
  return 0;
}
FAKE nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_st* device, unsigned link, PciInfo* info) {
  const char* to = device->index < 2 ? kAddresses[1 - device->index]
                   : link < 3        ? "00000000:05:00.0"
                                     : "00000000:06:00.0";
  return Copy(to, info->address, sizeof(info->address));
}
FAKE nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_st* device, unsigned, int* type) {
  *type = device->index == 2 ? 2 : 0;
  return 0;
}
