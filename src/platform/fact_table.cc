#include "platform/fact_table.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>

#include "base/data_type.h"
#include "base/env.h"
#include "base/unique_fd.h"

namespace tc::platform {
namespace {

using Json = nlohmann::ordered_json;

constexpr size_t kMostBytes = size_t{4} << 20;
constexpr int kMostSms = 4096;
constexpr double kLeastRate = 1e-3, kMostRate = 1e6;  // GB/s
constexpr double kLeastTime = 1e-3, kMostTime = 1e7;  // us
constexpr tcPlane_t kP2pPlanes[] = {tcPlanePush, tcPlanePull, tcPlaneCopyEngine};
constexpr const char* kPatternNames[] = {"both_ways", "ring", "all_to_all", "one_source_to_two_roots"};
constexpr const char* kNcclOperators[] = {"all_gather", "reduce_scatter", "all_reduce", "all_to_all"};

// Ends the reading of a table. What a file says is data, and everything below may refuse it.
struct Refusal {
  std::string sentence;
};

[[noreturn]] void Refuse(const std::string& place, const std::string& what) {
  throw Refusal{(place.empty() ? "the table" : place) + ": " + what};
}

std::string Shown(const Json& json) {
  std::string text = json.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 40) text = text.substr(0, 40) + "...";
  return text;
}

double Number(const Json& json, const std::string& place, double low, double high) {
  if (!json.is_number()) Refuse(place, "is " + Shown(json) + "; it must be a number");
  const double value = json.get<double>();
  if (!(value >= low && value <= high)) {
    Refuse(place, Format("is %s; it must be from %g to %g", Shown(json).c_str(), low, high));
  }
  return value;
}

int Integer(const Json& json, const std::string& place, int low, int high) {
  const double value = Number(json, place, low, high);
  if (value != std::floor(value)) Refuse(place, "is " + Shown(json) + "; it must be a whole number");
  return static_cast<int>(value);
}

std::string Text(const Json& json, const std::string& place) {
  if (!json.is_string()) Refuse(place, "is " + Shown(json) + "; it must be a text");
  return json.get<std::string>();
}

bool Truth(const Json& json, const std::string& place) {
  if (!json.is_boolean()) Refuse(place, "is " + Shown(json) + "; it must be true or false");
  return json.get<bool>();
}

double Rate(const Json& json, const std::string& place) { return Number(json, place, kLeastRate, kMostRate); }

// A number, or two: the least and the most that was seen.
Interval Range(const Json& json, const std::string& place, double low, double high) {
  if (!json.is_array()) {
    const double value = Number(json, place, low, high);
    return {value, value};
  }
  if (json.size() != 2) Refuse(place, Format("has %zu elements; it must be a number or [least, most]", json.size()));
  const Interval range{Number(json[0], place + "[0]", low, high), Number(json[1], place + "[1]", low, high)};
  if (range.low > range.high) Refuse(place, "is " + Shown(json) + "; the least must come first");
  return range;
}

// An object whose every member has to be asked for.
class Object {
 public:
  Object(const Json& json, std::string place) : json_(json), place_(std::move(place)) {
    if (!json.is_object()) Refuse(place_, "is " + Shown(json) + "; it must be an object");
  }

  std::string Place(const std::string& key) const { return place_.empty() ? key : place_ + "." + key; }

  const Json* Find(const std::string& key) {
    asked_.insert(key);
    const auto found = json_.find(key);
    return found == json_.end() ? nullptr : &*found;
  }
  const Json& At(const std::string& key) {
    const Json* found = Find(key);
    if (found == nullptr) Refuse(place_, "has no \"" + key + "\"");
    return *found;
  }

  // read(member, its place) for a member that is there.
  template <class Read>
  void Maybe(const std::string& key, const Read& read) {
    if (const Json* found = Find(key)) read(*found, Place(key));
  }
  // read(key, member, its place) for each member that nobody asked for yet and whose key is one of these.
  template <class Is, class Read>
  void Each(const Is& is, const Read& read) {
    for (const auto& [key, member] : json_.items()) {
      if (asked_.count(key) != 0 || !is(key)) continue;
      asked_.insert(key);
      read(key, member, Place(key));
    }
  }

