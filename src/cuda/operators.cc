#include "cuda/operators.h"

#include <algorithm>

#include "base/data_type.h"
#include "cuda/backend.h"
#include "cuda/kernels.h"
#include "order/chunks.h"
#include "order/shape.h"

namespace tc::cuda {
namespace {

// Four blocks push as much as PCIe carries, and 181 GB/s over NVLink, more than any all-gather + GEMM consumes.
constexpr int kDefaultMovers = 4;
// Through host memory half of them push and half take what has come. PCIe 5 carries 38 GB/s each way with 4 and 8
// blocks of 512 threads, 26 GB/s with 4 and 4: loads take longer than stores.
constexpr int kHostStagedMovers = kMostHostStagedBlocks;

CudaBackend& BackendOf(Communicator& comm) { return static_cast<CudaBackend&>(comm.backend()); }

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
                           const AllGatherGemmProblem& problem, uint64_t slab_rows, int movers) {
  CudaBackend& backend = BackendOf(comm);
  const GemmKernel kernel = AllGatherGemmKernel(problem.type, problem.b_layout);
  GatherGemmParams params{};
  params.comm = backend.KernelView(comm);
  params.entry.shape = shape;
  params.problem = problem;
  params.row_bytes = problem.k * ElementBytes(problem.type);
  params.staged_pitch = StagedPitch(params.row_bytes);
  params.lands = params.comm.view.landing != nullptr;
  const int default_movers = params.lands ? kHostStagedMovers : kDefaultMovers;
  if (problem.gathered != nullptr) {
    params.entry.destination =
        Communicator::Locate(*comm.windows(), problem.gathered, problem.shards.total() * params.row_bytes);
  }
  params.col_blocks = (problem.n + kernel.tile_cols - 1) / kernel.tile_cols;
  const uint64_t slabs = std::max<uint64_t>(SlabCount(problem.shards, slab_rows), 1);
  for (uint64_t index = 0; index < slabs; ++index) {
    params.slab = SlabAt(problem.shards, slab_rows, index);
    params.chunk_rows = ChunkRows(params.slab.packed.largest());
    params.row_blocks = (params.slab.packed.total() + kernel.tile_rows - 1) / kernel.tile_rows;
    params.place = {.first = index == 0, .last = index + 1 == slabs};
    if ((problem.stages & kStageMove) != 0) {
      const uint64_t own = params.slab.packed.rows(comm.rank());
      params.comm.sends = own * params.row_bytes * (comm.n_ranks() - 1);
      params.comm.receives = (params.slab.packed.total() - own) * params.row_bytes;
    }
    const uint64_t tiles = params.row_blocks * params.col_blocks;
    const int most = backend.MostBlocks();
    params.movers = std::min(movers > 0 ? movers : default_movers, most);
    const int blocks = static_cast<int>(std::min<uint64_t>(params.movers + tiles, most));
    TC_RETURN_IF_ERROR(backend.Launch(
        stream, {.kernel = kernel.function, .blocks = blocks, .shared_bytes = kernel.shared_bytes}, params));
  }
  return {};
}

}  // namespace tc::cuda
