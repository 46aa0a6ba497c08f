// How a function of tc.h is defined, and how it reports.
#pragma once

#include "base/handle_table.h"
#include "base/no_throw.h"
#include "base/status.h"
#include "comm/communicator.h"
#include "tc.h"

// Defines ptcName with the body that follows, and tcName as its weak alias.
#define TC_EXPORT(result, name, parameters)                                                         \
  extern "C" __attribute__((visibility("default"))) result p##name parameters;                      \
  extern "C" __attribute__((visibility("default"), weak, alias("p" #name))) result name parameters; \
  result p##name parameters

namespace tc::api {

HandleTable<tcComm_t, Communicator>& Comms();

// A window that a user holds: which communicator's, and which of its windows.
struct WindowHandle {
  tcComm_t comm;
  int64_t index;
};
HandleTable<tcWindow_t, WindowHandle>& WindowHandles();

// Keeps an error's sentence for tcGetLastError, logs it, and returns its code. `function` names the entry point.
tcResult_t Report(const char* function, const Status& status, Communicator* comm = nullptr);

// The same for an error that the communicator has logged and kept already.
tcResult_t Handed(const Status& status);

// The thread's last sentence.
const char* ThreadError();

// Keeps a sentence for the caller until the thread's next call.
const char* Lend(const std::string& sentence);

// tcInvalidArgument for an output argument that is NULL.
Status CheckOutput(const char* name, const void* ptr);

// A live communicator, or the reason why it is none.
Status FindComm(tcComm_t handle, std::shared_ptr<Communicator>* comm);

// Calls act(communicator) for a live communicator and reports what it returns.
template <class Act>
tcResult_t WithComm(const char* function, tcComm_t handle, const Act& act) {
  std::shared_ptr<Communicator> comm;
  if (const Status found = FindComm(handle, &comm); !found.ok()) return Report(function, found);
  return Report(function, NoThrow([&]() -> Status { return act(*comm); }), comm.get());
}

}  // namespace tc::api
