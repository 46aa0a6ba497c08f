// A case on a GPU: memory of CUDA, device events or graph replays as clock, a check by kernels.
#include <algorithm>

#include "cuda_handles.h"
#include "device_kernels.h"
#include "gemm_case.h"
#include "reference.h"
#include "shards.h"
#include "uploads.h"

namespace tc::perf {
namespace {

using Buffers = std::vector<std::unique_ptr<DeviceBuffer>>;

// What the check kernels count.
struct Counts {
  Count wrong;
  Count spoiled_c;         // bytes of c's guard zones
  Count spoiled_gathered;  // bytes of gatheredA's
};

class DeviceCase final : public GemmCase {
 public:
  DeviceCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs, Communicator& communicator)
      : shape_(shape),
        inputs_(inputs),
        type_(inputs.Type()),
        replays_(options.common.graph_replays),
        communicator_(communicator),
        rank_(communicator.Owner()),
        stream_(communicator.Stream()),
        shard_(ShardOf(shape.m, rank_.Count(), rank_.Index())),
        reference_(inputs, shape.m, shape.n, shape.k, rank_.Index(), rank_.Count(), options.common.seed),
        c_(communicator, shape.m * shape.n * type_.bytes),
        counts_(communicator, sizeof(Counts)),
        host_counts_(rank_, sizeof(Counts)),
        grid_(communicator, GridBytes()),
        host_grid_(rank_, std::max<size_t>(GridBytes(), 1)),
        start_(rank_),
        end_(rank_) {
    for (size_t set = 0; set < inputs_.Sets(); ++set) MakeInputs(set, options.b_layout);
    Require(rank_, TC_GEMM_CONFIG_INIT(&config_), "tcGemmConfigInit");
    config_.bLayout = options.b_layout;
    if (options.gathered) {
      gathered_ = std::make_unique<DeviceBuffer>(communicator_, shape_.m * shape_.k * type_.bytes, options.registered);
      config_.gatheredA = gathered_->Data();
    }
    Rehearse();
    if (replays_ > 0) MakeGraphs();
  }

  double Time(size_t set) override {
    Poison();
    RequireCuda(rank_, Pause(NanosecondsToEnqueue(1 + replays_), stream_), "the kernel Pause");
    Require(rank_, tcBarrier(communicator_.Comm(), stream_), "tcBarrier", communicator_.Comm());
    start_.Record(stream_);
    if (replays_ == 0) Issue(set);
    for (int i = 0; i < replays_; ++i) graphs_[set]->Launch(stream_);
    end_.Record(stream_);
    const tcResult_t done = tcStreamSynchronize(communicator_.Comm(), stream_);
    Require(rank_, done, "tcFusedAllGatherGemm", communicator_.Comm());
    return end_.MicrosecondsSince(start_) / std::max(replays_, 1);
  }

  void Check(size_t set, uint64_t iteration, RankResult* result) override {
    RequireCuda(rank_, cudaMemsetAsync(counts_.Data(), 0, sizeof(Counts), stream_), "cudaMemsetAsync");
    auto* counts = reinterpret_cast<Counts*>(counts_.Data());
    CountGuards(c_, &counts->spoiled_c);
    if (gathered_ != nullptr) CountGuards(*gathered_, &counts->spoiled_gathered);
    if (inputs_.Seed()) CountWrong(set, iteration, &counts->wrong);
    const cudaError_t copied =
        cudaMemcpyAsync(host_counts_.Data(), counts_.Data(), sizeof(Counts), cudaMemcpyDeviceToHost, stream_);
    RequireCuda(rank_, copied, "cudaMemcpyAsync");
    communicator_.Synchronize();
    const auto* found = reinterpret_cast<const Counts*>(host_counts_.Data());
    result->wrong += found->wrong;
    result->spoiled += ElementsIn(found->spoiled_c, type_) + ElementsIn(found->spoiled_gathered, type_);
    if (!inputs_.Seed()) CheckOnHost(set, iteration, result);
  }

  const std::byte* CopyOut() override {
    host_c_ = c_.CopyOut();
    return host_c_.data();
  }

 private:
  // What gatheredA has to be.
  MatrixPart GatheredPart(size_t set) const { return {Matrix(set, kMatrixA), 0, shape_.m, shape_.k, false}; }
  GeneratedMatrix Matrix(size_t set, uint64_t which) const {
    return MatrixOf(inputs_.Seed().value_or(0), set, which, type_.code);
  }

  void MakeInputs(size_t set, tcBLayout_t layout) {
    a_.push_back(std::make_unique<DeviceBuffer>(communicator_, shard_.rows * shape_.k * type_.bytes));
    b_.push_back(std::make_unique<DeviceBuffer>(communicator_, shape_.n * shape_.k * type_.bytes));
    std::byte* a = a_.back()->Data();
    std::byte* b = b_.back()->Data();
    if (!inputs_.Seed()) {
      UploadA(communicator_, inputs_, set, shard_, shape_.k, a);
      UploadB(communicator_, inputs_, set, shape_.n, shape_.k, layout, b);
      return;
    }
    const MatrixPart part_a = {Matrix(set, kMatrixA), shard_.first, shard_.rows, shape_.k, false};
    const MatrixPart part_b = {Matrix(set, MatrixB(rank_.Index())), 0, shape_.n, shape_.k, layout == tcBLayoutKN};
    RequireCuda(rank_, Fill(part_a, a, stream_), "the kernel Fill");
    RequireCuda(rank_, Fill(part_b, b, stream_), "the kernel Fill");
  }

