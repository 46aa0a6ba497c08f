// Mixture of experts and planner: part of the ABI from the first day, not built yet. And tcOpSupported, which says so.
#include "api/export.h"
#include "api/structs.h"
#include "ops/operators.h"

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

TC_EXPORT(tcResult_t, tcExplain, (tcComm_t, const tcOpDesc_t*, char*, size_t*)) { return NotBuiltYet("tcExplain"); }

TC_EXPORT(tcResult_t, tcOpSupported, (tcComm_t comm, const tcOpDesc_t* desc)) {
  return WithComm("tcOpSupported", comm, [&](Communicator& found) {
    if (desc == nullptr) return Error(tcInvalidArgument, "desc is NULL");
    tcOpDesc_t complete{};
    TC_RETURN_IF_ERROR(ReadStruct("desc", desc, &complete));
    tcGemmConfig_t gemm = DefaultGemmConfig();
    TC_RETURN_IF_ERROR(ReadStruct("desc->gemm", complete.gemm, &gemm));
    complete.gemm = &gemm;
    return OperatorSupported(found, complete);
  });
}
