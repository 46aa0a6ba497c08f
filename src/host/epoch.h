// The frame of every operator on the host: enter an epoch together with all ranks, do the work, leave it.
#pragma once

#include <chrono>
#include <string>

#include "base/function_ref.h"
#include "comm/communicator.h"
#include "protocol/layout.h"
#include "protocol/wait.h"

namespace tc::host {

// An operator's epoch as its body sees it.
struct Epoch {
  Communicator& comm;
  const OperatorShape& shape;
  Sequence number = 0;
  bool first = true;  // of its operator

  // Where `peer` wants this epoch's data.
  const Destination& destination(int peer) const;
};

enum class EpochEnd { kDone, kRefused, kDead };

// The epochs of one operator on `stream`, one after the other.
class Epochs {
 public:
  Epochs(Communicator& comm, tcStream_t stream) : comm_(comm), stream_(stream) {}

  // Publishes `mine`, waits until every rank has entered (bounded by entryTimeoutMs, from the second epoch on by
  // timeoutMs), and compares what they entered with. When all agree, calls `body`, whose threads each end with
  // LeaveEpoch; an error it returns ends the communicator. A rank that refused its call, or entered with another shape,
  // makes the operator fail on every rank alike, with no effect: the epoch is left without a body, and so are the
  // further epochs of the same operator.
  EpochEnd Run(const EntryRecord& mine, FunctionRef<Status(const Epoch&)> body);

 private:
  Communicator& comm_;
  const tcStream_t stream_;
  bool first_ = true;
};

// The body of an operator that only meets: barrier, refused calls.
Status OnlyMeet(const Epoch& epoch);

// tcInvalidUsage when a peer wants its data in a window that this rank had not registered when it made its call.
Status CheckDestinations(const Epoch& epoch, const Windows& windows);

// "rank 2: tcAllGather #41"
std::string Title(const Epoch& epoch);

// The error of a wait that did not end well: an abort, or a limit that ran out while waiting for `what`.
Status WaitError(const Epoch& epoch, WaitResult result, std::chrono::nanoseconds limit, const std::string& what);

}  // namespace tc::host
