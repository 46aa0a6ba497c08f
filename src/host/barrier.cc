#include <algorithm>
#include <cstring>

#include "host/backend.h"
#include "host/epoch.h"
#include "host/operators.h"

namespace tc::host {

Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why) {
  EntryRecord record{};
  record.shape = shape;
  record.rejected = why.code();
  const size_t length = std::min(why.sentence().size(), sizeof(record.sentence) - 1);
  std::memcpy(record.sentence, why.sentence().data(), length);
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [&comm, record] {
    RunEpoch(comm, record, OnlyMeet);
  });
}

Status LaunchBarrier(Communicator& comm, tcStream_t stream, const OperatorShape& shape) {
  EntryRecord record{};
  record.shape = shape;
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [&comm, record] {
    if (RunEpoch(comm, record, OnlyMeet)) ++comm.counters().ops;
  });
}

}  // namespace tc::host
