#include "platform/topology.h"

#include <algorithm>
#include <array>

namespace tc::platform {
namespace {

int ParentOf(const Topology& topology, int bridge) { return topology.bridges[static_cast<size_t>(bridge)].parent; }

const Gpu& GpuAt(const Topology& topology, int gpu) { return topology.gpus[static_cast<size_t>(gpu)]; }

int NvLinksToSwitches(const Gpu& gpu) {
  int count = 0;
  for (const NvLink& link : gpu.nvlinks) count += link.end == NvLinkEnd::kSwitch ? link.count : 0;
  return count;
}

bool ShareNvSwitch(const Gpu& a, const Gpu& b) {
  return std::any_of(a.nvlinks.begin(), a.nvlinks.end(), [&b](const NvLink& one) {
    return one.end == NvLinkEnd::kSwitch &&
           std::any_of(b.nvlinks.begin(), b.nvlinks.end(), [&one](const NvLink& other) {
             return other.end == NvLinkEnd::kSwitch && other.address == one.address;
           });
  });
}

// Links are spread over switches unevenly (5, 4, 5, 4), differently for each GPU, so what counts is each GPU's sum.
int NvLinksBetween(const Gpu& a, const Gpu& b) {
  int direct = 0;
  for (const NvLink& link : a.nvlinks) {
    if (link.end == NvLinkEnd::kGpu && link.address == b.address) direct += link.count;
  }
  if (direct > 0 || !ShareNvSwitch(a, b)) return direct;
  return std::min(NvLinksToSwitches(a), NvLinksToSwitches(b));
}

// Ports passed between a GPU and a bridge above it, that one not counted.
int PortsBelow(const Topology& topology, int gpu, int bridge) {
  int ports = 0;
  for (int at = GpuAt(topology, gpu).parent; at != bridge; at = ParentOf(topology, at)) {
    ports += topology.bridges[static_cast<size_t>(at)].ports;
  }
  return ports;
}

// Whether a bridge's link is the one above it: that of a switch's upstream port. Ports alternate on the way from the
// root: root port, upstream port, downstream port, upstream port, ...
bool LinkIsAbove(const Topology& topology, const Bridge& bridge) {
  bool above = false;
  for (int at = bridge.parent; at >= 0; at = ParentOf(topology, at)) above = !above;
  return above;
}

// What makes one group better than another: smaller is better.
struct GroupCost {
  std::array<int, 6> pairs{};  // of each class, the worst first
  int missing_nvlinks = 0;     // of the pair that has the fewest

