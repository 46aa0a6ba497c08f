// The host backend: a rank's device is a set of CPU threads, its memory is shared memory.
#pragma once

#include <functional>
#include <memory>
#include <mutex>

#include "comm/backend.h"
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
  Status Allocate(Memory memory, size_t bytes, bool shared, std::shared_ptr<Segment>* segment) override;
  Status Import(Memory memory, const SegmentTicket& ticket, const UniqueFd& fd,
                std::shared_ptr<Segment>* segment) override;
  Status Adopt(Memory, const Segment&) override { return {}; }
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
  int32_t* error_word() override { return &error_word_; }
  const int32_t* device_error_word() const override { return nullptr; }

  // Enqueues an operator. It starts when the stream has come to it and this communicator's previous operator, on
  // whichever stream, has completed.
  Status Launch(tcStream_t stream, std::function<void()> op);

  ThreadTeam& team() { return team_; }

 private:
  class Completion;
  Status Resolve(tcStream_t stream, std::shared_ptr<Stream>* resolved);

  const int device_;
  ThreadTeam team_;
  int32_t error_word_ = tcSuccess;
  std::mutex mutex_;
  std::shared_ptr<Completion> last_;
  std::shared_ptr<Stream> default_stream_;  // destroyed first: its tasks use the team
};

}  // namespace tc::host