  // Nothing is left over.
  void Finish() const {
    for (const auto& [key, member] : json_.items()) {
      if (asked_.count(key) != 0) continue;
      std::string nearest;
      size_t distance = 3;
      for (const std::string& known : asked_) {
        if (const size_t d = EditDistance(key, known); d < distance) {
          nearest = known;
          distance = d;
        }
      }
      Refuse(Place(key),
             "is no field of a fact table" + (nearest.empty() ? "" : "; did you mean \"" + nearest + "\"?"));
    }
  }

 private:
  const Json& json_;
  const std::string place_;
  std::set<std::string> asked_;
};

bool IsPath(const std::string& name) { return PathOrder(name) >= 0; }

// Digits alone, as few as they can be.
bool ToNumber(const std::string& text, int low, int high, int* number) {
  if (text.empty() || text.size() > 6 || text.find_first_not_of("0123456789") != std::string::npos) return false;
  *number = std::stoi(text);
  return *number >= low && *number <= high && std::to_string(*number) == text;
}

template <class Value, class Read>
std::map<int, Value> ByNumber(const Json& json, const std::string& place, const Read& read) {
  std::map<int, Value> values;
  Object object(json, place);
  object.Each([](const std::string&) { return true; },
              [&](const std::string& key, const Json& member, const std::string& where) {
                int number = 0;
                if (!ToNumber(key, 1, kMostSms, &number)) {
                  Refuse(where, Format("a number of SMs from 1 to %d must stand there", kMostSms));
                }
                values[number] = read(member, where);
              });
  return values;
}

std::string WorstPath(const RateByPath& rates) {
  return std::max_element(rates.begin(), rates.end(),
                          [](const auto& a, const auto& b) { return PathOrder(a.first) < PathOrder(b.first); })
      ->first;
}

// One rate for every path that was measured, or an object of them.
RateByPath PatternRates(const Json& json, const std::string& place, const RateByPath& alone) {
  RateByPath rates;
  if (!json.is_object()) {
    for (const auto& [path, rate] : alone) rates[path] = Rate(json, place);
    return rates;
  }
  Object object(json, place);
  object.Each(IsPath, [&](const std::string& path, const Json& rate, const std::string& where) {
    rates[path] = Rate(rate, where);
  });
  object.Finish();
  return rates;
}

PlaneFacts ReadPlane(const Json& json, const std::string& place) {
  Object object(json, place);
  PlaneFacts plane;
  object.Each(IsPath, [&](const std::string& path, const Json& rate, const std::string& where) {
    plane.alone[path] = Rate(rate, where);
  });
  if (plane.alone.empty()) Refuse(place, "has no path (\"NV18\", \"PIX\", \"NODE\", ...) with its rate");
  const auto sms = [&](const Json& number, const std::string& where) {
    plane.saturating_sms = Integer(number, where, 0, kMostSms);
  };
  object.Maybe("sms", sms);
  object.Maybe("saturating_sms", sms);
  object.Maybe("by_blocks", [&](const Json& curve, const std::string& where) {
    plane.by_sms = ByNumber<double>(curve, where, Rate);
  });
  for (const Pattern pattern : kPatterns) {
    object.Maybe(kPatternNames[static_cast<int>(pattern)], [&](const Json& rates, const std::string& where) {
      plane.at_once[pattern] = PatternRates(rates, where, plane.alone);
    });
  }
  // How the first tables named it: four GPUs in a ring, the rate of each, or of the one that is worst off: that is one
  // whose next GPU is farthest.
  object.Maybe("ring_4_at_once_per_gpu", [&](const Json& rate, const std::string& where) {
    for (const auto& [path, alone] : plane.alone) plane.at_once[Pattern::kRing][path] = Rate(rate, where);
  });
  object.Maybe("ring_4_at_once_worst_gpu", [&](const Json& rate, const std::string& where) {
    plane.at_once[Pattern::kRing][WorstPath(plane.alone)] = Rate(rate, where);
  });
  object.Maybe("concurrent", [&](const Json& rate, const std::string& where) {
    if (rate.is_null()) return;  // not measured
    plane.at_once[Pattern::kRing] = PatternRates(rate, where, plane.alone);
  });
  object.Finish();
  return plane;
}

HostStagedFacts ReadHostStaged(const Json& json, const std::string& place) {
  Object object(json, place);
  HostStagedFacts facts;
  facts.write_alone = Rate(object.At("write_alone"), object.Place("write_alone"));
  facts.read_alone = Rate(object.At("read_alone"), object.Place("read_alone"));
  facts.at_once = Rate(object.At("write_and_read_at_once"), object.Place("write_and_read_at_once"));
  facts.saturating_sms = Integer(object.At("saturating_sms"), object.Place("saturating_sms"), 1, kMostSms);
  object.Finish();
  return facts;
}

// "all_gather", "all_gather_128_mib" or "all_gather_p2p_disabled".
bool IsNcclRate(const std::string& key) {
  for (const std::string op : kNcclOperators) {
    if (key.rfind(op, 0) != 0) continue;
    const std::string rest = key.substr(op.size());
    if (rest.empty() || rest == "_p2p_disabled") return true;
    int mib = 0;
    return rest.size() > 5 && rest[0] == '_' && rest.substr(rest.size() - 4) == "_mib" &&
           ToNumber(rest.substr(1, rest.size() - 5), 1, 1 << 16, &mib);
  }
  return false;
}

void ReadPlanes(const Json& json, FactTable* table) {
  Object object(json, "planes_gb_s");
  for (const tcPlane_t plane : kP2pPlanes) {
    object.Maybe(PlaneName(plane),
                 [&](const Json& facts, const std::string& place) { table->planes[plane] = ReadPlane(facts, place); });
  }
  object.Maybe(PlaneName(tcPlaneHostStaged),
               [&](const Json& facts, const std::string& place) { table->host_staged = ReadHostStaged(facts, place); });
  object.Maybe("nccl_busbw", [&](const Json& facts, const std::string& place) {
    Object nccl(facts, place);
    nccl.Maybe("sms",
               [&](const Json& sms, const std::string& where) { table->nccl_sms = Integer(sms, where, 0, kMostSms); });
    nccl.Each(IsNcclRate, [&](const std::string& key, const Json& rate, const std::string& where) {
      table->nccl_busbw[key] = Rate(rate, where);
    });
    nccl.Finish();
  });
  object.Maybe("small_message_below_1_mib",
               [&](const Json& rate, const std::string& where) { table->small_message = Rate(rate, where); });
  object.Finish();
}

bool IsLatency(const std::string& key) {
  for (const char* known : {"signal_rtt", "signal_rtt_host", "empty_graph_node", "nccl_smallest", "nccl_smallest_graph",
                            "peer_poll_round_trip"}) {
    if (key == known) return true;
  }
  const std::string signal = "signal_rtt_", barrier = "slot_barrier_", graph = "_graph_node";
  if (key.rfind(signal, 0) == 0) return IsPath(key.substr(signal.size()));
  if (key.rfind(barrier, 0) != 0) return false;
  std::string ranks = key.substr(barrier.size());
  if (ranks.size() > graph.size() && ranks.substr(ranks.size() - graph.size()) == graph) {
    ranks.resize(ranks.size() - graph.size());
  }
  int number = 0;
  return ToNumber(ranks, 2, kMostGpus, &number);
}

void ReadGpu(const Json& json, GpuFacts* gpu) {
  Object object(json, "gpu");
  gpu->model = Text(object.At("model"), object.Place("model"));
  gpu->arch = Text(object.At("arch"), object.Place("arch"));
  gpu->sms = Integer(object.At("sms"), object.Place("sms"), 1, kMostSms);
  const auto maybe = [&](const char* key, double low, double high, std::optional<double>* value) {
    object.Maybe(key, [&](const Json& number, const std::string& place) { *value = Number(number, place, low, high); });
  };
  maybe("smem_per_block_kib", 1, 1e6, &gpu->smem_per_block_kib);
  maybe("bf16_tflops_cublas_8192", 1e-3, 1e6, &gpu->bf16_tflops);
  maybe("hbm_copy_gb_s", kLeastRate, kMostRate, &gpu->hbm_gb_s);
  maybe("own_gemm_of_cublas", 0.01, 2, &gpu->own_gemm_of_cublas);
  object.Finish();
}

void ReadPaths(const Json& json, FactTable* table) {
  const std::string place = "topology";
  const auto count = static_cast<size_t>(table->gpus);
  if (!json.is_array() || json.size() != count) Refuse(place, Format("it must have a row for each of %zu GPUs", count));
  table->paths.resize(count);
  for (size_t a = 0; a < count; ++a) {
    const std::string row = Format("topology[%zu]", a);
    if (!json[a].is_array() || json[a].size() != count) {
      Refuse(row, Format("it must have an element for each of %zu GPUs", count));
    }
    for (size_t b = 0; b < count; ++b) {
      const std::string where = row + Format("[%zu]", b);
      std::string name = Text(json[a][b], where);
      if (a == b ? name != "X" : !IsPath(name)) {
        Refuse(where,
               "is " + Shown(json[a][b]) + "; it must be " +
                   (a == b ? "\"X\"" : "a path as nvidia-smi topo -m names them (NV18, PIX, PXB, PHB, NODE, SYS)"));
      }
      table->paths[a].push_back(std::move(name));
      if (b < a && table->paths[a][b] != table->paths[b][a]) {
        Refuse(where, "is " + Shown(json[a][b]) + Format("; topology[%zu][%zu] says otherwise", b, a));
      }
    }
  }
}

void ReadP2p(const Json& json, FactTable* table) {
  Object object(json, "p2p");
  table->p2p = Truth(object.At("access"), object.Place("access"));
  const auto remark = [](std::string* into) {
    return [into](const Json& said, const std::string& place) {
      if (!said.is_string() && !said.is_number() && !said.is_boolean()) {
        Refuse(place, "is " + Shown(said) + "; it must be a text or a number");
      }
      *into = said.dump();
    };
  };
  object.Maybe("native_atomics_reported", remark(&table->native_atomics));
  object.Maybe("remote_atomics_lost_under_scattered_load", remark(&table->atomics_lost));
  object.Maybe("failed_planes", [&](const Json& planes, const std::string& place) {
    if (!planes.is_array()) Refuse(place, "is " + Shown(planes) + "; it must be a list of planes");
    for (size_t i = 0; i < planes.size(); ++i) {
      const std::string where = place + Format("[%zu]", i), name = Text(planes[i], where);
      tcPlane_t plane = tcPlanePush;
      while (plane <= tcPlaneHostStaged && name != PlaneName(plane)) ++plane;
      if (plane > tcPlaneHostStaged) Refuse(where, "is " + Shown(planes[i]) + ", which is no plane");
      table->failed_planes.push_back(plane);
    }
  });
  object.Finish();
}

FactTable ReadTable(const Json& json) {
  Object object(json, "");
  // First, before a word is said about fields that another version may have.
  object.Maybe("version", [](const Json& version, const std::string& place) {
    if (version == kFactsVersion) return;
    Refuse(place, Format("is %s; this library reads version %d", Shown(version).c_str(), kFactsVersion));
  });
  FactTable table;
  table.name = Text(object.At("name"), "name");
  object.Maybe("source", [&](const Json& text, const std::string& place) { table.source = Text(text, place); });
  object.Maybe("link", [&](const Json& text, const std::string& place) { table.link = Text(text, place); });
  object.Maybe("built_in", [&](const Json& truth, const std::string& place) { table.built_in = Truth(truth, place); });
  table.gpus = Integer(object.At("gpus"), "gpus", 1, kMostGpus);
  ReadGpu(object.At("gpu"), &table.gpu);
  ReadPaths(object.At("topology"), &table);
  ReadP2p(object.At("p2p"), &table);
  ReadPlanes(object.At("planes_gb_s"), &table);
  Object latency(object.At("latency_us"), "latency_us");
  latency.Each(IsLatency, [&](const std::string& key, const Json& range, const std::string& place) {
    table.latency[key] = Range(range, place, kLeastTime, kMostTime);
  });
  latency.Finish();
  object.Maybe("interference", [&](const Json& facts, const std::string& place) {
    Object interference(facts, place);
    interference.Maybe("bandwidth", [&](const Json& share, const std::string& where) {
      table.bandwidth_interference = Number(share, where, 0, 0.99);
    });
    interference.Maybe("gemm_slowdown_by_comm_sms", [&](const Json& shares, const std::string& where) {
      table.gemm_slowdown = ByNumber<Interval>(
          shares, where, [](const Json& share, const std::string& at) { return Range(share, at, 0, 100); });
    });
    interference.Finish();
  });
  object.Maybe("row_scatter_8_kib_penalty", [&](const Json& share, const std::string& place) {
    table.row_scatter_penalty = Number(share, place, 0, 0.99);
  });
  object.Maybe("between_nodes", [&](const Json& facts, const std::string& place) {
    Object between(facts, place);
    table.between_nodes =
        BetweenNodesFacts{Rate(between.At("gb_s_per_gpu"), between.Place("gb_s_per_gpu")),
                          Number(between.At("latency_us"), between.Place("latency_us"), kLeastTime, kMostTime)};
    between.Finish();
  });
  object.Finish();
  return table;
}

std::string LineAndColumn(const std::string& text, size_t byte) {
  const size_t end = std::min(byte == 0 ? 0 : byte - 1, text.size());
  const size_t line = 1 + static_cast<size_t>(std::count(text.begin(), text.begin() + static_cast<long>(end), '\n'));
  const size_t last = end == 0 ? std::string::npos : text.rfind('\n', end - 1);
  return Format("line %zu, column %zu", line, end - (last == std::string::npos ? 0 : last + 1) + 1);
}

// Looks at a text while it is parsed: no object may have a key twice, a slip that a parser passes over, and nothing may
// lie so deep that who prints it by recursion would run out of stack.
class ShapeCheck {
 public:
  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    constexpr int kMostDepth = 32;
    if (depth > kMostDepth) Refuse("", Format("is nested more than %d deep", kMostDepth));
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      Refuse("", "has the field \"" + parsed.get<std::string>() + "\" twice in one object");
    }
    return true;
  }

 private:
  std::vector<std::set<std::string>> keys_;
};

