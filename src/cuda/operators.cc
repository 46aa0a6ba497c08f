#include "cuda/operators.h"

#include <algorithm>
#include <array>
#include <span>

#include "base/data_type.h"
#include "cuda/backend.h"
#include "cuda/kernels.h"
#include "order/chunks.h"
#include "order/exchange.h"
#include "order/shape.h"

namespace tc::cuda {
namespace {

// Four blocks push as much as PCIe carries, and 181 GB/s over NVLink, more than any all-gather + GEMM consumes.
constexpr int kPushMovers = 4;
// Loads over PCIe need more: the seed's machine saturates with 16.
constexpr int kPullMovers = 16;
// Through host memory half of them push and half take what has come. PCIe 5 carries 38 GB/s each way with 4 and 8
// blocks of 512 threads, 26 GB/s with 4 and 4: loads take longer than stores.
constexpr int kHostStagedMovers = kMostHostStagedBlocks;

CudaBackend& BackendOf(Communicator& comm) { return static_cast<CudaBackend&>(comm.backend()); }

int UsualMovers(tcPlane_t plane) {
  if (plane == tcPlaneHostStaged) return kHostStagedMovers;
  return Pushes(plane) ? kPushMovers : kPullMovers;
}

// Where peers store what this rank wants gathered, or load its rows. They know how rows lie there if they are packed.
Destination NamedBuffer(const Communicator& comm, const AllGatherGemmProblem& problem, tcPlane_t plane) {
  const uint64_t row_bytes = problem.k * ElementBytes(problem.type);
  if (Pushes(plane)) {
    if (problem.gathered == nullptr) return {};
    return Communicator::Locate(*comm.windows(), problem.gathered, problem.shards.total() * row_bytes);
  }
  const uint64_t rows = problem.shards.rows(comm.rank());
  if (plane != tcPlanePull || problem.lda != problem.k || rows == 0) return {};
  return Communicator::Locate(*comm.windows(), problem.a, rows * row_bytes);
}

// One slab around a copy engine's copies: they bring every peer's rows to the place where pushes would.
Status LaunchAroundCopies(CudaBackend& backend, tcStream_t stream, const Grid& grid, GatherGemmParams& closing) {
  const RankView& view = closing.comm.view;
  const bool moves = (closing.problem.stages & kStageMove) != 0;
  GatherGemmParams opening = closing;
  opening.problem.stages = closing.problem.stages & kStageMove;
  opening.problem.gathered = nullptr;
  opening.place.part = Part::kOpening;
  closing.place.part = Part::kClosing;
  closing.sending = Sending::kNot;
  std::array<CopyOnDevice, kMaxRanks> copies;
  size_t count = 0;
  for (int peer = 0; moves && peer < view.n_ranks; ++peer) {
    const uint64_t rows = closing.slab.packed.rows(peer);
    if (peer == view.rank || rows == 0) continue;
    const uint64_t at = closing.slab.packed.begin[peer] * closing.staged_pitch;
    copies[count++] = {view.workspace[view.rank] + at, view.workspace[peer] + at, rows * closing.staged_pitch};
  }
  Grid staging = grid;
  staging.blocks = static_cast<int>(opening.movers);
  return backend.Launch(stream, staging, opening, std::span(copies).first(count), grid, closing);
}

}  // namespace

Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why) {
  RefusalParams params{BackendOf(comm).KernelView(comm), EntryOfRefusal(shape, why)};
  return BackendOf(comm).Launch(stream, {.kernel = RefusalKernel(), .blocks = 1, .threads = kMeetingThreads}, params);
}

Status LaunchBarrier(Communicator& comm, tcStream_t stream) {
  DeviceComm params = BackendOf(comm).KernelView(comm);
  const Grid grid{.kernel = BarrierKernel(), .blocks = 1, .threads = kMeetingThreads, .starts_early = true};
  return BackendOf(comm).Launch(stream, grid, params);
}

Status LaunchAllGatherGemm(Communicator& comm, tcStream_t stream, const OperatorShape& shape,
                           const AllGatherGemmProblem& problem, uint64_t slab_rows, tcPlane_t plane, int movers) {
  CudaBackend& backend = BackendOf(comm);
  const GemmKernel kernel = AllGatherGemmKernel(problem.type, problem.b_layout);
  GatherGemmParams params{};
  params.comm = backend.KernelView(comm);
  params.entry.shape = shape;
  params.problem = problem;
  params.row_bytes = problem.k * ElementBytes(problem.type);
  params.staged_pitch = StagedPitch(params.row_bytes);
  params.lands = plane == tcPlaneHostStaged || plane == tcPlanePull;
  params.entry.destination = NamedBuffer(comm, problem, plane);
  params.col_blocks = (problem.n + kernel.tile_cols - 1) / kernel.tile_cols;
  const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.shards, slab_rows), 1);
  for (uint64_t index = 0; index < slabs; ++index) {
    params.slab = SlabAt(problem.shards, slab_rows, index);
    params.chunk_rows = ChunkRows(params.slab.packed.largest());
    params.row_blocks = (params.slab.packed.total() + kernel.tile_rows - 1) / kernel.tile_rows;
    params.place = {.first = index == 0, .last = index + 1 == slabs};
    params.sending = Pushes(plane) ? Sending::kToEach : Sending::kAtOnce;
    if ((problem.stages & kStageMove) != 0) {
      const uint64_t own = params.slab.packed.rows(comm.rank());
      params.comm.sends = own * params.row_bytes * (comm.n_ranks() - 1);
      params.comm.receives = (params.slab.packed.total() - own) * params.row_bytes;
    }
    const uint64_t tiles = params.row_blocks * params.col_blocks;
    const int most = backend.MostBlocks();
    params.movers = std::min(movers > 0 ? movers : UsualMovers(plane), most);
    const Grid grid{.kernel = kernel.function,
                    .blocks = static_cast<int>(std::min<uint64_t>(params.movers + tiles, most)),
                    .shared_bytes = kernel.shared_bytes};
    TC_RETURN_IF_ERROR(plane == tcPlaneCopyEngine && comm.n_ranks() > 1
                           ? LaunchAroundCopies(backend, stream, grid, params)
                           : backend.Launch(stream, grid, params));
  }
  return {};
}

}  // namespace tc::cuda
