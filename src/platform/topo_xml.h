// NCCL's topology file (NCCL_TOPO_FILE, NCCL_TOPO_DUMP_FILE).
#pragma once

#include <string>

#include "platform/topology.h"

namespace tc::platform {

// Elements: system, cpu (a NUMA node), pci (a switch, a GPU or another card), gpu, nvlink; all others are passed over.
// Such a file says nothing of root ports, of what links could do at most, of ACS and of the IOMMU, nor which host
// bridge a device is on: what has no switch in common on one NUMA node is taken to be on one host bridge, as NCCL does.
// tcInvalidArgument names file and line.
Status ReadTopoXml(const std::string& path, Topology* topology);

// The same of a text; sentences begin with the line.
Status ParseTopoXml(const std::string& text, Topology* topology);

}  // namespace tc::platform