Json ToJson(const Interval& range) { return range.low == range.high ? Json(range.low) : Json{range.low, range.high}; }

Json ToJson(const PlaneFacts& plane) {
  Json json;
  for (const auto& [path, rate] : plane.alone) json[path] = rate;
  json["saturating_sms"] = plane.saturating_sms;
  for (const auto& [sms, rate] : plane.by_sms) json["by_blocks"][std::to_string(sms)] = rate;
  for (const auto& [pattern, rates] : plane.at_once) {
    Json& object = json[kPatternNames[static_cast<int>(pattern)]] = Json::object();
    for (const auto& [path, rate] : rates) object[path] = rate;
  }
  return json;
}

// What is assumed of an architecture whose GPUs nobody measured.
struct ArchFacts {
  const char* arch;
  double tflops_per_sm;  // bf16
  double hbm_gb_s;
};
constexpr ArchFacts kArchFacts[] = {
    {"sm_80", 2.4, 1700},    // A100: 312 TFLOP/s and 2039 GB/s on paper, of 108 SMs
    {"sm_86", 0.85, 850},    // RTX 3090: 71 and 936, of 82
    {"sm_89", 1.2, 850},     // RTX 4090: 165 and 1008, of 128
    {"sm_90", 6.0, 4200},    // H200, measured: 794 and 4200, of 132
    {"sm_100", 11.0, 7000},  // B200: 2250 and 8000, of 148
    {"sm_120", 1.9, 1200},   // RTX PRO 5000: a grouped GEMM of 206 GFLOP in 977 us, of 110; 1344 on paper
};

}  // namespace

