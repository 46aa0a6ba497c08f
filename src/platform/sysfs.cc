#include "platform/sysfs.h"

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

namespace tc::platform {
namespace {

namespace fs = std::filesystem;

constexpr size_t kConfigBytes = 4096;
constexpr size_t kExtendedConfig = 0x100;  // where extended capabilities begin
constexpr uint32_t kAcsCapability = 0x000d;

// The first line, without blanks around it; "" when there is none to read.
std::string ReadLine(const fs::path& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  const size_t start = line.find_first_not_of(" \t");
  return start == std::string::npos ? "" : line.substr(start, line.find_last_not_of(" \t\r") + 1 - start);
}

// What `parse` makes of a file's line. A missing file leaves *value as it is.
template <class Value, class Parse>
Status ReadField(const fs::path& path, const char* what, const Parse& parse, Value* value) {
  const std::string text = ReadLine(path);
  if (text.empty()) return {};
  const auto parsed = parse(text);
  if (!parsed) return Error(tcInvalidArgument, "%s says \"%s\", which is no %s", path.c_str(), text.c_str(), what);
  *value = static_cast<Value>(*parsed);
  return {};
}

std::vector<fs::path> List(const fs::path& directory) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (fs::directory_iterator at(directory, error), end; !error && at != end; at.increment(error)) {
    entries.push_back(at->path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

// Only root may read more than the first 64 bytes of a device's configuration.
Acs ReadAcs(const fs::path& config) {
  std::ifstream in(config, std::ios::binary);
  char bytes[kConfigBytes];
  in.read(bytes, sizeof(bytes));
  const size_t size = static_cast<size_t>(in.gcount());
  if (size < kExtendedConfig) return {AcsState::kUnreadable};
  const auto word = [&](size_t at) {
    uint32_t value = 0;
    for (size_t i = 0; i < 4; ++i) value |= static_cast<uint32_t>(static_cast<unsigned char>(bytes[at + i])) << 8 * i;
    return value;
  };
  // Each capability names the next one by its offset. The bound ends a list that runs in a circle.
  size_t at = kExtendedConfig;
  for (size_t steps = 0; steps < kConfigBytes / 8 && at >= kExtendedConfig && at + 8 <= size; ++steps) {
    const uint32_t header = word(at);
    if ((header & 0xffff) == kAcsCapability) return {AcsState::kRead, static_cast<uint16_t>(word(at + 4) >> 16)};
    at = header >> 20 & 0xffc;
  }
  return {AcsState::kNone};
}

class SysfsReader {
 public:
  SysfsReader(const std::string& root, Topology* topology) : root_(root.empty() ? "/" : root), topology_(*topology) {}

  Status Read() {
    std::error_code error;
    if (!fs::is_directory(root_ / "sys", error)) {
      return Error(tcInvalidArgument, "%s holds no directory sys; it takes a copy of a machine's sys and proc",
                   root_.c_str());
    }
    ReadProcessors();
    TC_RETURN_IF_ERROR(ReadNodes());
    TC_RETURN_IF_ERROR(ReadIommuGroups());
    for (const fs::path& device : List(devices_)) TC_RETURN_IF_ERROR(ReadIfGpu(device));
    return {};
  }

 private:
  void ReadProcessors() {
    topology_.virtual_machine = false;
    std::ifstream cpuinfo(root_ / "proc/cpuinfo");
    for (std::string line; std::getline(cpuinfo, line) && !line.empty();) {  // the first processor's paragraph
      const size_t colon = line.find(": ");
      if (colon == std::string::npos) continue;
      if (line.rfind("model name", 0) == 0) topology_.cpu = line.substr(colon + 2);
      if (line.rfind("flags", 0) == 0 && (line + " ").find(" hypervisor ") != std::string::npos) {
        topology_.virtual_machine = true;
      }
    }
    std::istringstream command(ReadLine(root_ / "proc/cmdline"));
    for (std::string option; command >> option;) {
      for (const char* name : {"iommu", "intel_iommu", "amd_iommu", "arm-smmu", "pci", "pcie_acs_override"}) {
        const char after = option.rfind(name, 0) == 0 ? option.c_str()[std::strlen(name)] : '\0';
        if (after == '=' || after == '.') topology_.kernel_options.push_back(option);
      }
    }
  }

  Status ReadNodes() {
    for (const fs::path& directory : List(root_ / "sys/devices/system/node")) {
      const std::string name = directory.filename();
      const std::optional<int> number = name.rfind("node", 0) == 0 ? ParseInt(name.substr(4)) : std::nullopt;
      if (!number) continue;
      NumaNode node{*number, ReadLine(directory / "cpulist"), {}};
      std::istringstream distances(ReadLine(directory / "distance"));
      for (std::string text; distances >> text;) {
        const std::optional<int> distance = ParseInt(text);
        if (!distance) {
          return Error(tcInvalidArgument, "%s says \"%s\", which is no distance", (directory / "distance").c_str(),
                       text.c_str());
        }
        node.distances.push_back(*distance);
      }
      topology_.nodes.push_back(std::move(node));
    }
    std::sort(topology_.nodes.begin(), topology_.nodes.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.number < b.number; });
    if (topology_.nodes.empty()) topology_.nodes.push_back({0, ReadLine(root_ / "sys/devices/system/cpu/online"), {}});
    return {};
  }

  Status ReadIommuGroups() {
    const fs::path groups = root_ / "sys/kernel/iommu_groups";
    std::error_code error;
    if (fs::is_directory(groups, error)) topology_.iommu = false;
    for (const fs::path& directory : List(groups)) {
      const std::optional<int> number = ParseInt(directory.filename().string());
      if (!number) continue;
      topology_.iommu = true;
      const std::string type = ReadLine(directory / "type");
      for (const fs::path& device : List(directory / "devices")) groups_[device.filename()] = {*number, type};
    }
    return {};
  }

  Status ReadIfGpu(const fs::path& device) {
    uint32_t vendor = 0, class_code = 0;
    TC_RETURN_IF_ERROR(ReadField(device / "vendor", "PCI vendor", ParseHex, &vendor));
    TC_RETURN_IF_ERROR(ReadField(device / "class", "PCI class", ParseHex, &class_code));
    std::error_code error;
    if (vendor != kNvidia || !IsDisplay(class_code)) return {};
    if (fs::is_symlink(device / "physfn", error)) return {};  // a share of a GPU, made for a virtual machine
    const fs::path place = fs::read_symlink(device, error);
    if (error) {
      return Error(tcInvalidArgument,
                   "%s is no symbolic link, so nothing says where that GPU sits; copy links as links", device.c_str());
    }
    Gpu gpu;
    for (const fs::path& part : place) {  // ../../../devices/pci0000:16/0000:16:01.0/0000:17:00.0
      if (part.string().rfind("pci", 0) == 0 && part.string().find(':') != std::string::npos) {
        gpu.host_bridge =
            part;  // behind a volume management device there is a second one, which is the one that counts
        gpu.parent = -1;
        continue;
      }
      const std::optional<std::string> address = ParsePciAddress(part.string());
      if (!address || gpu.host_bridge.empty()) continue;
      if (part == device.filename()) {
        gpu.address = *address;
        break;
      }
      TC_RETURN_IF_ERROR(FindBridge(part, *address, gpu.parent, &gpu.parent));
    }
    if (gpu.address.empty()) {
      return Error(tcInvalidArgument, "%s links to %s, which is no place below a host bridge", device.c_str(),
                   place.c_str());
    }
    TC_RETURN_IF_ERROR(ReadLink(device, &gpu.now, &gpu.most));
    TC_RETURN_IF_ERROR(ReadNuma(device, gpu.parent, &gpu.numa));
    if (const auto group = groups_.find(device.filename()); group != groups_.end()) gpu.iommu = group->second;
    if (gpu.parent < 0) topology_.virtual_machine = true;  // no card sits on a root bus
    topology_.gpus.push_back(std::move(gpu));
    return {};
  }

  Status FindBridge(const fs::path& name, const std::string& address, int parent, int* bridge) {
    if (const auto known = bridges_.find(address); known != bridges_.end()) {
      *bridge = known->second;
      return {};
    }
    Bridge found;
    found.address = address;
    found.parent = parent;
    TC_RETURN_IF_ERROR(ReadLink(devices_ / name, &found.now, &found.most));
    found.acs = ReadAcs(devices_ / name / "config");
    *bridge = bridges_[address] = static_cast<int>(topology_.bridges.size());
    topology_.bridges.push_back(std::move(found));
    return {};
  }

  Status ReadLink(const fs::path& device, PciLink* now, PciLink* most) {
    TC_RETURN_IF_ERROR(ReadField(device / "current_link_speed", "link speed", ParseGtS, &now->gt_s));
    TC_RETURN_IF_ERROR(ReadField(device / "current_link_width", "link width", ParseInt, &now->width));
    TC_RETURN_IF_ERROR(ReadField(device / "max_link_speed", "link speed", ParseGtS, &most->gt_s));
    TC_RETURN_IF_ERROR(ReadField(device / "max_link_width", "link width", ParseInt, &most->width));
    for (PciLink* link : {now, most}) {
      if (link->width < 0 || link->width > 32) link->width = 0;  // 63 and 255 are said of a link that is down
    }
    return {};
  }

  // A machine of one node may say -1 of every device; firmware may say the node of a bridge only.
  Status ReadNuma(const fs::path& device, int parent, int* numa) {
    TC_RETURN_IF_ERROR(ReadField(device / "numa_node", "NUMA node", ParseInt, numa));
    for (int at = parent; *numa < 0 && at >= 0; at = topology_.bridges[static_cast<size_t>(at)].parent) {
      const fs::path bridge = devices_ / topology_.bridges[static_cast<size_t>(at)].address;
      TC_RETURN_IF_ERROR(ReadField(bridge / "numa_node", "NUMA node", ParseInt, numa));
    }
    if (*numa < 0) *numa = topology_.nodes.size() == 1 ? topology_.nodes.front().number : -1;
    return {};
  }

  const fs::path root_;
  const fs::path devices_ = root_ / "sys/bus/pci/devices";
  Topology& topology_;
  std::map<std::string, IommuGroup> groups_;
  std::map<std::string, int> bridges_;
};

}  // namespace

Status ReadSysfs(const std::string& root, Topology* topology) {
  *topology = {};
  topology->source = root.empty() ? "sysfs" : "sysfs at " + root;
  TC_RETURN_IF_ERROR(SysfsReader(root, topology).Read());
  // By domain, bus and device, which are not always of as many digits.
  std::sort(topology->gpus.begin(), topology->gpus.end(), [](const Gpu& a, const Gpu& b) {
    return a.address.size() != b.address.size() ? a.address.size() < b.address.size() : a.address < b.address;
  });
  return {};
}

}  // namespace tc::platform
