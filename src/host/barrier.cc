#include "host/backend.h"
#include "host/epoch.h"
#include "host/operators.h"
#include "order/shape.h"

namespace tc::host {

Status LaunchRefusal(Communicator& comm, tcStream_t stream, const OperatorShape& shape, const Status& why) {
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm, entry = EntryOfRefusal(shape, why)] {
    Epochs(comm, stream).Run(entry, [](const Epoch& epoch) { return OnlyMeet(epoch); });
  });
}

Status LaunchBarrier(Communicator& comm, tcStream_t stream, const OperatorShape& shape) {
  return static_cast<HostBackend&>(comm.backend()).Launch(stream, [=, &comm] {
    const auto meet = [](const Epoch& epoch) { return OnlyMeet(epoch); };
    if (Epochs(comm, stream).Run(EntryOfShape(shape), meet) == EpochEnd::kDone) ++comm.counters().ops;
  });
}

}  // namespace tc::host
