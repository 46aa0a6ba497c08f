#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/data_type.h"
#include "host/backend.h"
#include "host/epoch.h"
#include "host/exchange.h"
#include "host/gemm.h"
#include "host/operators.h"
#include "order/shape.h"
#include "order/tiles.h"
#include "protocol/epoch.h"
#include "protocol/gate.h"

namespace tc::host {
namespace {

// Columns of a tile: 128, doubled until the tiles of all row blocks can be counted in 32 bits.
uint64_t TileCols(uint64_t row_blocks, uint64_t n) {
  uint64_t cols = 128;
  while (row_blocks * ((n + cols - 1) / cols) > UINT32_MAX / 2) cols *= 2;
  return cols;
}

// One slab of an all-gather + GEMM on one rank: one thread moves rows, the others compute tiles behind the gates, and
// the mover joins them when it is done.
class GatherGemmSlab {
 public:
  GatherGemmSlab(const Epoch& epoch, const Windows& windows, const AllGatherGemmProblem& problem, const Slab& slab)
      : epoch_(epoch),
        windows_(windows),
        problem_(problem),
        slab_(slab),
        view_(epoch.comm.view()),
        local_(*view_.local),
        row_bytes_(problem.k * ElementBytes(problem.type)),
        staged_pitch_(StagedPitch(row_bytes_)),
        signals_{slab.packed, ChunkRows(slab.packed.largest())},
        row_blocks_(signals_.gates()),
        tile_cols_(TileCols(row_blocks_, problem.n)),
        col_blocks_((problem.n + tile_cols_ - 1) / tile_cols_),
        staged_(epoch.destination(view_.rank).window < 0) {}

  Status Run(HostBackend& backend) {
    ThreadTeam& team = backend.team();
    team.Run([&] {
      const auto ticket = tc::Arrive<CpuMemory>(local_).ticket;
      if (ticket == 0) {
        moved_ = Move();
        if (!moved_.ok()) stop_ = true;
      }
      if ((problem_.stages & kStageCompute) != 0) Compute(backend.scratch(ticket));
      LeaveEpoch<CpuMemory>(local_, epoch_.number, static_cast<uint32_t>(team.size()), row_blocks_);
    });
    backend.CountScratch();
    if (moved_.ok() && stop_) return WaitError(epoch_, WaitResult::kAborted, {}, "");
    return moved_;
  }

 private:
  Status Move() {
    const Shards& packed = slab_.packed;
    if ((problem_.stages & kStageMove) == 0) {
      OpenGates<CpuMemory>(local_, 0, row_blocks_ * kGateRows);
      return {};
    }
    if (problem_.gathered != nullptr) KeepOwnRows();
    OpenGates<CpuMemory>(local_, signals_.padding().begin, signals_.padding().end);
    OpenGates<CpuMemory>(local_, packed.begin[view_.rank], packed.begin[view_.rank + 1]);
    return ExchangeChunks(
        epoch_, CountChunks(signals_, view_.rank), [&](int peer, int chunk) { Push(peer, chunk); },
        [&](int producer, int chunk) { Arrive(producer, chunk); },
        [&](int producer, int chunk) {
          const RowRange rows = signals_.rows(producer, chunk);
          const uint64_t shift = slab_.first[producer] - packed.begin[producer];
          return Format("rows %llu-%llu", static_cast<unsigned long long>(rows.begin + shift),
                        static_cast<unsigned long long>(rows.end + shift - 1));
        });
  }

  // A packed row of this rank's shard in the caller's a.
  const std::byte* OwnRow(uint64_t row) const {
    const uint64_t in_shard =
        row - slab_.packed.begin[view_.rank] + slab_.first[view_.rank] - problem_.shards.begin[view_.rank];
    return static_cast<const std::byte*>(problem_.a) + in_shard * problem_.lda * ElementBytes(problem_.type);
  }
  // A packed row in the caller's gatheredA.
  std::byte* GatheredRow(uint64_t row, int owner) const {
    return static_cast<std::byte*>(problem_.gathered) +
           (row - slab_.packed.begin[owner] + slab_.first[owner]) * row_bytes_;
  }
  std::byte* StagedRow(int rank, uint64_t row) const { return view_.workspace[rank] + row * staged_pitch_; }
  // A packed row of this rank's in `peer`'s memory.
  std::byte* RowAt(int peer, uint64_t row) const {
    const Destination& destination = epoch_.destination(peer);
    if (destination.window < 0) return StagedRow(peer, row);
    return InWindow(windows_, destination, peer) +
           (row - slab_.packed.begin[view_.rank] + slab_.first[view_.rank]) * row_bytes_;
  }

  void KeepOwnRows() {
    for (uint64_t row = slab_.packed.begin[view_.rank]; row < slab_.packed.begin[view_.rank + 1]; ++row) {
      std::byte* kept = GatheredRow(row, view_.rank);
      if (kept != OwnRow(row)) std::memcpy(kept, OwnRow(row), row_bytes_);
    }
  }

  void Push(int peer, int chunk) {
    const RowRange rows = signals_.rows(view_.rank, chunk);
    for (uint64_t row = rows.begin; row < rows.end; ++row) std::memcpy(RowAt(peer, row), OwnRow(row), row_bytes_);
    epoch_.comm.counters().bytes_sent += (rows.end - rows.begin) * row_bytes_;
  }

