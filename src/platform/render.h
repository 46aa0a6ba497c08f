// The topology for people and programs.
#pragma once

#include <string>

#include "platform/topology.h"

namespace tc::platform {

// The matrix of `nvidia-smi topo -m`: GPUs only, with their processors and NUMA nodes.
std::string ToText(const Topology& topology);

// Everything: GPUs, bridges, NUMA nodes, paths, shared uplinks, best groups of each size, findings. null: not known.
std::string ToJson(const Topology& topology);

}  // namespace tc::platform
