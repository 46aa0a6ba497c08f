#include "plan/plan.h"

#include <algorithm>
#include <cstring>

#include "base/data_type.h"
#include "planes/copy_engine.h"
#include "protocol/gate.h"

namespace tc {

Status ChoosePlane(tcPlane_t asked, tcPlane_t agreed, tcPlane_t* plane) {
  if (asked == tcPlaneHostStaged && agreed != tcPlaneHostStaged) {
    return Error(
        tcUnsupported,
        "the host-staged plane needs host memory that is made at init; set TC_PLANE to host_staged, or leave the "
        "plane to tcPlaneAuto");
  }
  *plane = agreed == tcPlaneHostStaged || asked == tcPlaneAuto ? agreed : asked;
  if (*plane == tcPlaneAuto) *plane = tcPlanePush;
  return {};
}

Status ChooseKernel(tcOp_t op, tcDataType_t type, tcPlane_t plane, const char* backend, const KernelRow** row) {
  bool has_op = false;
  bool has_type = false;
  for (const KernelRow& candidate : Registry()) {
    if (candidate.op != op || std::strcmp(candidate.backend, backend) != 0) continue;
    has_op = true;
    if ((candidate.types >> type & 1) == 0) continue;
    has_type = true;
    if (plane != tcPlaneAuto && (candidate.planes >> plane & 1) == 0) continue;
    *row = &candidate;
    return {};
  }
  if (!has_op) return Error(tcUnsupported, "%s is not built yet for the %s backend", OpName(op), backend);
  if (!has_type) {
    return Error(tcUnsupported, "%s does not do %s on the %s backend", OpName(op), TypeName(type), backend);
  }
  return Error(tcUnsupported,
               "%s has no kernel for plane %d (%s) on the %s backend; leave the plane to tcPlaneAuto, and TC_PLANE to "
               "auto",
               OpName(op), plane, PlaneName(plane), backend);
}

uint64_t StagingBytes(uint64_t workspace_bytes, tcPlane_t plane) {
  return plane == tcPlaneCopyEngine ? FetchedHalf(workspace_bytes) : workspace_bytes;
}

Status ChooseSlab(size_t staging_bytes, int n_ranks, size_t unit_bytes, uint64_t* units) {
  if (n_ranks == 1) {
    *units = UINT64_MAX;  // nothing is staged
    return {};
  }
  *units = staging_bytes / n_ranks / unit_bytes;
  if (*units == 0) {
    return Error(tcUnsupported,
                 "the workspace can stage %zu bytes, too few for %d ranks with %zu each; set workspaceBytes or "
                 "TC_WORKSPACE_BYTES higher, by %zu or more",
                 staging_bytes, n_ranks, unit_bytes, unit_bytes * n_ranks - staging_bytes);
  }
  return {};
}

Status ChooseSlabBytes(size_t staging_bytes, int n_ranks, uint64_t* bytes) {
  constexpr size_t kUnit = 16;  // a multiple of every element
  TC_RETURN_IF_ERROR(ChooseSlab(staging_bytes, n_ranks, kUnit, bytes));
  if (n_ranks > 1) *bytes *= kUnit;
  return {};
}

bool ReducesInOneShot(size_t bytes, int n_ranks, size_t staging_bytes) {
  constexpr size_t kMost = size_t{128} << 10;  // to move from each rank, about what a second epoch costs
  return n_ranks == 1 || bytes <= std::min(kMost, staging_bytes) / n_ranks / 16 * 16;
}

uint64_t MostGatedRows(int n_ranks) { return static_cast<uint64_t>(kMaxRowBlocks) * kGateRows / n_ranks; }

}  // namespace tc
