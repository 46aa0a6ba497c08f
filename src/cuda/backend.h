// The CUDA backend: a rank's device is a GPU, its memory is what segment.h allocates, operators are kernels on the
// caller's streams.
#pragma once

#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>

#include "comm/backend.h"
#include "comm/communicator.h"
#include "cuda/params.h"
#include "cuda/service.h"

namespace tc::cuda {

// Whether a GPU and a driver are there.
bool IsAvailable(Status* why);

// GPUs that this process sees, at least 1 where IsAvailable.
int DeviceCount();

struct Grid {
  const void* kernel;
  int blocks;
  int threads = kThreads;
  int shared_bytes = 0;
  bool starts_early = false;  // the kernel waits for the one before it itself, see ptx/launch.cuh
};

struct CopyOnDevice {
  void* to;
  const void* from;
  uint64_t bytes;
};

class CudaBackend final : public Backend {
 public:
  // device -1: the current one. Loads every kernel, since a lazy load can wait for a kernel that spins.
  static Status Create(int device, bool vmm_disable, std::unique_ptr<Backend>* backend);
  ~CudaBackend() override;

  const char* name() const override { return "cuda"; }
  int device() const override { return device_; }
  bool sends_packets() const override { return true; }
  std::string identity() const override { return uuid_; }
  Chip chip() const override { return {arch_, multiprocessors_}; }
  Status Meet(const std::vector<Neighbour>& ranks, std::string* apart) override;
  uint32_t planes() const override { return 1u << tcPlanePush | 1u << tcPlanePull | 1u << tcPlaneCopyEngine; }
  std::string CheckKey() const override;
  Status RunCheck(const CheckStep& step, const CheckArea& area, RankSet* wrong) override;
  Status Allocate(Memory memory, size_t bytes, bool shared, std::shared_ptr<Segment>* segment) override;
  Status Import(Memory memory, const SegmentTicket& ticket, const UniqueFd& fd,
                std::shared_ptr<Segment>* segment) override;
  Status Adopt(Memory memory, const Segment& segment) override;
  size_t table_bytes() const override { return kMaxWindows * sizeof(WindowBases); }
  void PlaceTables(std::byte* tables) override { windows_ = reinterpret_cast<WindowBases*>(tables); }
  Status PlaceWindow(int64_t index, const std::vector<std::byte*>& bases) override;
  Status CreateStream(tcStream_t* stream) override;
  Status DestroyStream(tcStream_t stream) override;
  Status SynchronizeStream(tcStream_t stream) override;
  Status MemcpyAsync(void* dst, const void* src, size_t bytes, tcStream_t stream) override;
  Status OwnStream(tcStream_t* stream) override;
  void Stop() override;
  void Drain() override;
  void Collect(Communicator& comm) override;
  void Tally(Communicator& comm) override;
  uint64_t memory_bytes() override { return report_memory_->reserved_bytes(); }
  int32_t* error_word() override { return reinterpret_cast<int32_t*>(&report_->error); }
  const int32_t* device_error_word() const override { return reinterpret_cast<const int32_t*>(&report_->error); }

  // What kernels of `comm` need to know.
  DeviceComm KernelView(const Communicator& comm) const;

  // The most blocks that a grid may have, such that the grids of all ranks on this device are resident together and
  // other kernels find room (P9).
  int MostBlocks() const;

  // Enqueues a kernel of this communicator. Outside a capture it follows the communicator's previous kernel, on
  // whichever stream that was. `params` is a DeviceComm from KernelView, or has one as `comm`.
  template <class Params>
  Status Launch(tcStream_t stream, const Grid& grid, Params& params) {
    return LaunchNext(stream, nullptr, {}, {grid, params.comm, &params});
  }
  Status Launch(tcStream_t stream, const Grid& grid, DeviceComm& comm) {
    return LaunchNext(stream, nullptr, {}, {grid, comm, &comm});
  }
  // The same for an epoch in three parts: a kernel, copies, a kernel.
  template <class Params>
  Status Launch(tcStream_t stream, const Grid& opening_grid, Params& opening, std::span<const CopyOnDevice> copies,
                const Grid& closing_grid, Params& closing) {
    const Kernel first{opening_grid, opening.comm, &opening};
    return LaunchNext(stream, &first, copies, {closing_grid, closing.comm, &closing});
  }

 private:
  CudaBackend(int device, bool vmm_disable) : device_(device), vmm_disable_(vmm_disable) {}
  Status Prepare();
  // Says in *apart which of the peers' devices this one cannot reach, if there is one.
  Status FindUnreachable(const std::vector<Neighbour>& ranks, std::string* apart) const;
  struct Kernel {
    const Grid& grid;
    DeviceComm& comm;  // a part of `params`
    void* params;
  };
  // Numbers the launch in both kernels' comm.
  Status LaunchNext(tcStream_t stream, const Kernel* opening, std::span<const CopyOnDevice> copies,
                    const Kernel& closing);
  Status LaunchGrid(tcStream_t stream, const Grid& grid, void* params) const;
  void CollectLongWait(Communicator& comm, int peer);
  void CollectRefusals(Communicator& comm);
  // Makes a stream wait for the launch of that number outside captures.
  Status Follow(tcStream_t stream, uint64_t launched);

  const int device_;
  const bool vmm_disable_;
  std::string uuid_;
  std::string arch_;
  int node_ = -1;  // the NUMA node that it is attached to; -1: unknown
  int multiprocessors_ = 0;
  int ranks_on_device_ = 1;
  bool starts_early_ = false;  // kernels that can do so are launched while the one before them ends
  bool stores_bulk_ = false;   // kernels were built or translated for a device with bulk stores
  bool prepared_ = false;
  std::shared_ptr<Service> service_;
  Report* report_ = nullptr;
  std::shared_ptr<Segment> report_memory_;  // the library's own: it is read while the process ends, when CUDA is gone
  WindowBases* windows_ = nullptr;          // kMaxWindows of them, in device memory
  std::mutex collecting_;                   // over the next
  struct PeerWait {
    uint32_t told = 0;
    Sequence epoch = 0;
    uint64_t warnings = 0;  // logged for that epoch
    bool left = false;      // at the last look
  };
  std::array<PeerWait, kMaxRanks> long_waits_;
  uint32_t refusals_lost_ = 0;
  std::mutex mutex_;  // over what follows
  uint64_t calls_ = 0;
  uint64_t launched_ = 0;               // of them, outside captures
  unsigned long long last_stream_ = 0;  // the id of the stream of the last of those
  LocalBlock* local_ = nullptr;         // of the rank whose operators were launched
  cudaStream_t own_stream_ = nullptr;   // made when first needed
};

}  // namespace tc::cuda
