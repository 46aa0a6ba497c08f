// PCI notation: addresses, link speeds, hexadecimal ids, as sysfs, NVML and NCCL's files write them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tc::platform {

// A link's speed (per lane) and its lanes; 0: unknown.
struct PciLink {
  double gt_s = 0;
  int width = 0;
};

// "00000000:3B:00.0", "0000:3b:00.0" or "3b:00.0" to "0000:3b:00.0", the one form used inside.
std::optional<std::string> ParsePciAddress(std::string_view text);

// "0x10de" or "10de".
std::optional<uint32_t> ParseHex(std::string_view text);

std::optional<int> ParseInt(std::string_view text);

// The number before "GT/s" of "32.0 GT/s PCIe" or "16 GT/s"; 0 for "Unknown" and "".
std::optional<double> ParseGtS(std::string_view text);

// 32 GT/s is generation 5; 0 when it is none.
int PciGeneration(double gt_s);

constexpr uint32_t kNvidia = 0x10de;

// Classes are 24 bits: base, subclass, interface.
constexpr bool IsDisplay(uint32_t class_code) { return class_code >> 8 == 0x0300 || class_code >> 8 == 0x0302; }

}  // namespace tc::platform
