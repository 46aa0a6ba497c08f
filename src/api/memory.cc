// Memory, windows, streams.
#include "api/export.h"
#include "api/group.h"
#include "api/settings.h"
#include "comm/allocation.h"

namespace tc::api {
namespace {

Status Allocate(void** ptr, size_t bytes) {
  TC_RETURN_IF_ERROR(CheckOutput("ptr", ptr));
  *ptr = nullptr;
  if (bytes == 0) return {};
  Env env;
  TC_RETURN_IF_ERROR(ReadEnv(&env));
  tcBackend_t backend = tcBackendHost;
  TC_RETURN_IF_ERROR(ChooseBackend(tcBackendAuto, env, &backend));
  std::shared_ptr<Segment> segment;
  TC_RETURN_IF_ERROR(AllocateShareable(backend, bytes, env, &segment));
  *ptr = segment->base();
  Allocations::Instance().Add(std::move(segment));
  return {};
}

}  // namespace
}  // namespace tc::api

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

TC_EXPORT(tcResult_t, tcMemAlloc, (void** ptr, size_t bytes)) {
  return Report("tcMemAlloc", NoThrow([&] { return Allocate(ptr, bytes); }));
}

TC_EXPORT(tcResult_t, tcMemFree, (void* ptr)) {
  return ptr == nullptr ? tcSuccess : Report("tcMemFree", Allocations::Instance().Remove(ptr));
}

TC_EXPORT(tcResult_t, tcCommRegister, (tcComm_t comm, void* ptr, size_t bytes, tcWindow_t* window)) {
  std::shared_ptr<Communicator> found;
  if (const Status bad = FindComm(comm, &found); !bad.ok()) return Refuse("tcCommRegister", bad);
  const Status checked = CheckOutput("window", window);  // the other ranks are told: they have made the call, too
  if (checked.ok()) *window = nullptr;
  return Collective("tcCommRegister", found, [=] {
    std::shared_ptr<const Window> made;
    TC_RETURN_IF_ERROR(found->Register(checked, ptr, bytes, &made));
    *window = WindowHandles().Add(std::make_shared<WindowHandle>(WindowHandle{comm, made->index}));
    return Status();
  });
}

TC_EXPORT(tcResult_t, tcCommDeregister, (tcComm_t comm, tcWindow_t window)) {
  std::shared_ptr<Communicator> found;
  std::shared_ptr<WindowHandle> handle;
  if (const Status bad = FindComm(comm, &found); !bad.ok()) return Refuse("tcCommDeregister", bad);
  Status checked = WindowHandles().Find(window, &handle);
  if (checked.ok() && handle->comm != comm) {
    checked = Error(tcInvalidArgument, "the window was registered with another communicator");
  }
  return Collective("tcCommDeregister", found, [=] {
    TC_RETURN_IF_ERROR(found->Deregister(checked, checked.ok() ? handle->index : -1));
    std::shared_ptr<WindowHandle> removed;
    return WindowHandles().Remove(window, &removed);
  });
}

TC_EXPORT(tcResult_t, tcStreamCreate, (tcComm_t comm, tcStream_t* stream)) {
  return WithComm("tcStreamCreate", comm, [&](Communicator& found) {
    TC_RETURN_IF_ERROR(CheckOutput("stream", stream));
    return found.backend().CreateStream(stream);
  });
}

TC_EXPORT(tcResult_t, tcStreamDestroy, (tcComm_t comm, tcStream_t stream)) {
  return WithComm("tcStreamDestroy", comm, [&](Communicator& found) { return found.backend().DestroyStream(stream); });
}

TC_EXPORT(tcResult_t, tcStreamSynchronize, (tcComm_t comm, tcStream_t stream)) {
  std::shared_ptr<Communicator> found;
  Status status = FindComm(comm, &found);
  if (status.ok()) status = found->backend().SynchronizeStream(stream);
  if (!status.ok()) return Report("tcStreamSynchronize", status, found.get());
  return Handed(found->TakeAsyncError(stream));
}

TC_EXPORT(tcResult_t, tcMemcpyAsync, (tcComm_t comm, void* dst, const void* src, size_t bytes, tcStream_t stream)) {
  return WithComm("tcMemcpyAsync", comm, [&](Communicator& found) {
    if (bytes == 0) return Status();
    if (dst == nullptr || src == nullptr) {
      return Error(tcInvalidArgument, "%s is NULL", dst == nullptr ? "dst" : "src");
    }
    return found.backend().MemcpyAsync(dst, src, bytes, stream);
  });
}
