// Runs a world through all interleavings and all choices of its weak memory, or through many at random.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "protocol/explorer/world.h"

namespace tc::explorer {

using Scenario = std::function<World()>;

struct Budget {
  uint64_t states = 20'000'000;
  double seconds = 120;
  // False: every step of every thread in every order, and failed polls without end (so that a wait that never ends is
  // not noticed); to check that the reduction loses nothing.
  bool reduce = true;
};

struct Result {
  bool complete = false;               // everything was explored
  std::optional<std::string> failure;  // the first property found broken
  std::string trace;                   // how, one operation a line
  std::string choices;                 // for Replay
  uint64_t states = 0;
  uint64_t walks = 0;
  double seconds = 0;
  // What the threads returned and the watched words ended with, in every execution.
  std::set<std::vector<uint64_t>> outcomes;
};

// Every reachable state, depth first.
Result Explore(const Scenario& scenario, const Budget& budget = {});

// Random executions, each a function of its seed: seeds first_seed ... first_seed + walks - 1.
Result Wander(const Scenario& scenario, uint64_t first_seed, uint64_t walks, double seconds);

// The execution that a failure was found in.
Result Replay(const Scenario& scenario, const std::string& choices);

}  // namespace tc::explorer
