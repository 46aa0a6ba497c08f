// A case on CPUs: memory of the library, the host's clock, the host's check.
#include <chrono>

#include "gemm_case.h"
#include "reference.h"
#include "shards.h"
#include "uploads.h"

namespace tc::perf {
namespace {

using Buffers = std::vector<std::unique_ptr<Buffer>>;

class HostCase final : public GemmCase {
 public:
  HostCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs, Communicator& communicator)
      : shape_(shape),
        inputs_(inputs),
        type_(inputs.Type()),
        communicator_(communicator),
        rank_(communicator.Owner()),
        shard_(ShardOf(shape.m, rank_.Count(), rank_.Index())),
        reference_(inputs, shape.m, shape.n, shape.k, rank_.Index(), rank_.Count(), options.common.seed),
        c_(communicator, shape.m * shape.n * type_.bytes) {
    for (size_t set = 0; set < inputs_.Sets(); ++set) {
      a_.push_back(std::make_unique<Buffer>(communicator_, shard_.rows * shape_.k * type_.bytes));
      UploadA(communicator_, inputs_, set, shard_, shape_.k, a_.back()->Data());
      b_.push_back(std::make_unique<Buffer>(communicator_, shape_.n * shape_.k * type_.bytes));
      UploadB(communicator_, inputs_, set, shape_.n, shape_.k, options.b_layout, b_.back()->Data());
    }
    Require(rank_, TC_GEMM_CONFIG_INIT(&config_), "tcGemmConfigInit");
    config_.bLayout = options.b_layout;
    if (options.gathered) {
      gathered_ = std::make_unique<Buffer>(communicator_, shape.m * shape.k * type_.bytes, options.registered);
      config_.gatheredA = gathered_->Data();
    }
  }

  double Time(size_t set) override {
    using Clock = std::chrono::steady_clock;
    c_.Poison();
    if (gathered_ != nullptr) gathered_->Poison();
    const void* a = shard_.rows > 0 ? a_[set]->Data() : nullptr;
    const void* b = b_[set]->Data();
    const tcComm_t comm = communicator_.Comm();
    communicator_.Barrier();
    const Clock::time_point start = Clock::now();
    const tcResult_t issued = tcFusedAllGatherGemm(a, b, c_.Data(), shape_.m, shape_.n, shape_.k, type_.code, &config_,
                                                   comm, communicator_.Stream());
    const tcResult_t done = issued == tcSuccess ? tcStreamSynchronize(comm, communicator_.Stream()) : issued;
    const Clock::time_point end = Clock::now();
    Require(rank_, done, "tcFusedAllGatherGemm", comm);
    return std::chrono::duration<double, std::micro>(end - start).count();
  }

  void Check(size_t set, uint64_t iteration, RankResult* result) override {
    size_t spoiled = 0;
    const std::byte* c = c_.CopyOut(&spoiled);
    result->wrong += reference_.CountWrong(c, set, iteration);
    result->spoiled += ElementsIn(spoiled, type_);
    if (gathered_ == nullptr) return;
    result->wrong += reference_.CountWrongGathered(gathered_->CopyOut(&spoiled), set);
    result->spoiled += ElementsIn(spoiled, type_);
  }

  const std::byte* CopyOut() override {
    size_t spoiled = 0;  // counted by Check
    return c_.CopyOut(&spoiled);
  }

 private:
  const GemmShape shape_;
  const Inputs& inputs_;
  const ElementType& type_;
  Communicator& communicator_;
  Rank& rank_;
  const Shard shard_;
  GemmReference reference_;
  Buffers a_;
  Buffers b_;
  Buffer c_;
  std::unique_ptr<Buffer> gathered_;
  tcGemmConfig_t config_;
};

}  // namespace

std::unique_ptr<GemmCase> MakeHostCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                                       Communicator& communicator) {
  return std::make_unique<HostCase>(options, shape, inputs, communicator);
}

}  // namespace tc::perf
