#include "registry/registry.h"

#ifdef TC_HAVE_CUDA
#include "cuda/operators.h"
#endif
#include "host/operators.h"

namespace tc {
namespace {

constexpr uint32_t kAllTypes = (1u << (tcFloat8e5m2 + 1)) - 1;
constexpr uint32_t kReducedTypes = kAllTypes & ~(1u << tcFloat8e4m3 | 1u << tcFloat8e5m2);
constexpr uint32_t kGemmTypes = 1u << tcFloat32 | 1u << tcFloat16 | 1u << tcBfloat16;

#ifdef TC_HAVE_CUDA
template <tcPlane_t kPlane, class Problem, auto kLaunch>
Status OnPlane(const Launch& l) {
  return kLaunch(l.comm, l.stream, l.shape, std::get<Problem>(l.problem), l.slab, kPlane);
}
#endif

}  // namespace

const std::vector<KernelRow>& Registry() {
  static const auto* rows = new std::vector<KernelRow>{
      {"host_refusal", kOpRefusal, "host", kAllTypes, tcPlaneAuto,
       [](const Launch& l) { return host::LaunchRefusal(l.comm, l.stream, l.shape, std::get<Status>(l.problem)); }},
      {"host_barrier", tcOpBarrier, "host", kAllTypes, tcPlaneAuto,
       [](const Launch& l) { return host::LaunchBarrier(l.comm, l.stream, l.shape); }},
      {"host_all_gather_push", tcOpAllGather, "host", kAllTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllGather(l.comm, l.stream, l.shape, std::get<AllGatherProblem>(l.problem), l.slab);
       }},
      {"host_all_gather_v_push", tcOpAllGatherV, "host", kAllTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllGatherV(l.comm, l.stream, l.shape, std::get<AllGatherVProblem>(l.problem), l.slab);
       }},
      {"host_broadcast_push", tcOpBroadcast, "host", kAllTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllGatherV(l.comm, l.stream, l.shape, std::get<AllGatherVProblem>(l.problem), l.slab);
       }},
      {"host_reduce_scatter_push", tcOpReduceScatter, "host", kReducedTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchReduceScatter(l.comm, l.stream, l.shape, std::get<ReduceScatterProblem>(l.problem), l.slab);
       }},
      {"host_reduce_scatter_v_push", tcOpReduceScatterV, "host", kReducedTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchReduceScatter(l.comm, l.stream, l.shape, std::get<ReduceScatterProblem>(l.problem), l.slab);
       }},
      {"host_all_reduce_push", tcOpAllReduce, "host", kReducedTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllReduce(l.comm, l.stream, l.shape, std::get<AllReduceProblem>(l.problem), l.slab);
       }},
      {"host_all_to_all_push", tcOpAllToAll, "host", kAllTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllToAll(l.comm, l.stream, l.shape, std::get<AllToAllProblem>(l.problem), l.slab);
       }},
      {"host_all_to_all_v_push", tcOpAllToAllV, "host", kAllTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllToAll(l.comm, l.stream, l.shape, std::get<AllToAllProblem>(l.problem), l.slab);
       }},
      {"host_all_gather_gemm_push", tcOpAllGatherGemm, "host", kGemmTypes, tcPlanePush,
       [](const Launch& l) {
         return host::LaunchAllGatherGemm(l.comm, l.stream, l.shape, std::get<AllGatherGemmProblem>(l.problem), l.slab);
       }},