int PathOrder(const std::string& name) {
  constexpr const char* kNames[] = {"SHM", "PIX", "PXB", "PHB", "NODE", "SYS"};
  int links = 0;
  if (name.rfind("NV", 0) == 0) return ToNumber(name.substr(2), 1, 999, &links) ? 0 : -1;
  const auto found = std::find(std::begin(kNames), std::end(kNames), name);
  return found == std::end(kNames) ? -1 : static_cast<int>(found - kNames);
}

Status ParseFactTable(const std::string& text, FactTable* table) {
  try {
    ShapeCheck check;
    FactTable read = ReadTable(Json::parse(text, std::ref(check)));
    // Facts that a file may leave out, but no plan can do without.
    const auto arch = std::find_if(std::begin(kArchFacts), std::end(kArchFacts),
                                   [&](const ArchFacts& facts) { return read.gpu.arch == facts.arch; });
    if (arch == std::end(kArchFacts) && (!read.gpu.bf16_tflops || !read.gpu.hbm_gb_s)) {
      Refuse("gpu", "of the architecture \"" + read.gpu.arch +
                        "\" nothing is known; say its bf16_tflops_cublas_8192 and hbm_copy_gb_s");
    }
    if (!read.gpu.bf16_tflops) read.gpu.bf16_tflops = arch->tflops_per_sm * read.gpu.sms;
    if (!read.gpu.hbm_gb_s) read.gpu.hbm_gb_s = arch->hbm_gb_s;
    *table = std::move(read);
    return {};
  } catch (const Refusal& refusal) {
    return Error(tcInvalidArgument, "%s", refusal.sentence.c_str());
  } catch (const Json::parse_error& error) {
    return Error(tcInvalidArgument, "%s: this is no JSON, or it ends too early",
                 LineAndColumn(text, error.byte).c_str());
  } catch (const Json::exception& error) {
    return Error(tcInvalidArgument, "the table cannot be read: %s", error.what());
  }
}

