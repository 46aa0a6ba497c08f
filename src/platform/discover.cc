#include "platform/discover.h"

#include "platform/nvml.h"
#include "platform/sysfs.h"
#include "platform/topo_xml.h"

namespace tc::platform {

Status DiscoverTopology(const Env& env, Topology* topology) {
  if (!env.topo_file.empty()) return ReadTopoXml(env.topo_file, topology);
  TC_RETURN_IF_ERROR(ReadSysfs(env.sysfs_root, topology));
  if (!env.sysfs_root.empty()) return {};  // NVML would speak of this machine, not of the recorded one
  bool found = false;
  std::vector<NvmlGpu> gpus;
  const Status nvml = ReadNvml(kNvmlLibrary, &found, &gpus);
  if (!nvml.ok()) topology->unknowns.push_back("NVLinks and UUIDs are not known: " + nvml.sentence() + ".");
  if (nvml.ok() && !found && !topology->gpus.empty()) {
    topology->unknowns.push_back(Format("NVLinks and UUIDs are not known: %s was not found.", kNvmlLibrary));
  }
  AddNvml(gpus, topology);
  if (found) topology->source += " and NVML";
  return {};
}

}  // namespace tc::platform