#ifdef TC_HAVE_CUDA
      {"cuda_refusal", kOpRefusal, "cuda", kAllTypes, tcPlaneAuto,
       [](const Launch& l) { return cuda::LaunchRefusal(l.comm, l.stream, l.shape, std::get<Status>(l.problem)); }},
      {"cuda_barrier", tcOpBarrier, "cuda", kAllTypes, tcPlaneAuto,
       [](const Launch& l) { return cuda::LaunchBarrier(l.comm, l.stream); }},
      {"cuda_all_gather_push", tcOpAllGather, "cuda", kAllTypes, tcPlanePush,
       OnPlane<tcPlanePush, AllGatherProblem, cuda::LaunchAllGather>},
      {"cuda_all_gather_pull", tcOpAllGather, "cuda", kAllTypes, tcPlanePull,
       OnPlane<tcPlanePull, AllGatherProblem, cuda::LaunchAllGather>},
      {"cuda_all_gather_v_push", tcOpAllGatherV, "cuda", kAllTypes, tcPlanePush,
       OnPlane<tcPlanePush, AllGatherVProblem, cuda::LaunchAllGatherV>},
      {"cuda_all_gather_v_pull", tcOpAllGatherV, "cuda", kAllTypes, tcPlanePull,
       OnPlane<tcPlanePull, AllGatherVProblem, cuda::LaunchAllGatherV>},
      {"cuda_broadcast_push", tcOpBroadcast, "cuda", kAllTypes, tcPlanePush,
       OnPlane<tcPlanePush, AllGatherVProblem, cuda::LaunchAllGatherV>},
      {"cuda_broadcast_pull", tcOpBroadcast, "cuda", kAllTypes, tcPlanePull,
       OnPlane<tcPlanePull, AllGatherVProblem, cuda::LaunchAllGatherV>},
      {"cuda_reduce_scatter_push", tcOpReduceScatter, "cuda", kReducedTypes, tcPlanePush,
       OnPlane<tcPlanePush, ReduceScatterProblem, cuda::LaunchReduceScatter>},
      {"cuda_reduce_scatter_pull", tcOpReduceScatter, "cuda", kReducedTypes, tcPlanePull,
       OnPlane<tcPlanePull, ReduceScatterProblem, cuda::LaunchReduceScatter>},
      {"cuda_reduce_scatter_v_push", tcOpReduceScatterV, "cuda", kReducedTypes, tcPlanePush,
       OnPlane<tcPlanePush, ReduceScatterProblem, cuda::LaunchReduceScatter>},
      {"cuda_reduce_scatter_v_pull", tcOpReduceScatterV, "cuda", kReducedTypes, tcPlanePull,
       OnPlane<tcPlanePull, ReduceScatterProblem, cuda::LaunchReduceScatter>},
      {"cuda_all_reduce_push", tcOpAllReduce, "cuda", kReducedTypes, tcPlanePush,
       OnPlane<tcPlanePush, AllReduceProblem, cuda::LaunchAllReduce>},
      {"cuda_all_reduce_pull", tcOpAllReduce, "cuda", kReducedTypes, tcPlanePull,
       OnPlane<tcPlanePull, AllReduceProblem, cuda::LaunchAllReduce>},
      {"cuda_all_to_all_push", tcOpAllToAll, "cuda", kAllTypes, tcPlanePush,
       OnPlane<tcPlanePush, AllToAllProblem, cuda::LaunchAllToAll>},
      {"cuda_all_to_all_pull", tcOpAllToAll, "cuda", kAllTypes, tcPlanePull,
       OnPlane<tcPlanePull, AllToAllProblem, cuda::LaunchAllToAll>},
      {"cuda_all_to_all_v_push", tcOpAllToAllV, "cuda", kAllTypes, tcPlanePush,
       OnPlane<tcPlanePush, AllToAllProblem, cuda::LaunchAllToAll>},
      {"cuda_all_to_all_v_pull", tcOpAllToAllV, "cuda", kAllTypes, tcPlanePull,
       OnPlane<tcPlanePull, AllToAllProblem, cuda::LaunchAllToAll>},
      {"cuda_all_gather_gemm_push", tcOpAllGatherGemm, "cuda", kGemmTypes, tcPlanePush,
       [](const Launch& l) {
         return cuda::LaunchAllGatherGemm(l.comm, l.stream, l.shape, std::get<AllGatherGemmProblem>(l.problem), l.slab,
                                          l.movers);
       }},
#endif
  };
  return *rows;
}

}  // namespace tc
