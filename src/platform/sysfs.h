// The topology as Linux shows it below /sys and /proc.
#pragma once

#include <string>

#include "platform/topology.h"

namespace tc::platform {

// `root`: "" for this machine, or a directory that holds a copy of another one's sys and proc, symbolic links included.
// Reads NVIDIA's GPUs, the bridges above them, NUMA nodes and the IOMMU's groups. A file that is missing or may not be
// read leaves its field unknown; one whose contents make no sense is tcInvalidArgument, which names it.
Status ReadSysfs(const std::string& root, Topology* topology);

}  // namespace tc::platform
