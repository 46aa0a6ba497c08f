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

constexpr uint32_t kAnyPlane = ~0u;
constexpr uint32_t kPush = 1u << tcPlanePush | 1u << tcPlaneHostStaged;  // host-staged is a push to host memory
#ifdef TC_HAVE_CUDA
constexpr uint32_t kEveryPlane = kPush | 1u << tcPlanePull | 1u << tcPlaneCopyEngine;
#endif

#ifdef TC_HAVE_CUDA
template <class Problem, auto kLaunch>
Status OnPlane(const Launch& l) {
  return kLaunch(l.comm, l.stream, l.shape, std::get<Problem>(l.problem), l.slab, l.plane);
}
#endif

}  // namespace

const std::vector<KernelRow>& Registry() {
  static const auto* rows = new std::vector<KernelRow>{
      {"host_refusal", kOpRefusal, "host", kAllTypes, kAnyPlane,
       [](const Launch& l) { return host::LaunchRefusal(l.comm, l.stream, l.shape, std::get<Status>(l.problem)); }},
      {"host_barrier", tcOpBarrier, "host", kAllTypes, kAnyPlane,
       [](const Launch& l) { return host::LaunchBarrier(l.comm, l.stream, l.shape); }},
      {"host_all_gather", tcOpAllGather, "host", kAllTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllGather(l.comm, l.stream, l.shape, std::get<AllGatherProblem>(l.problem), l.slab);
       }},
      {"host_all_gather_v", tcOpAllGatherV, "host", kAllTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllGatherV(l.comm, l.stream, l.shape, std::get<AllGatherVProblem>(l.problem), l.slab);
       }},
      {"host_broadcast", tcOpBroadcast, "host", kAllTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllGatherV(l.comm, l.stream, l.shape, std::get<AllGatherVProblem>(l.problem), l.slab);
       }},
      {"host_reduce_scatter", tcOpReduceScatter, "host", kReducedTypes, kPush,
       [](const Launch& l) {
         return host::LaunchReduceScatter(l.comm, l.stream, l.shape, std::get<ReduceScatterProblem>(l.problem), l.slab);
       }},
      {"host_reduce_scatter_v", tcOpReduceScatterV, "host", kReducedTypes, kPush,
       [](const Launch& l) {
         return host::LaunchReduceScatter(l.comm, l.stream, l.shape, std::get<ReduceScatterProblem>(l.problem), l.slab);
       }},
      {"host_all_reduce", tcOpAllReduce, "host", kReducedTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllReduce(l.comm, l.stream, l.shape, std::get<AllReduceProblem>(l.problem), l.slab);
       }},
      {"host_all_to_all", tcOpAllToAll, "host", kAllTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllToAll(l.comm, l.stream, l.shape, std::get<AllToAllProblem>(l.problem), l.slab);
       }},
      {"host_all_to_all_v", tcOpAllToAllV, "host", kAllTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllToAll(l.comm, l.stream, l.shape, std::get<AllToAllProblem>(l.problem), l.slab);
       }},
      {"host_all_gather_gemm", tcOpAllGatherGemm, "host", kGemmTypes, kPush,
       [](const Launch& l) {
         return host::LaunchAllGatherGemm(l.comm, l.stream, l.shape, std::get<AllGatherGemmProblem>(l.problem), l.slab);
       }},
#ifdef TC_HAVE_CUDA
      {"cuda_refusal", kOpRefusal, "cuda", kAllTypes, kAnyPlane,
       [](const Launch& l) { return cuda::LaunchRefusal(l.comm, l.stream, l.shape, std::get<Status>(l.problem)); }},
      {"cuda_barrier", tcOpBarrier, "cuda", kAllTypes, kAnyPlane,
       [](const Launch& l) { return cuda::LaunchBarrier(l.comm, l.stream); }},
      {"cuda_all_gather", tcOpAllGather, "cuda", kAllTypes, kEveryPlane,
       OnPlane<AllGatherProblem, cuda::LaunchAllGather>},
      {"cuda_all_gather_v", tcOpAllGatherV, "cuda", kAllTypes, kEveryPlane,
       OnPlane<AllGatherVProblem, cuda::LaunchAllGatherV>},
      {"cuda_broadcast", tcOpBroadcast, "cuda", kAllTypes, kEveryPlane,
       OnPlane<AllGatherVProblem, cuda::LaunchAllGatherV>},
      {"cuda_reduce_scatter", tcOpReduceScatter, "cuda", kReducedTypes, kEveryPlane,
       OnPlane<ReduceScatterProblem, cuda::LaunchReduceScatter>},
      {"cuda_reduce_scatter_v", tcOpReduceScatterV, "cuda", kReducedTypes, kEveryPlane,
       OnPlane<ReduceScatterProblem, cuda::LaunchReduceScatter>},
      {"cuda_all_reduce", tcOpAllReduce, "cuda", kReducedTypes, kEveryPlane,
       OnPlane<AllReduceProblem, cuda::LaunchAllReduce>},
      {"cuda_all_to_all", tcOpAllToAll, "cuda", kAllTypes, kEveryPlane, OnPlane<AllToAllProblem, cuda::LaunchAllToAll>},
      {"cuda_all_to_all_v", tcOpAllToAllV, "cuda", kAllTypes, kEveryPlane,
       OnPlane<AllToAllProblem, cuda::LaunchAllToAll>},
      {"cuda_all_gather_gemm", tcOpAllGatherGemm, "cuda", kGemmTypes, kEveryPlane,
       [](const Launch& l) {
         return cuda::LaunchAllGatherGemm(l.comm, l.stream, l.shape, std::get<AllGatherGemmProblem>(l.problem), l.slab,
                                          l.plane, l.movers);
       }},
#endif
  };
  return *rows;
}

}  // namespace tc
