// What would be launched for an operator, and why.
#include "api/export.h"
#include "api/json_text.h"
#include "api/structs.h"
#include "ops/operators.h"

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

namespace {

// act(the communicator, the complete description)
template <class Act>
tcResult_t WithDesc(const char* function, tcComm_t comm, const tcOpDesc_t* desc, const Act& act) {
  return WithComm(function, comm, [&](Communicator& found) {
    if (desc == nullptr) return Error(tcInvalidArgument, "desc is NULL");
    tcOpDesc_t complete{};
    TC_RETURN_IF_ERROR(ReadStruct("desc", desc, &complete));
    tcGemmConfig_t gemm = DefaultGemmConfig();
    TC_RETURN_IF_ERROR(ReadStruct("desc->gemm", complete.gemm, &gemm));
    complete.gemm = &gemm;
    return act(found, complete);
  });
}

}  // namespace

TC_EXPORT(tcResult_t, tcOpSupported, (tcComm_t comm, const tcOpDesc_t* desc)) {
  return WithDesc("tcOpSupported", comm, desc, OperatorSupported);
}

TC_EXPORT(tcResult_t, tcExplain, (tcComm_t comm, const tcOpDesc_t* desc, char* json, size_t* bytes)) {
  return WithDesc("tcExplain", comm, desc, [&](const Communicator& found, const tcOpDesc_t& complete) {
    std::string text;
    TC_RETURN_IF_ERROR(ExplainOperator(found, complete, &text));
    return WriteText(text, json, bytes);
  });
}
