#include "api/export.h"

#include <cstring>

#include "base/log.h"

namespace tc::api {
namespace {

// Plain arrays: they outlive every destructor, so that a call from an atexit handler still finds them.
struct Sentence {
  char text[2048];

  void Set(const std::string& sentence) { text[sentence.copy(text, sizeof(text) - 1)] = '\0'; }
};
thread_local Sentence thread_error{};
thread_local Sentence lent{};

}  // namespace

HandleTable<tcComm_t, Communicator>& Comms() {
  static auto* comms = new HandleTable<tcComm_t, Communicator>("communicator");
  return *comms;
}

HandleTable<tcWindow_t, WindowHandle>& WindowHandles() {
  static auto* windows = new HandleTable<tcWindow_t, WindowHandle>("window");
  return *windows;
}

const char* ThreadError() { return thread_error.text; }

const char* Lend(const std::string& sentence) {
  lent.Set(sentence);
  return lent.text;
}

tcResult_t Report(const char* function, const Status& status, Communicator* comm) {
  if (status.ok()) return tcSuccess;
  std::string sentence;
  if (comm != nullptr) sentence = comm->Who() + ": ";
  sentence += std::string(function) + ": " + status.sentence();
  if (comm != nullptr) comm->SetLastError(sentence);
  Log(tcLogError, "%s", sentence.c_str());
  thread_error.Set(sentence);
  return status.code();
}

tcResult_t Handed(const Status& status) {
  if (!status.ok()) thread_error.Set(status.sentence());
  return status.code();
}

Status CheckOutput(const char* name, const void* ptr) {
  return ptr != nullptr ? Status()
                        : Error(tcInvalidArgument, "%s is NULL; it must point to where the result goes", name);
}

Status FindComm(tcComm_t handle, std::shared_ptr<Communicator>* comm) { return Comms().Find(handle, comm); }

}  // namespace tc::api
