// What all ranks of a communicator plan by: rank 0's fact table, and which of its GPUs each rank has.
#pragma once

#include <string>
#include <vector>

#include "base/status.h"
#include "comm/backend.h"
#include "platform/fact_table.h"

namespace tc {

struct AgreedFacts {
  platform::FactTable table;
  std::vector<int> gpu_of_rank;
};

// Where rank 0 looks: a fact table of the user's, "" for the built-in model, and as for DiscoverTopology.
struct FactSources {
  std::string facts_file, sysfs_root, topo_file;
};

// Rank 0's, who finds its own kind of machine. devices: Backend::identity() of all ranks. What is wrong with the file
// is a warning.
AgreedFacts FindFacts(const FactSources& sources, const Backend& backend, const std::vector<std::string>& devices);

// For the way to the other ranks. All of them, rank 0 included, go on with what is unpacked.
std::string Pack(const AgreedFacts& facts);
Status Unpack(const std::string& packed, int n_ranks, AgreedFacts* facts);

// Why peers' memory must not be used at all, by these facts: "" where it may. Signals are stores, too, so that a push
// which verification found broken is enough.
std::string WhyApart(const platform::FactTable& table);

}  // namespace tc
