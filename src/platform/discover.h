// Where the topology comes from.
#pragma once

#include "base/env.h"
#include "platform/topology.h"

namespace tc::platform {

// From TC_TOPO_FILE where it is set, else from sysfs below TC_SYSFS_ROOT where that is set, else from this machine's
// sysfs and NVML.
Status DiscoverTopology(const Env& env, Topology* topology);

}  // namespace tc::platform
