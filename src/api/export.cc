#include "api/export.h"

#include <cstring>

#include "base/log.h"

namespace tc::api {
namespace {

std::string& MutableThreadError() {
  thread_local std::string sentence;
  return sentence;
}

}  // namespace

HandleTable<tcComm_t, Communicator>& Comms() {
  static auto* comms = new HandleTable<tcComm_t, Communicator>("communicator");
  return *comms;
}

HandleTable<tcWindow_t, WindowHandle>& WindowHandles() {
  static auto* windows = new HandleTable<tcWindow_t, WindowHandle>("window");
  return *windows;
}

const std::string& ThreadError() { return MutableThreadError(); }

tcResult_t Report(const char* function, const Status& status, Communicator* comm) {
  if (status.ok()) return tcSuccess;
  std::string sentence;
  if (comm != nullptr) sentence = comm->Who() + ": ";
  sentence += std::string(function) + ": " + status.sentence();
  if (comm != nullptr) comm->SetLastError(sentence);
  Log(tcLogError, "%s", sentence.c_str());
  MutableThreadError() = std::move(sentence);
  return status.code();
}

Status CheckOutput(const char* name, const void* ptr) {
  return ptr != nullptr ? Status()
                        : Error(tcInvalidArgument, "%s is NULL; it must point to where the result goes", name);
}

Status FindComm(tcComm_t handle, std::shared_ptr<Communicator>* comm) { return Comms().Find(handle, comm); }

}  // namespace tc::api