Status ReadFactTable(const std::string& path, FactTable* table) {
  const UniqueFd file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  struct stat status;
  if (!file.valid() || ::fstat(file.get(), &status) != 0) {
    const Status why = SystemError(errno, "the fact table %s cannot be read", path.c_str());
    return Error(tcInvalidArgument, "%s", why.sentence().c_str());
  }
  if (!S_ISREG(status.st_mode)) {
    return Error(tcInvalidArgument, "the fact table %s is not a regular file", path.c_str());
  }
  std::string text;
  char buffer[1 << 16];
  ssize_t bytes = 0;
  while (text.size() <= kMostBytes) {
    bytes = ::read(file.get(), buffer, sizeof(buffer));
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    text.append(buffer, static_cast<size_t>(bytes));
  }
  if (bytes < 0) return SystemError(errno, "the fact table %s cannot be read", path.c_str());
  if (text.size() > kMostBytes) {
    return Error(tcInvalidArgument, "the fact table %s is larger than %zu bytes", path.c_str(), kMostBytes);
  }
  const Status parsed = ParseFactTable(text, table);
  if (parsed.ok()) return {};
  return Error(parsed.code(), "the fact table %s: %s; correct it, or have the machine measured again", path.c_str(),
               parsed.sentence().c_str());
}

