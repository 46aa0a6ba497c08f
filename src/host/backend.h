// The host backend: a rank's device is a set of CPU threads, its memory is shared memory.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "comm/backend.h"
#include "host/gemm.h"
#include "host/stream.h"
#include "host/thread_team.h"

namespace tc::host {

class HostBackend : public Backend {
 public:
  // `threads`: compute threads of this rank; `device` is only reported back.
  HostBackend(int device, int threads);
  ~HostBackend() override;

  const char* name() const override { return "host"; }
  int device() const override { return device_; }
  std::string identity() const override { return {}; }
  Chip chip() const override { return {kHostArch, 1}; }
  Status Meet(const std::vector<Neighbour>&, std::string*) override { return {}; }
  uint32_t planes() const override { return 1u << tcPlanePush; }
  std::string CheckKey() const override { return {}; }
  Status RunCheck(const CheckStep&, const CheckArea&, RankSet*) override { return {}; }
  Status Allocate(Memory memory, size_t bytes, bool shared, std::shared_ptr<Segment>* segment) override;
  Status Import(Memory memory, const SegmentTicket& ticket, const UniqueFd& fd,
                std::shared_ptr<Segment>* segment) override;
  Status Adopt(Memory, const Segment&) override { return {}; }
  size_t table_bytes() const override { return 0; }
  void PlaceTables(std::byte*) override {}
  Status PlaceWindow(int64_t, const std::vector<std::byte*>&) override { return {}; }
  Status CreateStream(tcStream_t* stream) override;
  Status DestroyStream(tcStream_t stream) override;
  Status SynchronizeStream(tcStream_t stream) override;
  Status MemcpyAsync(void* dst, const void* src, size_t bytes, tcStream_t stream) override;
  Status OwnStream(tcStream_t* stream) override {
    *stream = nullptr;
    return {};
  }
  void Stop() override {}  // operators ask the communicator before they enter
  void Drain() override;
  void Collect(Communicator&) override {}
  void Tally(Communicator&) override {}
  uint64_t memory_bytes() override;
  int32_t* error_word() override { return &error_word_; }
  const int32_t* device_error_word() const override { return nullptr; }

  // Enqueues an operator. It starts when the stream has come to it and this communicator's previous operator, on
  // whichever stream, has completed.
  template <class Op>
  Status Launch(tcStream_t stream, Op op) {
    std::shared_ptr<Stream> resolved;
    TC_RETURN_IF_ERROR(Resolve(stream, &resolved));
    std::lock_guard lock(mutex_);
    const uint64_t number = launched_ + 1;
    resolved->Enqueue([this, number, op = std::move(op)] {
      AwaitCompleted(number - 1);
      op();
      SetCompleted(number);
    });
    launched_ = number;
    return {};
  }

  ThreadTeam& team() { return team_; }
  // Of the team's member with that number. Kept from one operator to the next, for an allocation takes its time.
  GemmScratch& scratch(size_t member) { return scratch_[member]; }
  // Called when the team has ended a piece of work.
  void CountScratch();

 private:
  void AwaitCompleted(uint64_t number);
  void SetCompleted(uint64_t number);
  Status Resolve(tcStream_t stream, std::shared_ptr<Stream>* resolved);

  const int device_;
  ThreadTeam team_;
  int32_t error_word_ = tcSuccess;
  std::vector<GemmScratch> scratch_;
  std::atomic<uint64_t> scratch_bytes_{0};
  std::mutex mutex_;  // over what follows
  std::condition_variable changed_;
  uint64_t launched_ = 0;  // operators, which complete in this order
  uint64_t completed_ = 0;
  std::shared_ptr<Stream> default_stream_;  // destroyed first: its tasks use the team
};

}  // namespace tc::host
