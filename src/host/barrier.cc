#include "host/backend.h"
#include "host/epoch.h"
#include "host/operators.h"
#include "order/shape.h"

namespace tc::host {

Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why) {
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [&comm, entry = EntryOfRefusal(shape, why)] {
    RunEpoch(comm, entry, OnlyMeet);
  });
}

Status LaunchBarrier(Communicator& comm, tcStream_t stream, const OperatorShape& shape) {
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [&comm, entry = EntryOfShape(shape)] {
    if (RunEpoch(comm, entry, OnlyMeet) == EpochEnd::kDone) ++comm.counters().ops;
  });
}

}  // namespace tc::host
