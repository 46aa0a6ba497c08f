#include "plan/decide.h"

#include <algorithm>

#include "base/data_type.h"
#include "order/chunks.h"
#include "plan/explain.h"
#include "plan/plan.h"

namespace tc {
namespace {

constexpr size_t kMostChoices = 4096;  // of a communicator that are kept

bool IsFused(tcOp_t op) { return op >= tcOpAllGatherGemm; }

// What the planner is asked of an operator of this communicator.
PlanRequest RequestFor(PlanRequest shape, const Communicator& comm) {
  const uint64_t ranks = static_cast<uint64_t>(comm.n_ranks());
  const platform::FactTable& table = comm.facts().table;
  shape.ranks = comm.n_ranks();
  shape.gpu_of_rank = comm.facts().gpu_of_rank;
  shape.kernels = BuiltKernels(Registry(), shape.op, shape.type, comm.backend().name(), comm.settings().host_staged(),
                               table.gpu.arch);
  if (shape.op == tcOpAllGatherGemm) {
    shape.chunks = {ChunkRows((shape.m + ranks - 1) / ranks)};
  } else if (!IsFused(shape.op)) {
    shape.chunks = {DeviceChunkBytes(shape.count * ElementBytes(shape.type))};
  }
  return shape;
}

bool IsKnown(const PlanRequest& shape) {
  if (IsFused(shape.op)) return shape.m > 0 && shape.n > 0 && shape.k > 0;
  return shape.count > 0;
}

Communicator::PlaneChoice Choose(const PlanRequest& shape, const Communicator& comm) {
  const Communicator::OperatorKey key = {static_cast<uint64_t>(shape.op),
                                         static_cast<uint64_t>(shape.type),
                                         shape.count,
                                         shape.m,
                                         shape.n,
                                         shape.k,
                                         shape.local_hop};
  auto& choices = comm.choices();
  if (const auto found = choices.find(key); found != choices.end()) return found->second;
  Plan plan;
  Communicator::PlaneChoice choice;
  if (MakePlan(RequestFor(shape, comm), comm.facts().table, &plan).ok()) choice = ChoiceOf(plan);
  if (choices.size() >= kMostChoices) choices.clear();
  return choices[key] = choice;
}

std::string StagingOf(const Communicator& comm) {
  if (comm.n_ranks() == 1) return "none";
  return Format("%s is staged in a workspace of %zu bytes, shared by the blocks of %d ranks",
                comm.settings().host_staged() ? "everything" : "memory that is not registered (tcCommRegister)",
                comm.settings().workspace_bytes, comm.n_ranks());
}

std::string WhyLaunched(const Plan& plan, tcPlane_t asked, const Communicator& comm) {
  if (comm.n_ranks() == 1) return "one rank alone moves nothing";
  if (comm.settings().host_staged()) return "all data of this communicator goes through host memory";
  if (asked != tcPlaneAuto) return "the caller asks for this plane";
  if (comm.settings().plane != tcPlaneAuto) return "TC_PLANE asks for this plane";
  if (comm.facts().table.built_in && comm.usual_plane() != tcPlanePush) {
    return "the planes before it failed their verification";
  }
  if (comm.facts().table.built_in) return "no figures of this machine were given (TC_FACTS), so it is push as ever";
  if (plan.best().way == Way::kOne) return "the planner's choice";
  return "the planner's first choice, " + Describe(plan.best()) +
         ", is not launched by this library; this is the best of its own kernels";
}

}  // namespace

std::vector<PlannedKernel> BuiltKernels(const std::vector<KernelRow>& rows, tcOp_t op, tcDataType_t type,
                                        const std::string& backend, bool host_staged, const std::string& arch) {
  const uint32_t staged = 1u << tcPlaneHostStaged;
  std::vector<PlannedKernel> kernels;
  for (const KernelRow& row : rows) {
    if (row.op != op || row.backend != backend || (row.types >> type & 1) == 0) continue;
    PlannedKernel kernel{.name = row.name, .planes = row.planes & (host_staged ? staged : ~staged)};
    if (IsFused(op)) {
      for (const PlannedKernel& designed : DesignedKernels(arch)) {
        kernel.tile_m = std::max(kernel.tile_m, designed.tile_m);
        kernel.tile_n = std::max(kernel.tile_n, designed.tile_n);
      }
    }
    kernels.push_back(std::move(kernel));
  }
  return kernels;
}

Communicator::PlaneChoice ChoiceOf(const Plan& plan) {
  const auto own = std::find_if(plan.ranked.begin(), plan.ranked.end(),
                                [](const Candidate& candidate) { return candidate.way == Way::kOne; });
  if (own == plan.ranked.end()) return {};
  return {own->plane, own->comm_sms};
}

Status Decide(const PlanRequest& shape, tcPlane_t asked, const Communicator& comm, Decision* decision) {
  const platform::FactTable& table = comm.facts().table;
  TC_RETURN_IF_ERROR(ChoosePlane(asked, comm.settings().plane, &decision->plane));
  const bool open = asked == tcPlaneAuto && comm.settings().plane == tcPlaneAuto && comm.n_ranks() > 1;
  if (open) decision->plane = comm.usual_plane();
  if (open && !table.built_in && IsKnown(shape)) {
    const Communicator::PlaneChoice choice = Choose(shape, comm);
    if (choice.plane != tcPlaneAuto) decision->plane = choice.plane;
    if (IsFused(shape.op)) decision->comm_sms = choice.comm_sms;
  }
  TC_RETURN_IF_ERROR(comm.MayUse(decision->plane));
  const auto& failed = table.failed_planes;
  if (comm.n_ranks() > 1 && std::find(failed.begin(), failed.end(), decision->plane) != failed.end()) {
    return Error(tcUnsupported, "plane %s failed its verification, as the fact table %s says; leave the plane to auto",
                 PlaneName(decision->plane), table.name.c_str());
  }
  return ChooseKernel(shape.op, shape.type, decision->plane, comm.backend().name(), &decision->row);
}

Status Explain(const PlanRequest& shape, tcPlane_t asked, int asked_sms, const Communicator& comm, std::string* json) {
  Decision decision;
  TC_RETURN_IF_ERROR(Decide(shape, asked, comm, &decision));
  PlanRequest request = RequestFor(shape, comm);
  request.plane = asked != tcPlaneAuto ? asked : comm.settings().plane;
  request.comm_sms = asked_sms;
  Plan plan;
  TC_RETURN_IF_ERROR(MakePlan(request, comm.facts().table, &plan));
  const Launches launches{.kernel = decision.row->name,
                          .plane = decision.plane,
                          .comm_sms = asked_sms > 0 ? asked_sms : decision.comm_sms,
                          .why = WhyLaunched(plan, asked, comm),
                          .staging = StagingOf(comm)};
  *json = ToJson(request, comm.facts().table, plan, launches);
  return {};
}

}  // namespace tc
