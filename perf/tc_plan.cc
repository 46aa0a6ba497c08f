// Says which plane, kernel and SMs an operator would use on a machine that somebody has the fact table of.
#include <cstdio>
#include <iostream>

#include "base/data_type.h"
#include "failure.h"
#include "options.h"
#include "plan/explain.h"
#include "plan/planner.h"

namespace tc::perf {
namespace {

constexpr const char* kProgram = "tc_plan";

constexpr const char* kExamples =
    "A size is a whole number; 4K is 4096, 1M is 1048576. Without --facts, or when the file cannot be used, a "
    "built-in\n"
    "model answers. Exit code: 0 a plan, 1 an operator that cannot be planned, 2 a command line that cannot be read.\n"
    "\n"
    "  tc_plan --facts rtx-pro-5000-x4.json --op allgather_gemm -M 8K -N 14336 -K 4K --ranks 4\n"
    "  tc_plan --facts h200-x2.json --op allgather_gemm -M 512K -N 8K -K 8K --ranks 16 --nodes 64 --json\n"
    "  tc_plan --op allreduce -c 4K -d float --ranks 8\n";

struct NamedOperator {
  const char* name;
  tcOp_t op;
  bool gemm;
};
constexpr NamedOperator kOperators[] = {
    {"allgather_gemm", tcOpAllGatherGemm, true},
    {"gemm_reducescatter", tcOpGemmReduceScatter, true},
    {"gemm_allreduce", tcOpGemmAllReduce, true},
    {"allgather", tcOpAllGather, false},
    {"reducescatter", tcOpReduceScatter, false},
    {"allreduce", tcOpAllReduce, false},
    {"broadcast", tcOpBroadcast, false},
    {"alltoall", tcOpAllToAll, false},
    {"barrier", tcOpBarrier, false},
};

struct PlanOptions {
  PlanRequest request;
  platform::FactTable table;
  std::string warning;
  bool json = false;
  bool all = false;
};

const NamedOperator& ParseOperator(const std::string& text) {
  std::string names;
  for (const NamedOperator& named : kOperators) {
    if (text == named.name) return named;
    names += std::string(names.empty() ? "" : ", ") + named.name;
  }
  throw Failure("--op: '" + text + "' is no operator; there are " + names + ".");
}

tcDataType_t ParseType(const std::string& text) {
  std::string names;
  for (tcDataType_t type = tcInt8; type <= tcFloat8e5m2; ++type) {
    if (text == TypeName(type)) return type;
    names += std::string(names.empty() ? "" : ", ") + TypeName(type);
  }
  throw Failure("-d/--datatype: '" + text + "' is not a type; there are " + names + ".");
}

tcPlane_t ParsePlane(const std::string& option, const std::string& text) {
  for (tcPlane_t plane = tcPlaneAuto; plane <= tcPlaneHostStaged; ++plane) {
    if (text == PlaneName(plane)) return plane;
  }
  throw Failure(option + ": '" + text + "' is no plane; there are push, pull, copy_engine and host_staged.");
}

platform::MachineKind BuiltInKind(const std::string& name, int ranks) {
  platform::MachineKind kind;
  const bool nvlink = name == "nvlink";
  if (!nvlink && name != "pcie") throw Failure("--built-in: '" + name + "' is no model; there are pcie and nvlink.");
  kind.arch = nvlink ? "sm_90" : "sm_120";
  kind.sms = nvlink ? 132 : 110;
  const auto n = static_cast<size_t>(ranks);
  kind.paths.assign(n, std::vector<std::string>(n, nvlink ? "NV18" : "NODE"));
  for (size_t i = 0; i < n; ++i) kind.paths[i][i] = "X";
  return kind;
}

class PlanOptionsParser {
 public:
  explicit PlanOptionsParser(CLI::App& app) {
    app.add_option("--facts", facts_, "The machine's fact table")->type_name("FILE");
    app.add_option("--built-in", built_in_, "The model where there is no table")
        ->type_name("pcie|nvlink")
        ->capture_default_str();
    app.add_option("--op", op_,
                   "allgather_gemm, gemm_reducescatter, gemm_allreduce, allgather, reducescatter, "
                   "allreduce, broadcast, alltoall or barrier")
        ->type_name("NAME")
        ->required();
    m_option_ = app.add_option("-M", m_, "Rows of all ranks together")->type_name("SIZE");
    n_option_ = app.add_option("-N", n_, "Columns of c on every rank")->type_name("SIZE");
    k_option_ = app.add_option("-K", k_, "The summed dimension on every rank")->type_name("SIZE");
    count_option_ = app.add_option("-c,--count", count_, "Of a plain collective: elements, as its function takes them")
                        ->type_name("SIZE");
    app.add_option("-d,--datatype", type_, "Element type")->type_name("TYPE")->capture_default_str();
    app.add_option("-r,--ranks", ranks_, "Ranks of one node")->type_name("N")->capture_default_str();
    app.add_option("--nodes", nodes_, "Nodes with as many ranks each; NCCL between them")
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--gpus", gpus_, "Which of the table's GPUs the ranks have, in their order")->type_name("LIST");
    app.add_option("--plane", plane_, "Consider this plane alone")->type_name("PLANE")->capture_default_str();
    app.add_option("--comm-sms", comm_sms_, "SMs that move data; 0: whatever is best")
        ->type_name("N")
        ->capture_default_str();
    app.add_option("--failed", failed_, "Planes whose verification failed")->type_name("LIST");
    app.add_flag(
        "--local-hop", values_.request.local_hop,
        "What is pushed has to be moved once more by its receiver: a gathered a that is wanted in memory which "
        "is not registered");
    app.add_flag("-a,--all", values_.all, "Every candidate, not only the best of each way and plane");
    app.add_flag("--json", values_.json, "JSON");
  }