  void Arrive(int producer, int chunk) {
    const RowRange rows = signals_.rows(producer, chunk);
    if (problem_.gathered != nullptr && staged_) {
      for (uint64_t row = rows.begin; row < rows.end; ++row) {
        std::memcpy(GatheredRow(row, producer), StagedRow(view_.rank, row), row_bytes_);
      }
    }
    epoch_.comm.counters().bytes_received += (rows.end - rows.begin) * row_bytes_;
    OpenGates<CpuMemory>(local_, rows.begin, rows.end);
  }

  void Compute(GemmScratch& scratch) {
    const uint64_t tiles = row_blocks_ * col_blocks_;
    for (uint64_t index = ClaimTile<CpuMemory>(local_); index < tiles; index = ClaimTile<CpuMemory>(local_)) {
      const Tile tile =
          AllGatherTile(index, row_blocks_, col_blocks_, slab_.packed.begin[view_.rank], uint64_t{kGateRows});
      if (!AwaitGate(tile.row_block)) return;
      ComputeTile(tile, scratch);
    }
  }

  // The mover opens every gate or says stop within its own time limits, so this wait needs none of its own.
  bool AwaitGate(uint64_t row_block) {
    const auto open_or_stopped = [&] { return GateIsOpen<CpuMemory>(local_, row_block) || stop_; };
    if (AbortedBy<CpuMemory>(view_) >= 0 ||
        WaitUntil<CpuMemory>(open_or_stopped, view_, UINT64_MAX) == WaitResult::kAborted) {
      stop_ = true;
    }
    return !stop_;
  }

  // A row block may hold rows of several ranks; each rank's part lies in another place and goes to other rows of c.
  void ComputeTile(const Tile& tile, GemmScratch& scratch) {
    const uint64_t end = std::min((tile.row_block + 1) * kGateRows, slab_.packed.total());
    for (uint64_t row = tile.row_block * kGateRows; row < end;) {
      const int owner = slab_.owner(row);
      const uint64_t stop = std::min(end, slab_.packed.begin[owner + 1]);
      ComputePart(owner, row, stop, tile.col_block * tile_cols_, scratch);
      row = stop;
    }
  }

  void ComputePart(int owner, uint64_t row, uint64_t row_end, uint64_t col, GemmScratch& scratch) {
    const bool own = owner == view_.rank;
    const std::byte* a = own ? OwnRow(row) : staged_ ? StagedRow(view_.rank, row) : GatheredRow(row, owner);
    const uint64_t b_offset = problem_.b_layout == tcBLayoutNK ? col * problem_.ldb : col;
    const uint64_t c_offset = (row - slab_.packed.begin[owner] + slab_.first[owner]) * problem_.ldc + col;
    Gemm({.in_type = problem_.type,
          .out_type = problem_.out_type,
          .b_layout = problem_.b_layout,
          .rows = row_end - row,
          .cols = std::min(tile_cols_, problem_.n - col),
          .k = problem_.k,
          .a = a,
          .lda = own       ? problem_.lda
                 : staged_ ? staged_pitch_ / ElementBytes(problem_.type)
                           : problem_.k,
          .b = static_cast<const std::byte*>(problem_.b) + b_offset * ElementBytes(problem_.type),
          .ldb = problem_.ldb,
          .c = static_cast<std::byte*>(problem_.c) + c_offset * ElementBytes(problem_.out_type),
          .ldc = problem_.ldc,
          .alpha = problem_.alpha},
         scratch);
  }

  const Epoch& epoch_;
  const Windows& windows_;
  const AllGatherGemmProblem& problem_;
  const Slab& slab_;
  const RankView& view_;
  LocalBlock& local_;
  const uint64_t row_bytes_;
  const uint64_t staged_pitch_;
  const GatherSignals signals_;
  const uint64_t row_blocks_;
  const uint64_t tile_cols_;
  const uint64_t col_blocks_;
  const bool staged_;
  Status moved_;                   // written by the mover, read when all have left
  std::atomic<bool> stop_{false};  // the mover has given up, or somebody aborted
};

}  // namespace

Status LaunchAllGatherGemm(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const AllGatherGemmProblem& problem, uint64_t slab_rows) {
  const std::shared_ptr<const Windows> windows = comm.windows();
  auto& backend = static_cast<HostBackend&>(comm.backend());
  backend.team().Start();  // here, where a failure still reaches the caller
  return backend.Launch(stream, [=, &comm, &backend] {
    Epochs epochs(comm, stream);
    EntryRecord record = EntryOfShape(shape);
    if (problem.gathered != nullptr) {
      const size_t bytes = problem.shards.total() * problem.k * ElementBytes(problem.type);
      record.destination = Communicator::Locate(*windows, problem.gathered, bytes);
    }
    const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.shards, slab_rows), 1);
    for (uint64_t index = 0; index < slabs; ++index) {
      const Slab slab = SlabAt(problem.shards, slab_rows, index);
      const auto body = [&](const Epoch& epoch) {
        TC_RETURN_IF_ERROR(CheckDestinations(epoch, *windows));
        return GatherGemmSlab(epoch, *windows, problem, slab).Run(backend);
      };
      if (epochs.Run(record, body) != EpochEnd::kDone) return;
    }
    ++comm.counters().ops;
  });
}

}  // namespace tc::host
