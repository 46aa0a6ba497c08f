#include "plan/explain.h"

#include <cmath>
#include <nlohmann/json.hpp>

#include "base/data_type.h"

namespace tc {
namespace {

using Json = nlohmann::ordered_json;

double Rounded(double us) { return std::round(us * 1000) / 1000; }

Json ToJson(const Candidate& candidate) {
  Json json = {{"way", WayName(candidate.way)}, {"kernel", candidate.kernel}};
  json["plane"] = candidate.way == Way::kNccl ? Json() : Json(PlaneName(candidate.plane));
  json["commSms"] = candidate.comm_sms;
  if (candidate.way != Way::kNccl) {
    json["chunkBytes"] = candidate.chunk_bytes;
    json["order"] = OrderName(candidate.order);
  }
  json["bound"] = BoundName(candidate.bound);
  json["totalUs"] = Rounded(candidate.total_us);
  json["commUs"] = Rounded(candidate.comm_us);
  json["computeUs"] = Rounded(candidate.compute_us);
  json["headUs"] = Rounded(candidate.head_us);
  json["tailUs"] = Rounded(candidate.tail_us);
  json["gbPerS"] = Rounded(candidate.gb_s);
  return json;
}

bool IsFused(tcOp_t op) { return op == tcOpAllGatherGemm || op == tcOpGemmReduceScatter || op == tcOpGemmAllReduce; }

std::vector<Candidate> Alternatives(const Plan& plan, bool all) { return all ? plan.ranked : BestOfEachKind(plan); }

std::string Padded(const std::string& text, size_t width) {
  return text.size() >= width ? text : std::string(width - text.size(), ' ') + text;
}

std::string ChunkText(uint64_t bytes) {
  if (bytes >= 1 << 20 && bytes % (1 << 20) == 0) return Format("%lluM", static_cast<unsigned long long>(bytes >> 20));
  if (bytes >= 1 << 10 && bytes % (1 << 10) == 0) return Format("%lluK", static_cast<unsigned long long>(bytes >> 10));
  return std::to_string(bytes);
}

}  // namespace

std::string ToJson(const PlanRequest& request, const platform::FactTable& table, const Plan& plan,
                   const std::optional<Launches>& launches, bool all) {
  Json json = {{"operator", OpName(request.op)}, {"type", TypeName(request.type)}};
  if (IsFused(request.op)) {
    json["m"] = request.m;
    json["n"] = request.n;
    json["k"] = request.k;
  } else {
    json["count"] = request.count;
  }
  json["ranks"] = request.ranks;
  json["nodes"] = request.nodes;
  json["facts"] = {{"name", table.name}, {"source", table.source}, {"builtIn", table.built_in}};
  json["bound"] = BoundName(plan.best().bound);
  json["choice"] = ToJson(plan.best());
  json["alternatives"] = Json::array();
  const std::vector<Candidate> candidates = Alternatives(plan, all);
  for (size_t i = 1; i < candidates.size(); ++i) json["alternatives"].push_back(ToJson(candidates[i]));
  json["notConsidered"] = Json::object();
  for (const auto& [plane, why] : plan.left_out) json["notConsidered"][PlaneName(plane)] = why;
  json["assumptions"] = plan.assumptions;
  json["reason"] = plan.reason;
  if (launches) {
    json["launches"] = {{"kernel", launches->kernel},
                        {"plane", PlaneName(launches->plane)},
                        {"commSms", launches->comm_sms},
                        {"why", launches->why},
                        {"staging", launches->staging}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace);
}

std::string ToText(const PlanRequest& request, const platform::FactTable& table, const Plan& plan, bool all) {
  std::string text = Format("# %s, %s", OpName(request.op), TypeName(request.type));
  const auto number = [](uint64_t value) { return std::to_string(value); };
  text += IsFused(request.op) ? ", M " + number(request.m) + ", N " + number(request.n) + ", K " + number(request.k)
                              : ", " + number(request.count) + " elements";
  text += Format(", %d ranks", request.ranks);
  if (request.nodes > 1) text += Format(" on each of %d nodes", request.nodes);
  text += "\n# facts: " + table.name + (table.source.empty() ? "" : " (" + table.source + ")") + "\n";
  for (const std::string& assumption : plan.assumptions) text += "# assumed: " + assumption + "\n";
  constexpr struct {
    const char* title;
    size_t width;
  } kColumns[] = {{"way", 10}, {"plane", 12}, {"SMs", 4},   {"chunk", 9}, {"order", 8}, {"bound", 14},
                  {"T", 11},   {"comm", 11},  {"GEMM", 11}, {"head", 8},  {"tail", 9},  {"GB/s", 8}};
  const auto line = [&](const std::vector<std::string>& cells, const char* start) {
    text += start;
    for (size_t i = 0; i < cells.size(); ++i) text += " " + Padded(cells[i], kColumns[i].width);
    text += "\n";
  };
  std::vector<std::string> titles;
  for (const auto& column : kColumns) titles.push_back(column.title);
  text += "#\n";
  line(titles, "#");
  line({"", "", "", "", "", "", "(us)", "(us)", "(us)", "(us)", "(us)", ""}, "#");
  for (const Candidate& c : Alternatives(plan, all)) {
    const bool nccl = c.way == Way::kNccl;
    line({WayName(c.way), nccl ? "-" : PlaneName(c.plane), std::to_string(c.comm_sms),
          nccl ? "-" : ChunkText(c.chunk_bytes), nccl ? "-" : OrderName(c.order), BoundName(c.bound),
          Format("%.1f", c.total_us), Format("%.1f", c.comm_us), Format("%.1f", c.compute_us),
          Format("%.1f", c.head_us), Format("%.1f", c.tail_us), Format("%.1f", c.gb_s)},
         " ");
  }
  return text + "#\n# " + plan.reason + "\n";
}

}  // namespace tc
