// What a communicator needs of the device its rank runs on. src/host/ and src/cuda/ implement it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/segment.h"
#include "comm/verification.h"
#include "tc.h"

namespace tc {

class Communicator;

enum class Memory {
  kDevice,  // what operators work on
  kHost,    // what both host threads and operators read and write
};

// What operators run on.
struct Chip {
  std::string arch;  // "sm_90"
  int sms = 0;
};
inline constexpr const char* kHostArch = "host";

// One rank's place among the others, as a backend sees it.
struct Neighbour {
  std::string device;  // Backend::identity()
  bool same_process;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual const char* name() const = 0;
  virtual int device() const = 0;
  // Whether its operators write packets to peers whose memory they reach.
  virtual bool sends_packets() const { return false; }
  // Which piece of hardware it is, the same from every process; empty when ranks of any process may share it.
  virtual std::string identity() const = 0;

  virtual Chip chip() const = 0;

  // Told once, when the ranks have met: all ranks in order, this one included. *apart: why this rank's device cannot
  // reach a peer's memory, as far as can be known now; left alone otherwise.
  virtual Status Meet(const std::vector<Neighbour>& ranks, std::string* apart) = 0;

  // Bit p: operators run on tcPlane_t p, besides host-staged.
  virtual uint32_t planes() const = 0;
  // All that it depends on whether this device reaches its peers' memory rightly, as text; "": it need not be verified.
  virtual std::string CheckKey() const = 0;
  // A step of a verification, done when it returns. Adds to *wrong whose data it found wrong.
  virtual Status RunCheck(const CheckStep& step, const CheckArea& area, RankSet* wrong) = 0;

  // Zeroed memory. `shared`: peers in other processes can map it.
  virtual Status Allocate(Memory memory, size_t bytes, bool shared, std::shared_ptr<Segment>* segment) = 0;
  // Another process's memory.
  virtual Status Import(Memory memory, const SegmentTicket& ticket, const UniqueFd& fd,
                        std::shared_ptr<Segment>* segment) = 0;
  // Makes memory of another rank of this process reachable from this rank.
  virtual Status Adopt(Memory memory, const Segment& segment) = 0;
  // Device memory that operators of this backend need for themselves, and where it lies: zeroed, for as long as the
  // backend lives. Placed before the first window.
  virtual size_t table_bytes() const = 0;
  virtual void PlaceTables(std::byte* tables) = 0;
  // Tells operators where window `index` lies, all ranks in order.
  virtual Status PlaceWindow(int64_t index, const std::vector<std::byte*>& bases) = 0;

  virtual Status CreateStream(tcStream_t* stream) = 0;
  virtual Status DestroyStream(tcStream_t stream) = 0;
  virtual Status SynchronizeStream(tcStream_t stream) = 0;
  virtual Status MemcpyAsync(void* dst, const void* src, size_t bytes, tcStream_t stream) = 0;

  // A stream of the communicator's own, for an operator whose caller's stream cannot be used.
  virtual Status OwnStream(tcStream_t* stream) = 0;

  // The communicator has ended: what was launched and has not entered its epoch does nothing. Does not wait, and may
  // run beside any other call.
  virtual void Stop() = 0;
  // Waits for every operator that was launched.
  virtual void Drain() = 0;
  // Hands what operators have reported since to `comm`: stalls, refusals, long waits. From any thread, also beside
  // running operators.
  virtual void Collect(Communicator& comm) = 0;
  // Brings the counters of `comm` up to date.
  virtual void Tally(Communicator& comm) = 0;

  // What the backend has reserved for its communicator beside what Allocate gave, on the device and on the host. From
  // any thread.
  virtual uint64_t memory_bytes() = 0;

  // Holds the result that ended the communicator; the device address is NULL where there is no device.
  virtual int32_t* error_word() = 0;
  virtual const int32_t* device_error_word() const = 0;
};

}  // namespace tc
