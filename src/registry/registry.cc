#include "registry/registry.h"

#include "host/operators.h"

namespace tc {
namespace {

constexpr uint32_t kAllTypes = (1u << (tcFloat8e5m2 + 1)) - 1;
constexpr uint32_t kGemmTypes = 1u << tcFloat32 | 1u << tcFloat16 | 1u << tcBfloat16;

}  // namespace

const std::vector<KernelRow>& Registry() {
  static const std::vector<KernelRow> rows = {
      {"host_refusal", kOpRefusal, "host", kAllTypes, tcPlaneAuto,
       [](const Launch& l) { return host::LaunchRefusal(l.comm, l.stream, l.shape, std::get<Status>(l.problem)); }},
      {"host_barrier", tcOpBarrier, "host", kAllTypes, tcPlaneAuto,
       [](const Launch& l) { return host::LaunchBarrier(l.comm, l.stream, l.shape); }},
      {"host_all_gather_push", tcOpAllGather, "host", kAllTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllGather(l.comm, l.stream, l.shape, std::get<AllGatherProblem>(l.problem), l.slab);
       }},
      {"host_all_gather_gemm_push", tcOpAllGatherGemm, "host", kGemmTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllGatherGemm(l.comm, l.stream, l.shape, std::get<AllGatherGemmProblem>(l.problem), l.slab);
       }},
  };
  return rows;
}

}  // namespace tc
