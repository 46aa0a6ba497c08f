// The memory through which ranks talk: one ControlBlock per rank, mapped by every peer. And the LocalBlock of a rank,
// which no peer sees.
#pragma once

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "protocol/memory.h"
#include "tc.h"

namespace tc {

inline constexpr int kMaxRanks = TC_MAX_RANKS;
inline constexpr int kMaxChunks = 1024;       // of one producer in one epoch (P11)
inline constexpr int kMaxRowBlocks = 4096;    // of the gathered matrix in one epoch
inline constexpr size_t kWriterStride = 128;  // words of different writers never share this many bytes (P14)

// What all ranks of an operator must agree on, and what a message about it prints.
struct OperatorShape {
  int32_t op = 0;    // tcOp_t
  int32_t type = 0;  // tcDataType_t
  uint64_t m = 0;    // collectives: the element count
  uint64_t n = 0;
  uint64_t k = 0;
  uint64_t detail = 0;  // digest of what else must agree: rows per rank, reduction, root
};

TC_HOST_DEVICE inline bool SameShape(const OperatorShape& a, const OperatorShape& b) {
  return a.op == b.op && a.type == b.type && a.m == b.m && a.n == b.n && a.k == b.k && a.detail == b.detail;
}

// Where peers may store an operator's data on the rank that says so, or, on the pull plane, load it from: true on that
// rank alone, so it travels.
struct Destination {
  int64_t window = -1;  // index of the window; -1: the rank's workspace
  uint64_t offset = 0;  // bytes
};

// What a rank knows about its blocks in an all-to-all, in bytes.
struct ExchangedBlocks {
  uint64_t sends[kMaxRanks];    // to each rank
  uint64_t expects[kMaxRanks];  // of each rank
  uint64_t place[kMaxRanks];    // in its recv, of what it expects
};

// A rank's word that it has entered the operator of an epoch (P8), stored last: see entry.h.
struct alignas(kWriterStride) EntryRecord {
  Sequence entered;
  OperatorShape shape;
  Destination destination;
  int32_t rejected;  // not tcSuccess: this rank's call was refused, for the reason in `sentence`
  union {
    char sentence[416];
    ExchangedBlocks blocks;  // of a tcAllToAllV that was not
  };
};

// Two records in turn: a rank publishes epoch e + 2 only after it has seen everybody enter e + 1, and a peer enters
// e + 1 only after it has read the records of e. (Every operator waits for every entry.)
struct EntrySlot {
  EntryRecord record[2];
};

struct alignas(kWriterStride) AbortSlot {
  uint32_t word;  // see abort.h
  uint32_t left;  // not 0: the writer has destroyed its communicator in good order
};

// One per rank, in host memory that every rank maps: a host thread must be able to write it while kernels spin.
struct AbortBlock {
  AbortSlot from[kMaxRanks];
};

struct alignas(kWriterStride) WatermarkRow {
  Sequence chunk[kMaxChunks];
};

// The last epoch of which the writer has read all it needed of a buffer here: see acknowledgement.h.
struct alignas(kWriterStride) AcknowledgementSlot {
  Sequence epoch;
};

// How far the writer's rounds have come, by the staging's two halves: see rounds.h.
struct alignas(kWriterStride) RoundSlot {
  Sequence supplied[2];
  Sequence taken[2];
};

inline constexpr int kMostPackets = 4096;  // of a pair of ranks in one epoch, with 4 bytes of data each

// The writer's packets, of even and of odd epochs: see packet.h.
struct alignas(kWriterStride) PacketRow {
  uint64_t half[2][kMostPackets];
};

// Element r of each array is written by rank r and by nobody else; packets are also emptied by their reader.
struct ControlBlock {
  EntrySlot entry[kMaxRanks];
  WatermarkRow watermark[kMaxRanks];
  AcknowledgementSlot acknowledgement[kMaxRanks];
  RoundSlot round[kMaxRanks];
  PacketRow packets[kMaxRanks];  // last: rows that no rank writes are not allocated
};

// What a block takes in which so many ranks write packets.
constexpr size_t ControlBytes(int packet_rows) {
  return sizeof(ControlBlock) - static_cast<size_t>(kMaxRanks - packet_rows) * sizeof(PacketRow);
}

struct Tally {
  uint64_t ops;         // completed
  uint64_t bytes_sent;  // by them
  uint64_t bytes_received;
  uint64_t wait_ns[kMaxRanks];  // for each peer to enter
};

// Touched by the rank itself alone, and always in the memory of its own device, whose atomics it needs: no device adds
// atomically to a peer's memory, and few to a host's. The counters are zero between operators.
struct LocalBlock {
  alignas(
      kWriterStride) uint64_t arrivals;     // the last completed epoch (P3), and who has come for the next: see epoch.h
  alignas(kWriterStride) uint64_t verdict;  // what the first block found when it met the peers, see epoch.h
  alignas(kWriterStride) uint32_t dead;     // not 0: the communicator has ended, on a device
  alignas(kWriterStride) uint32_t refused;  // not 0: the rest of an operator of several epochs is left out
  alignas(kWriterStride) uint32_t tiles;    // tiles claimed
  alignas(kWriterStride) uint32_t moves;    // pieces of data movement claimed
  alignas(kWriterStride) uint32_t moves_in;                      // of those that come in, where they are counted apart
  alignas(kWriterStride) uint32_t taken[kMaxRanks];              // chunks read of each peer's buffer, see Elect
  alignas(kWriterStride) uint32_t round_supplied[kMaxRanks][2];  // chunks of a round in each half, see rounds.h
  alignas(kWriterStride) uint32_t round_taken[kMaxRanks][2];
  alignas(kWriterStride) uint32_t finished;  // threads or blocks that have left
  alignas(kWriterStride) uint32_t exited;    // blocks of a launch outside graphs that have ended, however they did
  alignas(kWriterStride) uint64_t launched;  // the latest launch outside graphs that has ended, on a device
  alignas(kWriterStride) Tally tally;        // a device's
  alignas(kWriterStride) uint32_t gate[kMaxRowBlocks];  // rows that have come, per block of rows (P11)
};

// All of it starts as zero bytes, and all but LocalBlock is mapped by other processes.
static_assert(std::is_standard_layout_v<ControlBlock> && std::is_trivially_copyable_v<ControlBlock>);
static_assert(std::is_standard_layout_v<LocalBlock> && std::is_trivially_copyable_v<LocalBlock>);
static_assert(sizeof(EntryRecord) == 512);
// What a rank of a full communicator reserves for slots and control.
static_assert(sizeof(ControlBlock) + sizeof(LocalBlock) + sizeof(AbortBlock) < 2'000'000);

// A rank's view of all ranks' memory: plain pointers, valid in this rank's address space.
struct RankView {
  int rank = 0;
  int n_ranks = 1;
  LocalBlock* local = nullptr;
  ControlBlock* control[kMaxRanks] = {};
  AbortBlock* abort[kMaxRanks] = {};
  std::byte* workspace[kMaxRanks] = {};
  // Of the rank's own device, as large as a workspace: where an operator that reads staged data more than once brings
  // it first. NULL where the workspace is such memory itself.
  std::byte* landing = nullptr;

  TC_HOST_DEVICE ControlBlock& own() const { return *control[rank]; }
};

}  // namespace tc
