// Mixture of experts and tuning: part of the ABI from the first day, not built yet.
#include "api/export.h"

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

namespace {

tcResult_t NotBuiltYet(const char* function) {
  return Report(function, Error(tcUnsupported, "not built yet in version %d.%d.%d", TC_MAJOR, TC_MINOR, TC_PATCH));
}

}  // namespace

TC_EXPORT(tcResult_t, tcMoeCreate, (tcMoe_t * moe, const tcMoeConfig_t*, tcComm_t)) {
  if (moe != nullptr) *moe = nullptr;
  return NotBuiltYet("tcMoeCreate");
}

TC_EXPORT(tcResult_t, tcMoeDestroy, (tcMoe_t)) { return NotBuiltYet("tcMoeDestroy"); }

TC_EXPORT(tcResult_t, tcMoeMemorySize, (const tcMoeConfig_t*, tcComm_t, size_t*)) {
  return NotBuiltYet("tcMoeMemorySize");
}

TC_EXPORT(tcResult_t, tcMoeDispatch, (tcMoe_t, const tcMoeDispatchArgs_t*, tcMoeRecv_t*, tcStream_t)) {
  return NotBuiltYet("tcMoeDispatch");
}

TC_EXPORT(tcResult_t, tcMoeCombine, (tcMoe_t, const tcMoeCombineArgs_t*, tcStream_t)) {
  return NotBuiltYet("tcMoeCombine");
}

TC_EXPORT(tcResult_t, tcTune, (tcComm_t, const tcOpDesc_t*, size_t, tcStream_t)) { return NotBuiltYet("tcTune"); }
