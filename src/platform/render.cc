#include "platform/render.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace tc::platform {
namespace {

using Json = nlohmann::ordered_json;

Json KnownText(const std::string& text) { return text.empty() ? Json() : Json(text); }
Json KnownNumber(int number) { return number < 0 ? Json() : Json(number); }
Json Positive(int number) { return number <= 0 ? Json() : Json(number); }

Json LinkJson(const PciLink& now, const PciLink& most) {
  return {{"generation", Positive(PciGeneration(now.gt_s))},
          {"width", Positive(now.width)},
          {"generationMost", Positive(PciGeneration(most.gt_s))},
          {"widthMost", Positive(most.width)}};
}

Json AcsJson(const Acs& acs) {
  switch (acs.state) {
    case AcsState::kUnknown:
      return {};
    case AcsState::kNone:
      return "none";
    case AcsState::kUnreadable:
      return "unreadable";
    case AcsState::kRead:
      return {{"control", acs.control}, {"redirects", (acs.control & kAcsRedirect) != 0}};
  }
  return {};
}

Json KnownBool(const std::optional<bool>& value) { return value ? Json(*value) : Json(); }

const char* EndName(NvLinkEnd end) {
  return end == NvLinkEnd::kGpu ? "gpu" : end == NvLinkEnd::kSwitch ? "switch" : "other";
}

const std::string& BridgeAddress(const Topology& topology, int bridge) {
  return topology.bridges[static_cast<size_t>(bridge)].address;
}

Json GpuJson(const Topology& topology, int number) {
  const Gpu& gpu = topology.gpus[static_cast<size_t>(number)];
  Json bridges = Json::array(), nvlinks = Json::array();
  for (const int bridge : BridgesAbove(topology, number)) bridges.push_back(BridgeAddress(topology, bridge));
  for (const NvLink& link : gpu.nvlinks) {
    nvlinks.push_back({{"to", EndName(link.end)}, {"busId", KnownText(link.address)}, {"count", link.count}});
  }
  return {{"gpu", number},
          {"busId", gpu.address},
          {"uuid", KnownText(gpu.uuid)},
          {"name", KnownText(gpu.name)},
          {"numaNode", KnownNumber(gpu.numa)},
          {"hostBridge", KnownText(gpu.host_bridge)},
          {"bridges", bridges},
          {"link", LinkJson(gpu.now, gpu.most)},
          {"iommuGroup", KnownNumber(gpu.iommu.number)},
          {"iommuType", KnownText(gpu.iommu.type)},
          {"nvlinks", nvlinks}};
}

std::string PathName(const Topology& topology, int a, int b) {
  return a == b ? "X" : PathBetween(topology, a, b).Name();
}

Json BestGroupsJson(const Topology& topology) {
  Json sizes = Json::array();
  for (int k = 2; k <= static_cast<int>(topology.gpus.size()); ++k) {
    BestGroups best;
    if (!FindBestGroups(topology, k, &best).ok()) break;  // too many GPUs to try all groups
    sizes.push_back({{"size", k}, {"worst", best.worst.Name()}, {"count", best.count}, {"groups", best.groups}});
  }
  return sizes;
}

}  // namespace

std::string ToText(const Topology& topology) {
  const int n = static_cast<int>(topology.gpus.size());
  std::vector<std::vector<std::string>> rows(1, {""});
  for (int gpu = 0; gpu < n; ++gpu) rows[0].push_back("GPU" + std::to_string(gpu));
  rows[0].insert(rows[0].end(), {"CPU Affinity", "NUMA Affinity"});
  for (int a = 0; a < n; ++a) {
    const int numa = topology.gpus[static_cast<size_t>(a)].numa;
    const auto node = std::find_if(topology.nodes.begin(), topology.nodes.end(),
                                   [numa](const NumaNode& candidate) { return candidate.number == numa; });
    std::vector<std::string> row{"GPU" + std::to_string(a)};
    for (int b = 0; b < n; ++b) row.push_back(PathName(topology, a, b));
    row.push_back(node != topology.nodes.end() ? node->cpus : "N/A");
    row.push_back(numa >= 0 ? std::to_string(numa) : "N/A");
    rows.push_back(std::move(row));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t column = 0; column < row.size(); ++column) {
      size_t width = 0;
      for (const auto& other : rows) width = std::max(width, other[column].size());
      line += row[column] + std::string(width + 2 - row[column].size(), ' ');
    }
    text += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return text;
}

std::string ToJson(const Topology& topology) {
  const int n = static_cast<int>(topology.gpus.size());
  Json json = {{"source", topology.source},
               {"cpu", KnownText(topology.cpu)},
               {"virtualMachine", KnownBool(topology.virtual_machine)},
               {"iommu", KnownBool(topology.iommu)},
               {"kernelOptions", topology.kernel_options}};
  for (const char* list : {"numaNodes", "gpus", "bridges", "paths", "sharedUplinks"}) json[list] = Json::array();
  for (const NumaNode& node : topology.nodes) {
    json["numaNodes"].push_back(
        {{"node", KnownNumber(node.number)}, {"cpus", KnownText(node.cpus)}, {"distances", node.distances}});
  }
  for (int a = 0; a < n; ++a) {
    json["gpus"].push_back(GpuJson(topology, a));
    Json row = Json::array();
    for (int b = 0; b < n; ++b) row.push_back(PathName(topology, a, b));
    json["paths"].push_back(std::move(row));
  }
  for (const Bridge& bridge : topology.bridges) {
    json["bridges"].push_back({{"busId", bridge.address},
                               {"above", bridge.parent < 0 ? Json() : Json(BridgeAddress(topology, bridge.parent))},
                               {"link", LinkJson(bridge.now, bridge.most)},
                               {"acs", AcsJson(bridge.acs)}});
  }
  for (const SharedUplink& shared : SharedUplinks(topology)) {
    json["sharedUplinks"].push_back(
        {{"gpus", {shared.a, shared.b}}, {"bridge", BridgeAddress(topology, shared.bridge)}});
  }
  json["bestGroups"] = BestGroupsJson(topology);
  json["findings"] = Json::array();
  for (const Finding& finding : Findings(topology)) {
    json["findings"].push_back({{"what", finding.what}, {"cure", KnownText(finding.cure)}});
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);  // sysfs and NVML may hold bytes that are no UTF-8
}

}  // namespace tc::platform
