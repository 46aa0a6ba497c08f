// Who signals what in one epoch of an operator, how often, and which rows or bytes that stands for: one set of formulas
// for the kernels, the host backend and the tests.
#pragma once

#include <cstdint>

#include "order/chunks.h"
#include "order/shards.h"
#include "protocol/gate.h"
#include "protocol/rounds.h"

namespace tc {

struct RowRange {
  uint64_t begin;
  uint64_t end;
};

struct ChunkRange {
  int begin;
  int end;
};

struct GatherSignals {
  const Shards& packed;  // the places of every rank's rows; of its bytes, where an operator has no rows
  uint64_t chunk_rows;

  // The chunks that `producer` sends to each of its peers.
  TC_HOST_DEVICE int chunks(int producer) const { return ChunkCount(packed.rows(producer), chunk_rows); }

  // How often `producer` raises the watermark of a chunk at `consumer` (P1: nobody else does).
  TC_HOST_DEVICE int raises(int producer, int consumer, int chunk) const {
    return producer != consumer && chunk < chunks(producer) ? 1 : 0;
  }

  TC_HOST_DEVICE RowRange rows(int producer, int chunk) const {
    const uint64_t begin = packed.begin[producer] + chunk * chunk_rows;
    const uint64_t end = begin + chunk_rows;
    return {begin, end < packed.begin[producer + 1] ? end : packed.begin[producer + 1]};
  }

  // The chunks of `producer` that rows [begin, end) need.
  TC_HOST_DEVICE ChunkRange needed_chunks(int producer, uint64_t begin, uint64_t end) const {
    const RowRange part = PartOf(producer, begin, end);
    if (part.begin >= part.end) return {0, 0};
    const uint64_t first_row = packed.begin[producer];
    return {static_cast<int>((part.begin - first_row) / chunk_rows), ChunkCount(part.end - first_row, chunk_rows)};
  }

  TC_HOST_DEVICE uint64_t gates() const { return (packed.total() + kGateRows - 1) / kGateRows; }

  // The rows that `producer`'s chunks add to a gate. Together with the padding they are kGateRows.
  TC_HOST_DEVICE uint32_t gate_rows(uint64_t gate, int producer) const {
    const RowRange part = PartOf(producer, gate * kGateRows, (gate + 1) * kGateRows);
    return part.begin < part.end ? static_cast<uint32_t>(part.end - part.begin) : 0;
  }
  // The places behind the last row, which fill the last gate.
  TC_HOST_DEVICE RowRange padding() const { return {packed.total(), gates() * kGateRows}; }

 private:
  // The rows of `producer` among [begin, end); not a range where there are none.
  TC_HOST_DEVICE RowRange PartOf(int producer, uint64_t begin, uint64_t end) const {
    const uint64_t from = packed.begin[producer];
    const uint64_t to = packed.begin[producer + 1];
    return {begin > from ? begin : from, end < to ? end : to};
  }
};

// `bytes` from one producer to one consumer, in chunks. In one round, the producer raises the consumer's watermark for
// each; in several, one signal says that a round is complete (protocol/rounds.h).
struct PairChunks {
  uint64_t bytes = 0;
  uint64_t chunk_bytes = 1;
  int count = 0;
  int per_round = 1 << 30;  // chunks

  TC_HOST_DEVICE RowRange range(int chunk) const {
    const uint64_t begin = chunk * chunk_bytes;
    return {begin, begin + chunk_bytes < bytes ? begin + chunk_bytes : bytes};
  }
  TC_HOST_DEVICE bool in_rounds() const { return count > per_round; }
  TC_HOST_DEVICE int rounds() const { return ChunkCount(count, per_round); }
  TC_HOST_DEVICE int round_of(int chunk) const { return chunk / per_round; }
  // The chunks of a round.
  TC_HOST_DEVICE int in_round(int round) const {
    const int before = round < rounds() ? round * per_round : count;
    return count - before < per_round ? count - before : per_round;
  }
  // Where a chunk starts in the staging, of which rounds use the halves in turn.
  TC_HOST_DEVICE uint64_t staged_at(int chunk) const {
    return in_rounds() ? static_cast<uint64_t>(chunk % (2 * per_round)) * chunk_bytes : range(chunk).begin;
  }
};

// As a device's blocks move them.
constexpr PairChunks DeviceChunks(uint64_t bytes, tcPlane_t plane) {
  const uint64_t chunk_bytes = plane == tcPlaneHostStaged ? HostStagedChunkBytes(bytes) : DeviceChunkBytes(bytes);
  return {bytes, chunk_bytes, ChunkCount(bytes, chunk_bytes)};
}

// The same in rounds, through a staging of `staging_bytes`, a multiple of 16 and at least 32.
constexpr PairChunks ChunksInRounds(uint64_t bytes, uint64_t staging_bytes, tcPlane_t plane) {
  const uint64_t half = staging_bytes / 32 * 16;
  const uint64_t usual = DeviceChunks(half, plane).chunk_bytes;
  const uint64_t chunk_bytes = usual < half ? usual : half;
  return {bytes, chunk_bytes, ChunkCount(bytes, chunk_bytes), static_cast<int>(half / chunk_bytes)};
}

// The most that a pair can move so.
constexpr uint64_t MostInRounds(uint64_t staging_bytes, tcPlane_t plane) {
  const PairChunks chunks = ChunksInRounds(0, staging_bytes, plane);
  return chunks.chunk_bytes * chunks.per_round * kMostRounds;
}

// An operator in which each pair of ranks moves bytes of its own, as one thread of the host does it. Both ranks know
// them, so both cut them alike.
struct PairSignals {
  uint64_t bytes;

  uint64_t chunk_bytes() const { return HostChunkBytes(bytes); }
  int chunks() const { return ChunkCount(bytes, chunk_bytes()); }
  RowRange range(int chunk) const { return PairChunks{bytes, chunk_bytes(), chunks()}.range(chunk); }
};

}  // namespace tc