  PlanOptions Values() {
    PlanRequest& request = values_.request;
    const NamedOperator& named = ParseOperator(op_);
    request.op = named.op;
    request.type = ParseType(type_);
    request.ranks = static_cast<int>(ParseInteger("-r/--ranks", ranks_, 1, platform::kMostGpus));
    request.nodes = static_cast<int>(ParseInteger("--nodes", nodes_, 1, 1 << 16));
    request.comm_sms = static_cast<int>(ParseInteger("--comm-sms", comm_sms_, 0, 1024));
    request.plane = ParsePlane("--plane", plane_);
    const size_t extents = m_option_->count() + n_option_->count() + k_option_->count();
    if (named.gemm ? extents != 3 || count_option_->count() > 0 : extents > 0) {
      throw Failure(op_ + (named.gemm ? " needs -M, -N and -K, and no -c." : " takes -c, and no -M, -N or -K."));
    }
    if (named.gemm) {
      request.m = ParseSize("-M", m_);
      request.n = ParseSize("-N", n_);
      request.k = ParseSize("-K", k_);
    } else if (named.op != tcOpBarrier) {
      if (count_option_->count() == 0) throw Failure(op_ + " needs -c.");
      request.count = ParseSize("-c/--count", count_);
    }
    values_.table = platform::FactsOrBuiltIn(facts_, BuiltInKind(built_in_, request.ranks), &values_.warning);
    if (!gpus_.empty()) ReadGpus();
    if (failed_.empty()) return values_;
    for (const std::string& plane : SplitList("--failed", failed_, ',')) {
      request.failed[ParsePlane("--failed", plane)] = "as --failed says";
    }
    return values_;
  }

 private:
  void ReadGpus() {
    for (const std::string& gpu : SplitList("--gpus", gpus_, ',')) {
      const auto most = static_cast<uint64_t>(values_.table.gpus - 1);
      values_.request.gpu_of_rank.push_back(static_cast<int>(ParseInteger("--gpus", gpu, 0, most)));
    }
    if (values_.request.gpu_of_rank.size() != static_cast<size_t>(values_.request.ranks)) {
      throw Failure("--gpus names " + std::to_string(values_.request.gpu_of_rank.size()) + " GPUs for " +
                    std::to_string(values_.request.ranks) + " ranks.");
    }
  }

  PlanOptions values_;
  std::string facts_, built_in_ = "pcie", op_, m_, n_, k_, count_, type_ = "bfloat16", ranks_ = "2", nodes_ = "1";
  std::string gpus_, plane_ = "auto", comm_sms_ = "0", failed_;
  CLI::Option* m_option_ = nullptr;
  CLI::Option* n_option_ = nullptr;
  CLI::Option* k_option_ = nullptr;
  CLI::Option* count_option_ = nullptr;
};

std::variant<PlanOptions, EarlyExit> ParsePlanOptions(int argc, const char* const* argv) {
  CLI::App app("Plans an operator on a machine by its fact table: the choice, the alternatives, and why.", kProgram);
  app.footer(kExamples);
  PlanOptionsParser parser(app);
  return ParseCommandLine(kProgram, app, argc, argv, [&] { return parser.Values(); });
}

int Main(int argc, const char* const* argv) {
  const auto parsed = ParsePlanOptions(argc, argv);
  if (const auto* exit = std::get_if<EarlyExit>(&parsed)) {
    (exit->exit_code == 0 ? std::cout : std::cerr) << exit->text;
    return exit->exit_code;
  }
  const PlanOptions& options = std::get<PlanOptions>(parsed);
  if (!options.warning.empty()) std::cerr << kProgram << ": " << options.warning << "\n";
  Plan plan;
  if (const Status status = MakePlan(options.request, options.table, &plan); !status.ok()) {
    std::cerr << kProgram << ": " << status.sentence() << "\n";
    return 1;
  }
  std::cout << (options.json ? ToJson(options.request, options.table, plan, {}, options.all) + "\n"
                             : ToText(options.request, options.table, plan, options.all));
  return std::cout.flush() ? 0 : 1;
}

}  // namespace
}  // namespace tc::perf

int main(int argc, char** argv) { return tc::perf::Main(argc, argv); }
