// What a communicator is and how it fares.
#include "api/export.h"
#include "api/structs.h"
#include "base/log.h"

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

TC_EXPORT(const char*, tcGetErrorString, (tcResult_t result)) {
  switch (result) {
    case tcSuccess:
      return "no error";
    case tcUnhandledCudaError:
      return "a CUDA call failed";
    case tcSystemError:
      return "a system call failed";
    case tcInternalError:
      return "internal error: please report it";
    case tcInvalidArgument:
      return "invalid argument";
    case tcInvalidUsage:
      return "invalid usage";
    case tcRemoteError:
      return "another rank failed or is gone";
    case tcInProgress:
      return "in progress";
    case tcTimeout:
      return "a wait exceeded its time limit";
    case tcAborted:
      return "the communicator was aborted";
    case tcUnsupported:
      return "not supported";
    default:
      return "unknown result code";
  }
}

TC_EXPORT(const char*, tcGetLastError, (tcComm_t comm)) {
  if (comm == nullptr) return ThreadError();
  std::shared_ptr<Communicator> found;
  const Status status = FindComm(comm, &found);
  return Lend(status.ok() ? found->last_error() : status.sentence());
}

TC_EXPORT(tcResult_t, tcCommGetAsyncError, (tcComm_t comm, tcResult_t* result)) {
  return WithComm("tcCommGetAsyncError", comm, [&](Communicator& found) {
    TC_RETURN_IF_ERROR(CheckOutput("result", result));
    *result = Handed(found.TakeAsyncError());
    return Status();
  });
}

TC_EXPORT(tcResult_t, tcCommGetErrorWord, (tcComm_t comm, const volatile int32_t** host, const int32_t** device)) {
  return WithComm("tcCommGetErrorWord", comm, [&](Communicator& found) {
    if (host != nullptr) *host = found.backend().error_word();
    if (device != nullptr) *device = found.backend().device_error_word();
    return Status();
  });
}

TC_EXPORT(tcResult_t, tcCommCount, (tcComm_t comm, int* count)) {
  return WithComm("tcCommCount", comm, [&](Communicator& found) {
    TC_RETURN_IF_ERROR(CheckOutput("count", count));
    *count = found.n_ranks();
    return Status();
  });
}

TC_EXPORT(tcResult_t, tcCommRank, (tcComm_t comm, int* rank)) {
  return WithComm("tcCommRank", comm, [&](Communicator& found) {
    TC_RETURN_IF_ERROR(CheckOutput("rank", rank));
    *rank = found.rank();
    return Status();
  });
}

TC_EXPORT(tcResult_t, tcCommDevice, (tcComm_t comm, int* device)) {
  return WithComm("tcCommDevice", comm, [&](Communicator& found) {
    TC_RETURN_IF_ERROR(CheckOutput("device", device));
    *device = found.backend().device();
    return Status();
  });
}

TC_EXPORT(tcResult_t, tcCommGetStats, (tcComm_t comm, tcCommStats_t* stats)) {
  return WithComm("tcCommGetStats", comm, [&](Communicator& found) {
    const Communicator::Counters& counters = found.Tally();
    tcCommStats_t now{};
    now.ops = counters.ops;
    now.bytesSent = counters.bytes_sent;
    now.bytesReceived = counters.bytes_received;
    now.memoryBytes = found.memory_bytes();
    now.windowBytes = counters.window_bytes;
    for (int peer = 0; peer < kMaxRanks; ++peer) now.waitUs[peer] = counters.wait_ns[peer] / 1000;
    return WriteStruct("stats", now, stats);
  });
}

TC_EXPORT(tcResult_t, tcSetLogCallback, (void (*callback)(int level, const char* message, void* user), void* user)) {
  SetLogCallback(callback, user);
  return tcSuccess;
}
