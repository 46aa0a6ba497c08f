// What the host hands to a kernel, and what a kernel tells the host. Plain data for both compilers.
#pragma once

#include <cstddef>
#include <cstdint>

#include "order/exchange.h"
#include "order/moves.h"
#include "order/problem.h"
#include "order/shards.h"
#include "protocol/layout.h"
#include "protocol/stall.h"

namespace tc::cuda {

inline constexpr int kMaxWindows = 256;   // of a communicator at a time
inline constexpr int kThreads = 256;      // of a block that moves or computes
inline constexpr int kMostThreads = 512;  // of one that only moves: through host memory, which is far away
inline constexpr int kMeetingThreads = 32;

// Where a window lies in this rank's address space. In device memory: a graph captured before a registration must find
// it.
struct WindowBases {
  std::byte* base[kMaxRanks];
};

// An operator that every rank refused.
struct Refusal {
  int32_t peer;  // who refused, or who differs from rank 0, or who sends to `to`
  int32_t to;    // -1, or the pair's other rank, whose blocks of a tcAllToAllV were the reason
  int32_t code;
  Sequence epoch;
  tcStream_t stream;  // where it was called, unless in a graph
  bool in_graph;
  OperatorShape first;
  OperatorShape other;
  uint64_t sent;  // bytes of the pair
  uint64_t expected;
  char sentence[sizeof(EntryRecord::sentence)];
};

// In pinned host memory, from the device to the host: number i lies in place i mod kMost, until it is collected.
struct Refusals {
  static constexpr uint32_t kMost = 16;
  uint32_t reported;   // by the device, last
  uint32_t collected;  // by the host
  uint32_t lost;       // by the device: those that found no place
  Refusal refusal[kMost];
};

// The first block of an operator still waits for a peer to enter: told again whenever kLongWaitNs have passed.
inline constexpr uint64_t kLongWaitNs = 100'000'000;
struct LongWait {
  uint32_t told;  // how often so far, stored last
  int32_t op;
  Sequence epoch;
  uint64_t waited_ns;
};

struct Report {
  StallReport stall;
  uint32_t error = 0;  // the error word: the code that ended the communicator, by device or host
  uint32_t dead = 1;   // what the host copies to LocalBlock::dead
  Refusals refusals;
  LongWait long_wait[kMaxRanks];  // for each peer
};

// A rank as its kernels see it. What every kernel reads first stands first.
struct DeviceComm {
  uint64_t launched = 0;  // counts launches outside graphs; 0 inside
  uint64_t call = 0;      // which launch of this rank it is; a replayed graph repeats it
  uint32_t jitter_ns;     // for tests: the longest pause of a block at each step
  bool host_staged;       // control blocks and workspaces lie in host memory, and no rank has a place elsewhere
  RankView view;
  uint64_t timeout_ns;
  uint64_t entry_timeout_ns;
  const WindowBases* windows;
  Report* report;
  tcStream_t stream = nullptr;
  uint64_t sends = 0;     // bytes that this launch moves to all peers together
  uint64_t receives = 0;  // the same from all peers
};

struct RefusalParams {
  DeviceComm comm;
  EntryRecord entry;
};

// What a kernel is of an epoch's work: all of it, or what lies before copies or behind them (planes/copy_engine.h).
enum class Part : uint32_t { kWhole, kOpening, kClosing };

// An operator larger than the workspace is several epochs. What the first refuses, none does.
struct SlabPlace {
  bool first = true;
  bool last = true;
  Part part = Part::kWhole;
};

struct ExchangeParams {
  DeviceComm comm;
  EntryRecord entry;
  Exchange exchange;
  SlabPlace place;
};

struct GatherGemmParams {
  DeviceComm comm;
  EntryRecord entry;
  AllGatherGemmProblem problem;
  Slab slab;
  uint64_t row_bytes;     // of a gathered row
  uint64_t staged_pitch;  // bytes from one staged row to the next
  uint64_t chunk_rows;
  uint64_t row_blocks;
  uint64_t col_blocks;
  uint32_t movers;  // blocks that move rows before they compute
  Sending sending;  // kToEach: by pushes, kAtOnce: peers load them here
  // Movers bring what has arrived to where tiles read it, gatheredA or a place that nobody else uses, and open gates;
  // else tiles read it where it has come to lie, and wait for watermarks.
  bool lands;
  SlabPlace place;
};

}  // namespace tc::cuda
