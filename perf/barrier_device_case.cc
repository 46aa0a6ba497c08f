// Barriers on a GPU: device events as clock, alone or around a graph of many; RollCall by kernels.
#include <algorithm>
#include <optional>

#include "barrier_case.h"
#include "barrier_kernels.h"
#include "cuda_handles.h"
#include "device_kernels.h"

namespace tc::perf {
namespace {

class DeviceBarrierCase final : public BarrierCase {
 public:
  DeviceBarrierCase(const CommonOptions& options, RollCall& roll, Communicator& communicator)
      : seed_(options.seed),
        nodes_(options.graph_replays),
        communicator_(communicator),
        rank_(communicator.Owner()),
        stream_(communicator.Stream()),
        words_(rank_, roll.Memory().Data(), roll.Memory().Bytes()),
        count_(communicator, sizeof(Count)),
        host_count_(rank_, sizeof(Count)),
        start_(rank_),
        end_(rank_) {
    Rehearse();
    roll.Reset(rank_.Index());
    if (nodes_ > 0) MakeGraphs();
  }

  double Time() override {
    RequireCuda(rank_, Pause(NanosecondsToEnqueue(1 + nodes_), stream_), "the kernel Pause");
    Enqueue();
    start_.Record(stream_);
    if (nodes_ > 0) {
      timed_->Launch(stream_);
    } else {
      Enqueue();
    }
    end_.Record(stream_);
    communicator_.Synchronize();
    return end_.MicrosecondsSince(start_) / std::max(nodes_, 1);
  }

  uint64_t CountEarly() override {
    ZeroCount();
    if (nodes_ > 0) {
      checked_->Launch(stream_);
    } else {
      EnqueueCheck();
    }
    return ReadCount();
  }

  uint64_t BarriersOfTime() const override { return 1 + static_cast<uint64_t>(std::max(nodes_, 1)); }

 private:
  void Enqueue() { Require(rank_, tcBarrier(communicator_.Comm(), stream_), "tcBarrier", communicator_.Comm()); }

  void EnqueueCheck() {
    for (int barrier = 0; barrier < rank_.Count(); ++barrier) {
      const uint64_t late_ns = LateNanoseconds(seed_, barrier, rank_.Index());
      if (late_ns > 0) RequireCuda(rank_, Pause(late_ns, stream_), "the kernel Pause");
      EnqueueAnnounce();
      Enqueue();
      EnqueueCount();
    }
  }

  void EnqueueAnnounce() { RequireCuda(rank_, Announce(words_.Data(), rank_.Index(), stream_), "the kernel Announce"); }

  void EnqueueCount() {
    auto* count = reinterpret_cast<Count*>(count_.Data());
    const cudaError_t counted = CountAbsent(words_.Data(), rank_.Index(), rank_.Count(), count, stream_);
    RequireCuda(rank_, counted, "the kernel CountAbsent");
  }

  void ZeroCount() { RequireCuda(rank_, cudaMemsetAsync(count_.Data(), 0, sizeof(Count), stream_), "cudaMemsetAsync"); }

  uint64_t ReadCount() {
    const cudaError_t copied =
        cudaMemcpyAsync(host_count_.Data(), count_.Data(), sizeof(Count), cudaMemcpyDeviceToHost, stream_);
    RequireCuda(rank_, copied, "cudaMemcpyAsync");
    communicator_.Synchronize();
    return *reinterpret_cast<const Count*>(host_count_.Data());
  }

  // Runs once what stands beside the barriers. CUDA loads a kernel when it is first used, and may wait for the device
  // to be idle: while a barrier waits for this rank, that would be for ever.
  void Rehearse() {
    RequireCuda(rank_, Pause(0, stream_), "the kernel Pause");
    ZeroCount();
    EnqueueAnnounce();
    EnqueueCount();
    start_.Record(stream_);
    end_.Record(stream_);
    ReadCount();
  }

  // To instantiate a graph may allocate, which nobody may while another rank captures.
  void MakeGraphs() {
    rank_.Meet();
    timed_.emplace(rank_, stream_, [this] {
      for (int node = 0; node < nodes_; ++node) Enqueue();
    });
    checked_.emplace(rank_, stream_, [this] { EnqueueCheck(); });
    rank_.Meet();
    timed_->Prepare(stream_);
    checked_->Prepare(stream_);
    communicator_.Synchronize();
  }

  const uint64_t seed_;
  const int nodes_;  // barriers in the timed graph; 0: eager
  Communicator& communicator_;
  Rank& rank_;
  const tcStream_t stream_;
  MappedMemory words_;
  DeviceBuffer count_;
  PinnedMemory host_count_;
  TimeStamp start_;
  TimeStamp end_;
  std::optional<Graph> timed_;
  std::optional<Graph> checked_;
};

}  // namespace

std::unique_ptr<BarrierCase> MakeDeviceBarrierCase(const CommonOptions& options, RollCall& roll,
                                                   Communicator& communicator) {
  return std::make_unique<DeviceBarrierCase>(options, roll, communicator);
}

}  // namespace tc::perf
