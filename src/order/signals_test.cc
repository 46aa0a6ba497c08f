// The table of signals against a recount, row by row, that knows none of its formulas: for every epoch of many
// operators, who raises which watermark how often, which rows that stands for, what goes into each gate and what each
// row block waits for.
#include "order/signals.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "order/moves.h"
#include "protocol/cpu_memory.h"

namespace tc {
namespace {

struct Case {
  std::vector<size_t> rows;  // of each rank
  uint64_t slab_rows;
};

// One epoch, counted by walking over its rows.
struct Recount {
  using PerRank = std::array<uint32_t, kMaxRanks>;

  std::vector<std::vector<std::vector<uint64_t>>> chunk_rows;  // [producer][chunk]: the packed rows in it
  std::vector<PerRank> gate_rows;                              // [gate][producer]
  std::vector<uint32_t> padding;                               // [gate]
  std::vector<std::array<std::set<int>, kMaxRanks>> needed;    // [gate][producer]: chunks

  // of_slab[r]: rows of rank r in this epoch.
  explicit Recount(const std::vector<uint64_t>& of_slab) : chunk_rows(of_slab.size()) {
    const uint64_t size = SizeOfChunks(of_slab);
    uint64_t packed = 0;
    uint32_t in_gate = 0;  // places of the last gate that are taken
    for (size_t rank = 0; rank < of_slab.size(); ++rank) {
      uint64_t in_chunk = size;
      for (uint64_t row = 0; row < of_slab[rank]; ++row, ++packed) {
        if (in_chunk == size) {
          chunk_rows[rank].emplace_back();
          in_chunk = 0;
        }
        if (in_gate == 128 || gate_rows.empty()) {
          gate_rows.push_back({});
          needed.emplace_back();
          in_gate = 0;
        }
        chunk_rows[rank].back().push_back(packed);
        ++in_chunk;
        ++gate_rows.back()[rank];
        ++in_gate;
        needed.back()[rank].insert(static_cast<int>(chunk_rows[rank].size()) - 1);
      }
    }
    padding.assign(gate_rows.size(), 0);
    if (!gate_rows.empty()) {
      for (; in_gate < 128; ++in_gate) ++padding.back();
    }
  }

