#include <algorithm>

#include "base/data_type.h"
#include "ops/check.h"
#include "ops/issue.h"
#include "ops/operators.h"
#include "order/shape.h"
#include "plan/decide.h"
#include "plan/plan.h"

namespace tc {
namespace {

// The fields of tcGemmConfig_t that no kernel honours yet.
Status CheckOptions(const tcGemmConfig_t& config, tcDataType_t type) {
  const auto unsupported = [](const char* field) {
    return Error(tcUnsupported, "tcFusedAllGatherGemm does not do tcGemmConfig_t::%s yet; leave it at its default",
                 field);
  };
  if (config.bType != type) return unsupported("bType other than the operator's type");
  if (config.scaleMode != tcScaleNone || config.scaleA != nullptr || config.scaleB != nullptr ||
      config.scaleC != nullptr) {
    return unsupported("scaleA, scaleB, scaleC and scaleMode");
  }
  if (config.bias != nullptr) return unsupported("bias");
  if (config.residual != nullptr) return unsupported("residual");
  if (config.activation != tcActivationNone) return unsupported("activation");
  if (config.outType != type && config.outType != tcFloat32) {
    return unsupported("outType other than the operator's type and tcFloat32");
  }
  if (config.bLayout != tcBLayoutNK && config.bLayout != tcBLayoutKN) {
    return Error(tcInvalidArgument, "bLayout %d is no tcBLayout_t", config.bLayout);
  }
  if (config.commSMs < 0) return Error(tcInvalidArgument, "commSMs is %d; it must be 0 or more", config.commSMs);
  if (config.plane < tcPlaneAuto || config.plane > tcPlaneHostStaged) {
    return Error(tcInvalidArgument, "plane %d is no tcPlane_t", config.plane);
  }
  return {};
}

Status MakeShards(size_t m, const size_t* rows_per_rank, int n_ranks, Shards* shards) {
  if (rows_per_rank == nullptr) {
    *shards = EvenShards(m, n_ranks);
    return {};
  }
  size_t sum = 0;
  for (int rank = 0; rank < n_ranks; ++rank) {
    if (__builtin_add_overflow(sum, rows_per_rank[rank], &sum)) sum = SIZE_MAX;
    if (sum > m) break;
  }
  if (sum != m) {
    return Error(tcInvalidArgument, "rowsPerRank sums to %s%zu, m is %zu; they must be equal",
                 sum > m ? "at least " : "", sum, m);
  }
  *shards = GivenShards(rows_per_rank, n_ranks);
  return {};
}

Status CheckLeading(const char* name, size_t leading, size_t least) {
  if (leading >= least) return {};
  return Error(tcInvalidArgument, "%s is %zu, less than the %zu elements of a row", name, leading, least);
}

Status CheckMatrices(const AllGatherGemmProblem& problem, int rank) {
  const size_t m = problem.shards.total();
  const size_t m_rank = problem.shards.rows(rank);
  const bool nk = problem.b_layout == tcBLayoutNK;
  const size_t b_rows = nk ? problem.n : problem.k;
  const size_t b_cols = nk ? problem.k : problem.n;
  TC_RETURN_IF_ERROR(CheckLeading("lda", problem.lda, problem.k));
  TC_RETURN_IF_ERROR(CheckLeading("ldb", problem.ldb, b_cols));
  TC_RETURN_IF_ERROR(CheckLeading("ldc", problem.ldc, problem.n));
  TC_RETURN_IF_ERROR(CheckBytes("a", m, problem.lda, problem.type));
  TC_RETURN_IF_ERROR(CheckBytes("b", b_rows, problem.ldb, problem.type));
  TC_RETURN_IF_ERROR(CheckBytes("c", m, problem.ldc, problem.out_type));
  if (m == 0) return {};
  TC_RETURN_IF_ERROR(CheckBuffer("a", problem.a, m_rank * problem.k, problem.type));
  TC_RETURN_IF_ERROR(CheckBuffer("b", problem.b, problem.n * problem.k, problem.type));
  TC_RETURN_IF_ERROR(CheckBuffer("c", problem.c, m * problem.n, problem.out_type));
  if (problem.gathered != nullptr) {
    TC_RETURN_IF_ERROR(CheckBuffer("gatheredA", problem.gathered, m * problem.k, problem.type));
  }
  const auto bytes = [](size_t rows, size_t leading, size_t cols, tcDataType_t type) {
    return rows == 0 || cols == 0 ? 0 : ((rows - 1) * leading + cols) * ElementBytes(type);
  };
  const size_t a_bytes = bytes(m_rank, problem.lda, problem.k, problem.type);
  const size_t b_bytes = bytes(b_rows, problem.ldb, b_cols, problem.type);
  const size_t c_bytes = bytes(m, problem.ldc, problem.n, problem.out_type);
  const size_t gathered_bytes = problem.gathered != nullptr ? m * problem.k * ElementBytes(problem.type) : 0;
  if (Overlap(problem.c, c_bytes, problem.a, a_bytes) || Overlap(problem.c, c_bytes, problem.b, b_bytes) ||
      Overlap(problem.c, c_bytes, problem.gathered, gathered_bytes)) {
    return Error(tcInvalidArgument, "c overlaps a, b or gatheredA, which are read while c is written");
  }
  if (Overlap(problem.gathered, gathered_bytes, problem.b, b_bytes)) {
    return Error(tcInvalidArgument, "gatheredA overlaps b, which is read while gatheredA is written");
  }
  const std::byte* own =
      static_cast<std::byte*>(problem.gathered) + problem.shards.begin[rank] * problem.k * ElementBytes(problem.type);
  if (Overlap(problem.gathered, gathered_bytes, problem.a, a_bytes) && (problem.a != own || problem.lda != problem.k)) {
    return Error(tcInvalidArgument,
                 "a overlaps gatheredA but is not its own rows there (packed), which would be in place");
  }
  return {};
}

struct Prepared {
  AllGatherGemmProblem problem;
  const KernelRow* row = nullptr;
  tcPlane_t plane = tcPlanePush;
  int movers = 0;
  uint64_t slab_rows = 0;
};

// As the planner sees it. That a gathered a is wanted may be true on one rank alone, so no plan may depend on it.
PlanRequest ShapeOf(size_t m, size_t n, size_t k, tcDataType_t type) {
  PlanRequest shape;
  shape.op = tcOpAllGatherGemm;
  shape.type = type;
  shape.m = m;
  shape.n = n;
  shape.k = k;
  return shape;
}

// All that does not look at pointers: the same on every rank.
Status Prepare(size_t m, size_t n, size_t k, tcDataType_t type, const tcGemmConfig_t& config, const Communicator& comm,
               Prepared* prepared) {
  TC_RETURN_IF_ERROR(CheckType(type));
  AllGatherGemmProblem& problem = prepared->problem;
  problem.type = type;
  tcGemmConfig_t given = config;
  if (given.outType < 0) given.outType = type;
  if (given.bType < 0) given.bType = type;
  TC_RETURN_IF_ERROR(CheckOptions(given, type));
  Decision decision;
  TC_RETURN_IF_ERROR(Decide(ShapeOf(m, n, k, type), given.plane, comm, &decision));
  prepared->row = decision.row;
  prepared->plane = decision.plane;
  prepared->movers = given.commSMs > 0 ? given.commSMs : decision.comm_sms;
  if (k == 0) return Error(tcInvalidArgument, "k is 0; a product over nothing is not computed");
  TC_RETURN_IF_ERROR(MakeShards(m, given.rowsPerRank, comm.n_ranks(), &problem.shards));
  problem.n = n;
  problem.k = k;
  problem.lda = given.lda != 0 ? given.lda : k;
  problem.ldb = given.ldb != 0 ? given.ldb : given.bLayout == tcBLayoutNK ? k : n;
  problem.ldc = given.ldc != 0 ? given.ldc : n;
  problem.out_type = given.outType;
  problem.b_layout = given.bLayout;
  problem.alpha = given.alpha;
  problem.gathered = given.gatheredA;
  TC_RETURN_IF_ERROR(CheckBytes("a row of a, padded,", k, 16, type));
  TC_RETURN_IF_ERROR(CheckBytes("a", m, k, type));
  TC_RETURN_IF_ERROR(ChooseSlab(comm.settings().workspace_bytes, comm.n_ranks(), StagedPitch(k * ElementBytes(type)),
                                &prepared->slab_rows));
  prepared->slab_rows = std::min(prepared->slab_rows, MostGatedRows(comm.n_ranks()));
  return {};
}

}  // namespace

Status FusedAllGatherGemm(const void* a, const void* b, void* c, size_t m, size_t n, size_t k, tcDataType_t type,
                          const tcGemmConfig_t& config, Communicator& comm, tcStream_t stream) {
  Prepared prepared;
  Status checked = Prepare(m, n, k, type, config, comm, &prepared);
  AllGatherGemmProblem& problem = prepared.problem;
  problem.a = a;
  problem.b = b;
  problem.c = c;
  if (checked.ok()) checked = CheckMatrices(problem, comm.rank());
  const uint64_t detail = Digest(ShardDigest(problem.shards), static_cast<uint64_t>(config.plane));
  return Issue(checked, prepared.row,
               {.comm = comm,
                .stream = stream,
                .shape = {.op = tcOpAllGatherGemm, .type = type, .m = m, .n = n, .k = k, .detail = detail},
                .problem = problem,
                .plane = prepared.plane,
                .slab = prepared.slab_rows,
                .movers = prepared.movers});
}

Status OperatorSupported(const Communicator& comm, const tcOpDesc_t& desc) {
  if (desc.op == tcOpAllGatherGemm) {
    Prepared prepared;
    return Prepare(desc.m, desc.n, desc.k, desc.type, *desc.gemm, comm, &prepared);
  }
  if (desc.op < tcOpBarrier || desc.op > tcOpMoeCombine) {
    return Error(tcInvalidArgument, "op %d is no tcOp_t", desc.op);
  }
  if (desc.op > tcOpBarrier && desc.op <= tcOpAllToAllV) return CollectiveSupported(comm, desc);
  const tcDataType_t type = desc.op == tcOpBarrier ? tcInt8 : desc.type;
  TC_RETURN_IF_ERROR(CheckType(type));
  const KernelRow* row = nullptr;
  return ChooseKernel(desc.op, type, tcPlaneAuto, comm.backend().name(), &row);
}

Status ExplainOperator(const Communicator& comm, const tcOpDesc_t& desc, std::string* json) {
  TC_RETURN_IF_ERROR(OperatorSupported(comm, desc));
  if (desc.op == tcOpAllGatherGemm) {
    const PlanRequest shape = ShapeOf(desc.m, desc.n, desc.k, desc.type);
    return Explain(shape, desc.gemm->plane, desc.gemm->commSMs, comm, json);
  }
  PlanRequest shape;
  shape.op = desc.op;
  shape.type = desc.op == tcOpBarrier ? tcInt8 : desc.type;
  const bool uneven = desc.op >= tcOpAllGatherV && desc.op <= tcOpAllToAllV;
  shape.count = uneven ? kNominalBlockBytes / ElementBytes(shape.type) : desc.count;  // as PlanCollective
  return Explain(shape, tcPlaneAuto, 0, comm, json);
}

}  // namespace tc
