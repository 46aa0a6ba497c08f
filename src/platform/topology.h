// A machine as its GPUs see it: plain data, and pure functions of it. Read from sysfs and NVML (sysfs.h, nvml.h) or
// from NCCL's topology file (topo_xml.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "platform/pci.h"

namespace tc::platform {

// Access Control Services of a bridge: its control register, where it has one and this user may read it.
enum class AcsState { kUnknown, kNone, kUnreadable, kRead };
struct Acs {
  AcsState state = AcsState::kUnknown;
  uint16_t control = 0;
};
// Bits of the control register by which requests between two devices below a switch go up to the root complex instead
// of straight across, or nowhere: request redirect, completion redirect, egress control.
constexpr uint16_t kAcsRedirect = 0x04 | 0x08 | 0x20;

struct IommuGroup {
  int number = -1;   // -1: in none
  std::string type;  // "DMA", "DMA-FQ", "identity", ... as the kernel says; "": unknown
};

// A bridge above a GPU: a root port, or a switch's upstream or downstream port.
struct Bridge {
  std::string address;
  int parent = -1;  // the bridge above; -1: it sits on the host bridge's own bus
  int ports = 1;    // 2: it stands for a whole switch, whose downstream ports are not shown
  PciLink now, most;
  Acs acs;
};

// kOther: something that is neither a GPU nor a switch, a CPU for instance.
enum class NvLinkEnd { kGpu, kSwitch, kOther };
struct NvLink {
  NvLinkEnd end;
  std::string address;  // of the other end
  int count;            // links to it
};

struct Gpu {
  std::string address;
  std::string uuid, name;   // "": NVML was not there to say
  std::string host_bridge;  // "pci0000:16"; "": unknown
  int numa = -1;            // -1: unknown
  int parent = -1;          // the bridge above; -1: it sits on the host bridge's own bus
  PciLink now, most;
  IommuGroup iommu;
  std::vector<NvLink> nvlinks;
};

struct NumaNode {
  int number;
  std::string cpus;            // "0-31,64-95"
  std::vector<int> distances;  // to each node, in their order; empty: unknown
};

struct Topology {
  std::string source;  // where this comes from, in words
  std::string cpu;     // the processor's name
  std::optional<bool> virtual_machine;
  std::optional<bool> iommu;                // whether the kernel uses one
  std::vector<std::string> kernel_options;  // those that concern PCI and IOMMU
  std::vector<NumaNode> nodes;
  std::vector<Bridge> bridges;
  std::vector<Gpu> gpus;              // in the order of their addresses, as nvidia-smi counts them
  std::vector<std::string> unknowns;  // what could not be read, in sentences
};

// Best first, as `nvidia-smi topo -m` names them. kPix: through one switch (or one bridge); kPxb: through several;
// kPhb: through a host bridge; kNode: between host bridges of one NUMA node; kSys: between NUMA nodes, or not known.
enum class PathClass { kNvLink, kPix, kPxb, kPhb, kNode, kSys };
struct Path {
  PathClass kind;
  int nvlinks = 0;

  std::string Name() const;  // "NV18", "PIX", ...
};

// Between two different GPUs. NVLink counts where both ends have it: directly, or through a switch that both reach.
Path PathBetween(const Topology& topology, int a, int b);

// The lowest bridge above both GPUs, -1 when there is none.
int CommonBridge(const Topology& topology, int a, int b);

// The bridges above a GPU, the nearest first.
std::vector<int> BridgesAbove(const Topology& topology, int gpu);

// Two GPUs whose traffic to everything else leaves through one link: the one above `bridge`.
struct SharedUplink {
  int a, b;
  int bridge;
};
std::vector<SharedUplink> SharedUplinks(const Topology& topology);

// The groups of k GPUs with the fewest pairs of the worst class, then of the next worst, and so on; then with the most
// NVLinks between the pair that has fewest. At most kMostGroups are listed, in order; `count` says how many are as
// good.
constexpr size_t kMostGroups = 8;
constexpr int kMostGroupedGpus = 24;  // all groups are tried: 2.7 million of 12
struct BestGroups {
  Path worst;
  size_t count = 0;
  std::vector<std::vector<int>> groups;
};
// tcInvalidArgument for k below 2 or above the number of GPUs; tcUnsupported above kMostGroupedGpus.
Status FindBestGroups(const Topology& topology, int k, BestGroups* best);

// The link between a device and what is above it can be no better than both ends.
PciLink BestLink(const Topology& topology, const PciLink& most, int parent);

// Something about this machine that slows down or breaks GPU-to-GPU traffic, or hides it, and what to do about it.
struct Finding {
  std::string what;
  std::string cure;
};
std::vector<Finding> Findings(const Topology& topology);

}  // namespace tc::platform