std::string ToJson(const FactTable& table) {
  Json json = {{"version", kFactsVersion}, {"name", table.name}, {"source", table.source}};
  if (table.built_in) json["built_in"] = true;
  json["gpus"] = table.gpus;
  Json& gpu = json["gpu"] = {{"model", table.gpu.model}, {"arch", table.gpu.arch}, {"sms", table.gpu.sms}};
  const auto maybe = [](Json& into, const char* key, const std::optional<double>& value) {
    if (value) into[key] = *value;
  };
  maybe(gpu, "smem_per_block_kib", table.gpu.smem_per_block_kib);
  maybe(gpu, "bf16_tflops_cublas_8192", table.gpu.bf16_tflops);
  maybe(gpu, "hbm_copy_gb_s", table.gpu.hbm_gb_s);
  maybe(gpu, "own_gemm_of_cublas", table.gpu.own_gemm_of_cublas);
  json["link"] = table.link;
  json["topology"] = table.paths;
  Json& p2p = json["p2p"] = {{"access", table.p2p}};
  if (!table.native_atomics.empty()) p2p["native_atomics_reported"] = Json::parse(table.native_atomics);
  if (!table.atomics_lost.empty()) p2p["remote_atomics_lost_under_scattered_load"] = Json::parse(table.atomics_lost);
  for (const tcPlane_t plane : table.failed_planes) p2p["failed_planes"].push_back(PlaneName(plane));
  Json& planes = json["planes_gb_s"] = Json::object();
  for (const auto& [plane, facts] : table.planes) planes[PlaneName(plane)] = ToJson(facts);
  if (table.host_staged) {
    planes[PlaneName(tcPlaneHostStaged)] = {{"write_alone", table.host_staged->write_alone},
                                            {"read_alone", table.host_staged->read_alone},
                                            {"write_and_read_at_once", table.host_staged->at_once},
                                            {"saturating_sms", table.host_staged->saturating_sms}};
  }
  for (const auto& [key, rate] : table.nccl_busbw) planes["nccl_busbw"][key] = rate;
  if (table.nccl_sms > 0) planes["nccl_busbw"]["sms"] = table.nccl_sms;
  maybe(planes, "small_message_below_1_mib", table.small_message);
  json["latency_us"] = Json::object();
  for (const auto& [key, range] : table.latency) json["latency_us"][key] = ToJson(range);
  json["interference"] = {{"bandwidth", table.bandwidth_interference}};
  for (const auto& [sms, range] : table.gemm_slowdown) {
    json["interference"]["gemm_slowdown_by_comm_sms"][std::to_string(sms)] = ToJson(range);
  }
  json["row_scatter_8_kib_penalty"] = table.row_scatter_penalty;
  if (table.between_nodes) {
    json["between_nodes"] = {{"gb_s_per_gpu", table.between_nodes->gb_s_per_gpu},
                             {"latency_us", table.between_nodes->latency_us}};
  }
  return json.dump(2) + "\n";
}