  auto operator<=>(const GroupCost&) const = default;
};

std::string AcsCure(const std::vector<std::string>& bridges) {
  std::string cure = "switch ACS off in the firmware's setup, or as root, after every boot:";
  for (const std::string& bridge : bridges) cure += Format(" setpci -s %s ECAP_ACS+6.w=0000;", bridge.c_str());
  cure.back() = '.';
  return cure;
}

// Bridges that traffic between some two GPUs passes.
std::vector<int> BridgesBetweenGpus(const Topology& topology) {
  std::vector<int> between;
  if (topology.gpus.size() < 2) return between;
  for (int gpu = 0; gpu < static_cast<int>(topology.gpus.size()); ++gpu) {
    for (const int bridge : BridgesAbove(topology, gpu)) between.push_back(bridge);
  }
  std::sort(between.begin(), between.end());
  between.erase(std::unique(between.begin(), between.end()), between.end());
  return between;
}

void FindAcs(const Topology& topology, std::vector<Finding>* findings) {
  size_t unreadable = 0;
  for (const int index : BridgesBetweenGpus(topology)) {
    const Bridge& bridge = topology.bridges[static_cast<size_t>(index)];
    unreadable += bridge.acs.state == AcsState::kUnreadable;
    if (bridge.acs.state != AcsState::kRead || (bridge.acs.control & kAcsRedirect) == 0) continue;
    findings->push_back({Format("ACS of the bridge %s redirects what GPUs send each other (its control register is "
                                "0x%04x): the root complex slows it down, or drops it.",
                                bridge.address.c_str(), bridge.acs.control),
                         AcsCure({bridge.address})});
  }
  if (unreadable == 0) return;
  findings->push_back(
      {Format("This user may not read whether ACS of %zu bridges redirects GPU-to-GPU traffic.", unreadable),
       "run this once as root."});
  // The kernel puts devices behind one switch into one group unless ACS keeps them apart.
  for (const SharedUplink& shared : SharedUplinks(topology)) {
    const Gpu &a = GpuAt(topology, shared.a), &b = GpuAt(topology, shared.b);
    if (a.parent == shared.bridge || b.parent == shared.bridge) continue;  // functions of one device: no port between
    if (a.iommu.number < 0 || b.iommu.number < 0 || a.iommu.number == b.iommu.number) continue;
    std::vector<std::string> ports;
    for (const int gpu : {shared.a, shared.b}) {
      for (int at = GpuAt(topology, gpu).parent; at != shared.bridge; at = ParentOf(topology, at)) {
        ports.push_back(topology.bridges[static_cast<size_t>(at)].address);
      }
    }
    findings->push_back(
        {Format("GPU %d and GPU %d share the bridge %s but have IOMMU groups of their own (%d and %d): "
                "ACS is on below it and redirects what they send each other.",
                shared.a, shared.b, topology.bridges[static_cast<size_t>(shared.bridge)].address.c_str(),
                a.iommu.number, b.iommu.number),
         AcsCure(ports)});
  }
}

void FindIommu(const Topology& topology, std::vector<Finding>* findings) {
  std::string gpus;
  for (const Gpu& gpu : topology.gpus) {
    if (gpu.iommu.type.rfind("DMA", 0) == 0) gpus += (gpus.empty() ? "" : ", ") + gpu.address;
  }
  if (gpus.empty()) return;
  findings->push_back(
      {Format("The IOMMU translates the addresses of %s: GPU-to-GPU traffic goes through it.", gpus.c_str()),
       "boot with iommu=pt on the kernel's command line, or switch the IOMMU off in the firmware's setup."});
}

void FindSlowLinks(const Topology& topology, std::vector<Finding>* findings) {
  const auto look = [&](const char* what, const std::string& address, const PciLink& now, const PciLink& own_most,
                        int parent) {
    const PciLink most = BestLink(topology, own_most, parent);
    if (now.width > 0 && now.width < most.width) {
      findings->push_back(
          {Format("The link of %s %s has %d lanes; it could have %d.", what, address.c_str(), now.width, most.width),
           "reseat the card or its cable, or look at the slot's bifurcation in the firmware's setup."});
    }
    if (now.gt_s > 0 && now.gt_s < most.gt_s) {
      findings->push_back(
          {Format("The link of %s %s runs at %g GT/s; it could run at %g.", what, address.c_str(), now.gt_s, most.gt_s),
           "look again while GPUs work, since idle links slow down; if it stays, look at the slot's speed "
           "in the firmware's setup, and at cables and risers."});
    }
  };
  for (const Bridge& bridge : topology.bridges) {
    // A root port's or a downstream port's link is the one below it, which whoever sits there is asked about.
    if (LinkIsAbove(topology, bridge)) look("bridge", bridge.address, bridge.now, bridge.most, bridge.parent);
  }
  for (const Gpu& gpu : topology.gpus) look("GPU", gpu.address, gpu.now, gpu.most, gpu.parent);
}

void FindHiddenBridges(const Topology& topology, std::vector<Finding>* findings) {
  const bool on_root_bus = std::any_of(topology.gpus.begin(), topology.gpus.end(),
                                       [](const Gpu& gpu) { return gpu.parent < 0 && !gpu.host_bridge.empty(); });
  if (topology.gpus.size() < 2 || !topology.virtual_machine.value_or(false)) return;
  findings->push_back({on_root_bus
                           ? "A virtual machine: GPUs sit on the root bus, where no card can be. Which switches "
                             "and sockets they share is hidden, so paths are not to be believed."
                           : "A virtual machine: the bridges shown need not be those of the host.",
                       "set TC_TOPO_FILE to a topology file of NCCL's, written on the host or given by its provider."});
}

}  // namespace

std::string Path::Name() const {
  constexpr const char* kNames[] = {"NV", "PIX", "PXB", "PHB", "NODE", "SYS"};
  const char* name = kNames[static_cast<int>(kind)];
  return kind == PathClass::kNvLink ? Format("%s%d", name, nvlinks) : name;
}

std::vector<int> BridgesAbove(const Topology& topology, int gpu) {
  std::vector<int> bridges;
  for (int at = GpuAt(topology, gpu).parent; at >= 0; at = ParentOf(topology, at)) bridges.push_back(at);
  return bridges;
}

int CommonBridge(const Topology& topology, int a, int b) {
  const std::vector<int> above_b = BridgesAbove(topology, b);
  for (const int bridge : BridgesAbove(topology, a)) {
    if (std::find(above_b.begin(), above_b.end(), bridge) != above_b.end()) return bridge;
  }
  return -1;
}

Path PathBetween(const Topology& topology, int a, int b) {
  const Gpu &first = GpuAt(topology, a), &second = GpuAt(topology, b);
  if (const int links = NvLinksBetween(first, second); links > 0) return {PathClass::kNvLink, links};
  if (const int bridge = CommonBridge(topology, a, b); bridge >= 0) {
    const bool one_switch = PortsBelow(topology, a, bridge) <= 1 && PortsBelow(topology, b, bridge) <= 1;
    return {one_switch ? PathClass::kPix : PathClass::kPxb};
  }
  if (!first.host_bridge.empty() && first.host_bridge == second.host_bridge) return {PathClass::kPhb};
  return {first.numa >= 0 && first.numa == second.numa ? PathClass::kNode : PathClass::kSys};
}

std::vector<SharedUplink> SharedUplinks(const Topology& topology) {
  std::vector<SharedUplink> shared;
  const int n = static_cast<int>(topology.gpus.size());
  for (int a = 0; a < n; ++a) {
    for (int b = a + 1; b < n; ++b) {
      if (const int bridge = CommonBridge(topology, a, b); bridge >= 0) shared.push_back({a, b, bridge});
    }
  }
  return shared;
}

Status FindBestGroups(const Topology& topology, int k, BestGroups* best) {
  const int n = static_cast<int>(topology.gpus.size());
  if (k < 2 || k > n) return Error(tcInvalidArgument, "no groups of %d among %d GPUs; take 2 to %d", k, n, n);
  if (n > kMostGroupedGpus) return Error(tcUnsupported, "%d GPUs; groups are sought among %d", n, kMostGroupedGpus);
  std::vector<Path> paths(static_cast<size_t>(n * n), Path{PathClass::kNvLink});
  int most_nvlinks = 0;
  for (int a = 0; a < n; ++a) {
    for (int b = 0; b < n; ++b) {
      if (a == b) continue;
      const Path path = PathBetween(topology, a, b);
      paths[static_cast<size_t>(a * n + b)] = path;
      most_nvlinks = std::max(most_nvlinks, path.nvlinks);
    }
  }
  *best = {};
  GroupCost least;
  std::vector<bool> chosen(static_cast<size_t>(n));
  std::fill_n(chosen.begin(), k, true);
  do {
    std::vector<int> group;
    for (int gpu = 0; gpu < n; ++gpu) {
      if (chosen[static_cast<size_t>(gpu)]) group.push_back(gpu);
    }
    GroupCost cost;
    Path worst{PathClass::kNvLink, most_nvlinks};
    for (size_t i = 0; i < group.size(); ++i) {
      for (size_t j = i + 1; j < group.size(); ++j) {
        const Path& path = paths[static_cast<size_t>(group[i] * n + group[j])];
        ++cost.pairs[5 - static_cast<size_t>(path.kind)];
        if (path.kind > worst.kind || (path.kind == worst.kind && path.nvlinks < worst.nvlinks)) worst = path;
        if (path.kind == PathClass::kNvLink) {
          cost.missing_nvlinks = std::max(cost.missing_nvlinks, most_nvlinks - path.nvlinks);
        }
      }
    }
    if (best->count > 0 && cost > least) continue;
    if (best->count == 0 || cost < least) *best = {worst, 0, {}};
    least = cost;
    ++best->count;
    if (best->groups.size() < kMostGroups) best->groups.push_back(group);
  } while (std::prev_permutation(chosen.begin(), chosen.end()));
  return {};
}

PciLink BestLink(const Topology& topology, const PciLink& most, int parent) {
  if (parent < 0) return most;
  const PciLink& above = topology.bridges[static_cast<size_t>(parent)].most;
  const auto lower = [](auto one, auto other) {
    return one > 0 && other > 0 ? std::min(one, other) : std::max(one, other);
  };
  return {lower(most.gt_s, above.gt_s), lower(most.width, above.width)};
}

std::vector<Finding> Findings(const Topology& topology) {
  std::vector<Finding> findings;
  for (const std::string& unknown : topology.unknowns) findings.push_back({unknown, ""});
  FindHiddenBridges(topology, &findings);
  FindAcs(topology, &findings);
  FindIommu(topology, &findings);
  FindSlowLinks(topology, &findings);
  return findings;
}

}  // namespace tc::platform