  // Runs once what Time and Check run beside the operator. CUDA loads a kernel when it is first used, and may wait for
  // the device to be idle: while another rank's operator waits for this rank, that would be for ever.
  void Rehearse() {
    Poison();
    RequireCuda(rank_, Pause(0, stream_), "the kernel Pause");
    start_.Record(stream_);
    end_.Record(stream_);
    RankResult unused;
    Check(0, 0, &unused);
  }

  // To instantiate a graph may allocate, which nobody may while another rank captures.
  void MakeGraphs() {
    rank_.Meet();
    for (size_t set = 0; set < inputs_.Sets(); ++set) {
      graphs_.push_back(std::make_unique<Graph>(rank_, stream_, [this, set] { Issue(set); }));
    }
    rank_.Meet();
    for (const auto& graph : graphs_) graph->Prepare(stream_);
    communicator_.Synchronize();
  }

  void Issue(size_t set) {
    const void* a = shard_.rows > 0 ? a_[set]->Data() : nullptr;
    const tcResult_t issued = tcFusedAllGatherGemm(a, b_[set]->Data(), c_.Data(), shape_.m, shape_.n, shape_.k,
                                                   type_.code, &config_, communicator_.Comm(), stream_);
    Require(rank_, issued, "tcFusedAllGatherGemm", communicator_.Comm());
  }

  void Poison() {
    c_.Poison();
    if (gathered_ != nullptr) gathered_->Poison();
  }

  void CountGuards(const DeviceBuffer& buffer, Count* count) {
    for (const std::byte* zone : {buffer.FrontGuard(), buffer.BackGuard()}) {
      RequireCuda(rank_, CountWritten(zone, DeviceBuffer::kGuardBytes, count, stream_), "the kernel CountWritten");
    }
  }

  void CountWrong(size_t set, uint64_t iteration, Count* wrong) {
    if (gathered_ != nullptr) {
      const cudaError_t compared = CountDifferences(GatheredPart(set), gathered_->Data(), wrong, stream_);
      RequireCuda(rank_, compared, "the kernel CountDifferences");
    }
    if (shape_.m == 0 || shape_.n == 0) return;
    ProductCheck check = {.a = Matrix(set, kMatrixA),
                          .b = Matrix(set, MatrixB(rank_.Index())),
                          .type = type_,
                          .n = shape_.n,
                          .k = shape_.k,
                          .exact = inputs_.Exact(set, shape_.k),
                          .poison_apart = reference_.IsSampled(),
                          .rows = nullptr,
                          .cols = nullptr,
                          .n_rows = shape_.m,
                          .n_cols = shape_.n,
                          .c = c_.Data()};
    if (reference_.IsSampled()) {
      Sample(iteration, &check);
      const cudaError_t scanned = CountPoison(type_, c_.Data(), shape_.m * shape_.n, wrong, stream_);
      RequireCuda(rank_, scanned, "the kernel CountPoison");
    }
    RequireCuda(rank_, CountWrongProducts(check, wrong, stream_), "the kernel CountWrongProducts");
  }

  // Room for the rows and columns of any iteration's sample.
  size_t GridBytes() const {
    if (!reference_.IsSampled() || !inputs_.Seed()) return 0;
    const GemmReference::Grid grid = reference_.SampledGrid(0);
    return (grid.rows.size() + grid.cols.size()) * sizeof(size_t);
  }

  void Sample(uint64_t iteration, ProductCheck* check) {
    const GemmReference::Grid grid = reference_.SampledGrid(iteration);
    auto* host = reinterpret_cast<size_t*>(host_grid_.Data());
    std::copy(grid.cols.begin(), grid.cols.end(), std::copy(grid.rows.begin(), grid.rows.end(), host));
    const cudaError_t copied = cudaMemcpyAsync(grid_.Data(), host, grid_.Bytes(), cudaMemcpyHostToDevice, stream_);
    RequireCuda(rank_, copied, "cudaMemcpyAsync");
    check->rows = reinterpret_cast<const size_t*>(grid_.Data());
    check->cols = check->rows + grid.rows.size();
    check->n_rows = grid.rows.size();
    check->n_cols = grid.cols.size();
  }

  // The user's own arrays are on the host already.
  void CheckOnHost(size_t set, uint64_t iteration, RankResult* result) {
    result->wrong += reference_.CountWrong(CopyOut(), set, iteration);
    if (gathered_ != nullptr) result->wrong += reference_.CountWrongGathered(gathered_->CopyOut().data(), set);
  }

  const GemmShape shape_;
  const Inputs& inputs_;
  const ElementType& type_;
  const int replays_;  // 0: eager
  Communicator& communicator_;
  Rank& rank_;
  const tcStream_t stream_;
  const Shard shard_;
  GemmReference reference_;
  Buffers a_;
  Buffers b_;
  DeviceBuffer c_;
  std::unique_ptr<DeviceBuffer> gathered_;
  DeviceBuffer counts_;
  PinnedMemory host_counts_;
  DeviceBuffer grid_;
  PinnedMemory host_grid_;
  TimeStamp start_;
  TimeStamp end_;
  std::vector<std::unique_ptr<Graph>> graphs_;  // one a set
  std::vector<std::byte> host_c_;
  tcGemmConfig_t config_;
};

}  // namespace

std::unique_ptr<GemmCase> MakeDeviceCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                                         Communicator& communicator) {
  return std::make_unique<DeviceCase>(options, shape, inputs, communicator);
}

}  // namespace tc::perf