FactTable BuiltInFacts(const MachineKind& kind) {
  FactTable table;
  table.built_in = true;
  table.paths = kind.paths;
  if (table.paths.empty()) table.paths = {{"X"}};
  table.gpus = static_cast<int>(table.paths.size());
  std::set<std::string> names;
  for (const auto& row : table.paths) {
    for (const std::string& name : row) {
      if (name != "X") names.insert(name);
    }
  }
  if (kind.host) {
    table.name = "built-in model of ranks on processors";
    table.source = "assumed: nothing was measured";
    table.gpu = {.model = "processor", .arch = "host", .sms = 1, .bf16_tflops = 0.05, .hbm_gb_s = 10};
    table.planes[tcPlanePush] = {.alone = {{"SHM", 5}}, .saturating_sms = 1};
    table.latency = {{"signal_rtt", {10, 10}}, {"slot_barrier_2", {20, 20}}};
    return table;
  }
  const auto arch = std::find_if(std::begin(kArchFacts), std::end(kArchFacts),
                                 [&](const ArchFacts& facts) { return kind.arch == facts.arch; });
  const ArchFacts assumed = arch == std::end(kArchFacts) ? ArchFacts{"", 1, 800} : *arch;
  table.gpu = {.model = kind.arch,
               .arch = kind.arch,
               .sms = kind.sms,
               .bf16_tflops = assumed.tflops_per_sm * kind.sms,
               .hbm_gb_s = assumed.hbm_gb_s};
  const bool nvlink =
      !names.empty() && std::all_of(names.begin(), names.end(), [](const auto& name) { return PathOrder(name) == 0; });
  PlaneFacts& push = table.planes[tcPlanePush];
  PlaneFacts& pull = table.planes[tcPlanePull];
  PlaneFacts& copy = table.planes[tcPlaneCopyEngine];
  if (names.empty()) names.insert("SYS");  // of GPUs that the model does not know
  table.host_staged = HostStagedFacts{.write_alone = 52, .read_alone = 50, .at_once = 36, .saturating_sms = 4};
  if (nvlink) {
    table.name = "built-in model of GPUs with NVLink";
    table.source = "assumed: figures of 2x H200 with 18 NVLinks, for each link its share";
    push.by_sms = {{1, 45.6}, {2, 90.9}, {4, 180.8}, {8, 352.1}, {132, 368.7}};
    pull.by_sms = {{1, 47.7}, {2, 95.1}, {4, 188.4}, {8, 353.9}, {132, 374.1}};
    push.saturating_sms = pull.saturating_sms = 8;
    for (const std::string& name : names) {
      const double share = std::stoi(name.substr(2)) / 18.0;
      push.alone[name] = 369 * share;
      pull.alone[name] = 374 * share;
      copy.alone[name] = 394 * share;
      push.at_once[Pattern::kBothWays][name] = 350 * share;
      pull.at_once[Pattern::kBothWays][name] = 336 * share;
      copy.at_once[Pattern::kBothWays][name] = 391 * share;
    }
    table.nccl_busbw = {{"all_gather", 294}, {"reduce_scatter", 237}};
    table.latency = {{"signal_rtt", {2.59, 2.59}},
                     {"signal_rtt_host", {4.49, 4.49}},
                     {"slot_barrier_2", {2.3, 2.3}},
                     {"nccl_smallest", {5.8, 5.8}}};
    return table;
  }
  table.name = "built-in model of GPUs without NVLink";
  table.source = "assumed: figures of 4x RTX PRO 5000 over PCIe 5.0 x16";
  push.by_sms = {{1, 20.1}, {2, 38.5}, {4, 50.1}, {32, 50.1}};
  pull.by_sms = {{1, 4.2}, {2, 8.3}, {4, 16.5}, {8, 32.6}, {16, 49.7}, {32, 49.8}};
  push.saturating_sms = 4;
  pull.saturating_sms = 16;
  for (const std::string& name : names) {
    const bool switched = PathOrder(name) <= PathOrder("PXB");
    push.alone[name] = 51.0;
    pull.alone[name] = switched ? 50.8 : 29.0;
    copy.alone[name] = 56;
    push.at_once[Pattern::kRing][name] = 49.8;
    if (!switched) pull.at_once[Pattern::kRing][name] = 23.5;
  }
  table.nccl_busbw = {{"all_gather", 30.5}, {"reduce_scatter", 30.5}};
  table.small_message = 25;
  table.latency = {{"signal_rtt", {2.87, 2.87}}, {"slot_barrier_4", {9.0, 11.7}}, {"nccl_smallest", {24, 24}}};
  return table;
}

FactTable FactsOrBuiltIn(const std::string& path, const MachineKind& kind, std::string* warning) {
  FactTable table;
  if (path.empty()) return BuiltInFacts(kind);
  const Status read = ReadFactTable(path, &table);
  if (read.ok()) return table;
  *warning = read.sentence() + "; until then the built-in model is used";
  return BuiltInFacts(kind);
}

}  // namespace tc::platform