 private:
  // P11: 64 rows, doubled until no producer has more than 1024 chunks.
  static uint64_t SizeOfChunks(const std::vector<uint64_t>& of_slab) {
    for (uint64_t size = 64;; size *= 2) {
      bool fits = true;
      for (uint64_t rows : of_slab) {
        uint64_t chunks = 0;
        for (uint64_t row = 0; row < rows; row += size) ++chunks;
        fits = fits && chunks <= 1024;
      }
      if (fits) return size;
    }
  }
};

// The rows of each rank that each slab holds: every rank puts as many as a slab has room for into one after the other.
std::vector<std::vector<uint64_t>> NaiveSlabs(const Case& operation) {
  std::vector<std::vector<uint64_t>> slabs;
  for (size_t rank = 0; rank < operation.rows.size(); ++rank) {
    uint64_t slab = 0;
    uint64_t room = operation.slab_rows;
    for (size_t row = 0; row < operation.rows[rank]; ++row, --room) {
      if (room == 0) {
        ++slab;
        room = operation.slab_rows;
      }
      if (slab == slabs.size()) slabs.emplace_back(operation.rows.size());
      ++slabs[slab][rank];
    }
  }
  return slabs;
}

void CompareWatermarks(const GatherSignals& signals, const Recount& recount, int n_ranks) {
  std::vector<int> table;
  std::vector<int> naive;
  for (int producer = 0; producer < n_ranks; ++producer) {
    ASSERT_EQ(signals.chunks(producer), static_cast<int>(recount.chunk_rows[producer].size()));
    for (int consumer = 0; consumer < n_ranks; ++consumer) {
      for (int chunk = 0; chunk < kMaxChunks; ++chunk) {
        table.push_back(signals.raises(producer, consumer, chunk));
        const bool sent = chunk < static_cast<int>(recount.chunk_rows[producer].size()) &&
                          !recount.chunk_rows[producer][chunk].empty() && producer != consumer;
        naive.push_back(sent ? 1 : 0);
      }
    }
    for (int chunk = 0; chunk < signals.chunks(producer); ++chunk) {
      const std::vector<uint64_t>& rows = recount.chunk_rows[producer][chunk];
      const RowRange range = signals.rows(producer, chunk);
      ASSERT_EQ(range.end - range.begin, rows.size()) << "chunk " << chunk << " of rank " << producer;
      for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(range.begin + i, rows[i]);
    }
  }
  ASSERT_EQ(table, naive);
}

// What the blocks of all ranks do when each claims its moves until none is left.
void CompareMoves(const GatherSignals& signals, const Recount& recount, int n_ranks) {
  std::map<std::array<int, 3>, int> pushed;  // {producer, consumer, chunk}
  std::map<std::array<int, 3>, int> awaited;
  for (int rank = 0; rank < n_ranks; ++rank) {
    const Movement movement{.rank = rank, .n_ranks = n_ranks, .keeps_own = true, .takes_arrivals = true};
    for (int index = 0;; ++index) {
      const Move move = MoveAt(movement, index, signals);
      if (move.kind == MoveKind::kNone) break;
      if (move.kind == MoveKind::kPush) ++pushed[{rank, move.peer, move.chunk}];
      if (move.kind == MoveKind::kArrival) ++awaited[{move.peer, rank, move.chunk}];
    }
  }
  std::map<std::array<int, 3>, int> naive;
  for (int producer = 0; producer < n_ranks; ++producer) {
    for (int consumer = 0; consumer < n_ranks; ++consumer) {
      for (size_t chunk = 0; consumer != producer && chunk < recount.chunk_rows[producer].size(); ++chunk) {
        naive[{producer, consumer, static_cast<int>(chunk)}] = 1;
      }
    }
  }
  ASSERT_EQ(pushed, naive);
  ASSERT_EQ(awaited, naive);
}

void CompareGates(const GatherSignals& signals, const Recount& recount, int n_ranks) {
  ASSERT_EQ(signals.gates(), recount.gate_rows.size());
  const auto local = std::make_unique<LocalBlock>();
  const auto added = [&](uint64_t gate) { return std::exchange(local->gate[gate], 0); };
  for (int producer = 0; producer < n_ranks; ++producer) {
    for (int chunk = 0; chunk < signals.chunks(producer); ++chunk) {
      OpenGates<CpuMemory>(*local, signals.rows(producer, chunk).begin, signals.rows(producer, chunk).end);
    }
    for (uint64_t gate = 0; gate < signals.gates(); ++gate) {
      ASSERT_EQ(signals.gate_rows(gate, producer), recount.gate_rows[gate][producer]) << "gate " << gate;
      ASSERT_EQ(added(gate), recount.gate_rows[gate][producer]) << "gate " << gate;
    }
  }
  OpenGates<CpuMemory>(*local, signals.padding().begin, signals.padding().end);
  for (uint64_t gate = 0; gate < signals.gates(); ++gate) {
    ASSERT_EQ(added(gate), recount.padding[gate]) << "gate " << gate;
    uint32_t rows = recount.padding[gate];
    for (int producer = 0; producer < n_ranks; ++producer) rows += signals.gate_rows(gate, producer);
    ASSERT_EQ(rows, kGateRows) << "gate " << gate;
  }
}

// A device's tile waits for the chunks that hold its rows, not for a gate.
void CompareNeeds(const GatherSignals& signals, const Recount& recount, int n_ranks) {
  for (uint64_t gate = 0; gate < signals.gates(); ++gate) {
    const uint64_t end = std::min((gate + 1) * kGateRows, signals.packed.total());
    for (int producer = 0; producer < n_ranks; ++producer) {
      const ChunkRange range = signals.needed_chunks(producer, gate * kGateRows, end);
      std::set<int> needed;
      for (int chunk = range.begin; chunk < range.end; ++chunk) needed.insert(chunk);
      ASSERT_EQ(needed, recount.needed[gate][producer]) << "row block " << gate << ", rank " << producer;
    }
  }
}

void Compare(const Case& operation) {
  const int n_ranks = static_cast<int>(operation.rows.size());
  const Shards shards = GivenShards(operation.rows.data(), n_ranks);
  const std::vector<std::vector<uint64_t>> slabs = NaiveSlabs(operation);
  ASSERT_EQ(SlabCount(shards, operation.slab_rows), slabs.size());
  for (size_t index = 0; index <= slabs.size(); ++index) {  // also one that holds nothing
    SCOPED_TRACE(testing::Message() << "slab " << index << " of " << operation.slab_rows << " rows; ranks with "
                                    << testing::PrintToString(operation.rows));
    const Slab slab = SlabAt(shards, operation.slab_rows, index);
    const GatherSignals signals{slab.packed, ChunkRows(slab.packed.largest())};
    const Recount recount(index < slabs.size() ? slabs[index] : std::vector<uint64_t>(operation.rows.size()));
    CompareWatermarks(signals, recount, n_ranks);
    CompareMoves(signals, recount, n_ranks);
    CompareGates(signals, recount, n_ranks);
    CompareNeeds(signals, recount, n_ranks);
    if (testing::Test::HasFailure()) return;
  }
}

TEST(Signals, AreWhatARecountRowByRowFinds) {
  std::mt19937 random(2);
  for (int n_ranks = 1; n_ranks <= kMaxRanks && !HasFailure(); ++n_ranks) {
    for (size_t rows : {0, 1, 63, 64, 65, 127, 128, 129, 200}) {
      Compare({std::vector<size_t>(n_ranks, rows), UINT64_MAX / 2});
    }
    for (int round = 0; round < 12 && !HasFailure(); ++round) {
      Case operation{std::vector<size_t>(n_ranks), round % 3 == 0 ? 1000 : 1 + random() % 150};
      for (size_t& rows : operation.rows) rows = random() % 4 == 0 ? 0 : random() % 400;
      Compare(operation);
    }
  }
}

// Chunks of more than 64 rows: more rows than 1024 watermarks can tell apart, at one rank and at all.
TEST(Signals, OfMoreRowsThanWatermarksAreCoarser) {
  constexpr size_t kMost = kMaxChunks * 64;
  Compare({{kMost, kMost - 1}, UINT64_MAX / 2});
  Compare({{kMost + 1, 3}, UINT64_MAX / 2});
  Compare({{5, 0, 2 * kMost + 77, 130}, UINT64_MAX / 2});
  Compare({{4 * kMost, 64, kMost}, kMost + 1});
  Compare({{3 * kMost + 5}, 2 * kMost + 1});
}

// The bytes of a plain all-gather: as many chunks as watermarks suffice for, none empty, together all bytes.
template <class ChunkBytes>
void CompareBytes(const std::vector<uint64_t>& sizes, uint64_t smallest, const ChunkBytes& chunk_bytes) {
  for (uint64_t bytes : sizes) {
    const uint64_t size = chunk_bytes(bytes);
    uint64_t doubled = smallest;
    while (doubled < size) doubled += doubled;
    EXPECT_EQ(doubled, size) << bytes;
    for (int n_ranks : {1, 3, 16}) {
      const Shards blocks = EvenShards(bytes * n_ranks, n_ranks);
      const GatherSignals signals{blocks, size};
      for (int producer = 0; producer < n_ranks; ++producer) {
        int chunks = 0;
        for (uint64_t at = producer * bytes; at < (producer + 1) * bytes; ++chunks) {
          const uint64_t step = std::min(size, (producer + 1) * bytes - at);
          ASSERT_EQ(signals.rows(producer, chunks).begin, at);
          ASSERT_EQ(signals.rows(producer, chunks).end, at + step);
          at += step;
        }
        ASSERT_EQ(signals.chunks(producer), chunks);
        ASSERT_LE(chunks, kMaxChunks);
        for (int chunk : {0, chunks - 1, chunks, kMaxChunks - 1}) {
          for (int consumer = 0; consumer < n_ranks; ++consumer) {
            const bool sent = chunk >= 0 && chunk < chunks && consumer != producer;
            if (chunk >= 0) {
              ASSERT_EQ(signals.raises(producer, consumer, chunk), sent ? 1 : 0);
            }
          }
        }
      }
    }
  }
}

TEST(Signals, OfAPairCoverEachByteOnce) {
  std::mt19937 random(5);
  std::vector<uint64_t> sizes{0, 1, 262143, 262144, 262145, (uint64_t{256} << 20) + 1, uint64_t{3} << 30};
  for (int i = 0; i < 40; ++i) sizes.push_back(random() % (uint64_t{1} << (10 + i / 2)));
  for (const uint64_t bytes : sizes) {
    const PairSignals signals{bytes};
    uint64_t at = 0;
    for (int chunk = 0; chunk < signals.chunks(); ++chunk) {
      ASSERT_EQ(signals.range(chunk).begin, at);
      ASSERT_GT(signals.range(chunk).end, at);
      at = signals.range(chunk).end;
    }
    ASSERT_EQ(at, bytes);
    ASSERT_LE(signals.chunks(), kMaxChunks);
  }
}

TEST(Signals, OfBytesCoverEachOnce) {
  std::mt19937 random(3);
  std::vector<uint64_t> sizes{0, 1, 16383, 16384, 16385, 262144, 262145, (uint64_t{256} << 20) + 1, uint64_t{3} << 30};
  for (int i = 0; i < 40; ++i) sizes.push_back(random() % (uint64_t{1} << (10 + i / 2)));
  CompareBytes(sizes, uint64_t{256} << 10, HostChunkBytes);
  CompareBytes(sizes, uint64_t{16} << 10, DeviceChunkBytes);
  constexpr uint64_t kFew = 4 * kMostGatherBlocks;
  for (uint64_t bytes : sizes) {
    const uint64_t size = DeviceChunkBytes(bytes);
    // A few chunks for every block, but no needless ones.
    EXPECT_TRUE(size == 16384 || size / 2 * kFew < bytes || bytes > size / 2 * kMaxChunks) << bytes;
    EXPECT_GE(size * kFew + kFew, bytes) << bytes;
  }
}

}  // namespace
}  // namespace tc
