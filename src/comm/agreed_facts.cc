#include "comm/agreed_facts.h"

#include <algorithm>

#include "base/env.h"
#include "base/log.h"
#include "comm/wire.h"
#include "platform/discover.h"

namespace tc {
namespace {

using Paths = std::vector<std::vector<std::string>>;

Paths AllApart(size_t count, const char* path) {
  Paths paths(count, std::vector<std::string>(count, path));
  for (size_t i = 0; i < count; ++i) paths[i][i] = "X";
  return paths;
}

Paths PathsOf(const platform::Topology& topology) {
  Paths paths = AllApart(topology.gpus.size(), "SYS");
  for (size_t a = 0; a < paths.size(); ++a) {
    for (size_t b = 0; b < paths.size(); ++b) {
      if (a != b) paths[a][b] = PathBetween(topology, static_cast<int>(a), static_cast<int>(b)).Name();
    }
  }
  return paths;
}

// Each rank's GPU among the machine's; none when one is not to be found there.
std::vector<int> Places(const platform::Topology& topology, const std::vector<std::string>& devices) {
  std::vector<int> places;
  for (const std::string& device : devices) {
    const auto gpu = std::find_if(topology.gpus.begin(), topology.gpus.end(),
                                  [&](const platform::Gpu& candidate) { return candidate.uuid == device; });
    if (device.empty() || gpu == topology.gpus.end()) return {};
    places.push_back(static_cast<int>(gpu - topology.gpus.begin()));
  }
  return places;
}

}  // namespace

AgreedFacts FindFacts(const FactSources& sources, const Backend& backend, const std::vector<std::string>& devices) {
  platform::MachineKind kind;
  AgreedFacts facts;
  kind.arch = backend.chip().arch;
  kind.sms = backend.chip().sms;
  kind.host = backend.chip().arch == kHostArch;
  // One rank alone has no path to anywhere; without a table the planner decides nothing, which is not worth a wait for
  // NVML at every init.
  if (!sources.facts_file.empty() && !kind.host && devices.size() > 1) {
    Env env;
    env.sysfs_root = sources.sysfs_root;
    env.topo_file = sources.topo_file;
    platform::Topology topology;
    const Status found = platform::DiscoverTopology(env, &topology);
    if (!found.ok()) Log(tcLogInfo, "plans do not know the topology: %s", found.sentence().c_str());
    if (found.ok()) facts.gpu_of_rank = Places(topology, devices);
    if (!facts.gpu_of_rank.empty()) kind.paths = PathsOf(topology);
  }
  if (kind.paths.empty()) kind.paths = AllApart(devices.size(), kind.host ? "SHM" : "SYS");
  if (facts.gpu_of_rank.empty()) {
    for (size_t rank = 0; rank < devices.size(); ++rank) facts.gpu_of_rank.push_back(static_cast<int>(rank));
  }
  std::string warning;
  facts.table = platform::FactsOrBuiltIn(sources.facts_file, kind, &warning);
  if (!warning.empty()) Log(tcLogWarn, "TC_FACTS: %s", warning.c_str());
  return facts;
}

std::string Pack(const AgreedFacts& facts) {
  WireWriter writer;
  writer.Put(platform::ToJson(facts.table));
  for (const int gpu : facts.gpu_of_rank) writer.Put(gpu);
  return writer.Take();
}

Status Unpack(const std::string& packed, int n_ranks, AgreedFacts* facts) {
  WireReader reader(packed);
  std::string json;
  facts->gpu_of_rank.resize(static_cast<size_t>(n_ranks));
  bool whole = reader.Get(&json);
  for (int& gpu : facts->gpu_of_rank) whole = whole && reader.Get(&gpu) && gpu >= 0;
  if (!whole) return Error(tcInternalError, "rank 0's facts end too early");
  const Status parsed = platform::ParseFactTable(json, &facts->table);
  if (parsed.ok()) return {};
  return Error(tcInternalError, "rank 0's facts cannot be read: %s", parsed.sentence().c_str());
}

std::string WhyApart(const platform::FactTable& table) {
  if (!table.p2p) return Format("by the fact table %s GPUs do not reach each other's memory", table.name.c_str());
  const auto& failed = table.failed_planes;
  if (std::find(failed.begin(), failed.end(), tcPlanePush) == failed.end()) return {};
  return Format("by the fact table %s stores to peers, which signals are, failed their verification",
                table.name.c_str());
}

}  // namespace tc
