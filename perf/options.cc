#include "options.h"

#include <charconv>
#include <limits>

#include "failure.h"

namespace tc::perf {
namespace {

std::string Quoted(std::string_view text) { return "'" + std::string(text) + "'"; }

// The number that all of `text` spells; false when there is something else in it, or it does not fit.
bool ReadNumber(std::string_view text, uint64_t* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return !text.empty() && error == std::errc() && stop == end;
}

}  // namespace

uint64_t ParseInteger(std::string_view option, std::string_view text, uint64_t min, uint64_t max) {
  uint64_t value = 0;
  if (!ReadNumber(text, &value) || value < min || value > max) {
    throw Failure(std::string(option) + ": " + Quoted(text) + " is not a whole number from " + std::to_string(min) +
                  " to " + std::to_string(max) + ".");
  }
  return value;
}

size_t ParseSize(std::string_view option, std::string_view text) {
  size_t unit = 1;
  std::string_view digits = text;
  if (!digits.empty()) {
    const char last = digits.back();
    if (last == 'K' || last == 'k') unit = size_t{1} << 10;
    if (last == 'M' || last == 'm') unit = size_t{1} << 20;
    if (unit != 1) digits.remove_suffix(1);
  }
  uint64_t value = 0;
  size_t size = 0;
  if (!ReadNumber(digits, &value)) {
    throw Failure(std::string(option) + ": " + Quoted(text) +
                  " is not a size; write a whole number such as 4096, or 4K.");
  }
  // Far beyond any memory, and small enough that the product of two dimensions and an element's size is a 64-bit
  // number.
  constexpr size_t kLargest = size_t{1} << 30;
  if (__builtin_mul_overflow(value, unit, &size) || size > kLargest) {
    throw Failure(std::string(option) + ": " + Quoted(text) + " is too large; a dimension has at most " +
                  std::to_string(kLargest) + " elements.");
  }
  return size;
}

std::vector<std::string> SplitList(std::string_view option, std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::string_view rest = text;
  for (bool more = true; more;) {
    const size_t end = rest.find(separator);
    more = end != std::string_view::npos;
    parts.emplace_back(rest.substr(0, end));
    if (parts.back().empty()) throw Failure(std::string(option) + ": " + Quoted(text) + " has an empty place in it.");
    if (more) rest.remove_prefix(end + 1);
  }
  return parts;
}

std::vector<size_t> ParseSizes(std::string_view option, std::string_view text) {
  std::vector<size_t> sizes;
  for (const std::string& part : SplitList(option, text, ',')) sizes.push_back(ParseSize(option, part));
  return sizes;
}

std::vector<const ElementType*> ParseTypes(std::string_view option, std::string_view text) {
  std::vector<const ElementType*> types;
  for (const std::string& part : SplitList(option, text, ',')) {
    if (part == "all") {
      for (const ElementType& type : ElementTypes()) types.push_back(&type);
    } else if (const ElementType* type = FindElementType(part)) {
      types.push_back(type);
    } else {
      throw Failure(std::string(option) + ": " + Quoted(part) +
                    " is not a type; there are float, half, bfloat16 and all.");
    }
  }
  return types;
}

const char* BackendName(tcBackend_t backend) {
  return backend == tcBackendAuto ? "auto" : backend == tcBackendHost ? "host" : "cuda";
}

tcBackend_t ParseBackend(std::string_view option, std::string_view text) {
  for (const tcBackend_t backend : {tcBackendAuto, tcBackendHost, tcBackendCuda}) {
    if (text == BackendName(backend)) return backend;
  }
  throw Failure(std::string(option) + ": " + Quoted(text) + " is not a backend; there are auto, host and cuda.");
}

CommonOptionsParser::CommonOptionsParser(CLI::App& app, const CommonOptionsKind& kind) {
  if (kind.types) {
    types_option_ = app.add_option("-d,--datatype", types_, "Element types: float, half, bfloat16, all")
                        ->type_name("LIST")
                        ->capture_default_str();
  }
  app.add_option("-r,--ranks", ranks_, "Rank counts, 1.." + std::to_string(TC_MAX_RANKS))
      ->type_name("LIST")
      ->capture_default_str();
  app.add_option("-n,--iters", iters_, "Timed iterations of a case")->type_name("N")->capture_default_str();
  app.add_option("-w,--warmup_iters", warmup_iters_, "Iterations before the timed ones")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("-c,--check", check_, "1: check the results of the timed iterations; 0: do not")
      ->type_name("0|1")
      ->capture_default_str();
  app.add_option("-J,--json", json_, "Also write a report with every time to FILE")->type_name("FILE");
  app.add_flag("--threads", threads_, "Ranks are threads of one process; default: a process each");
  app.add_option("--backend", backend_, "auto: GPUs where there are any, else host; host: CPUs; cuda: GPUs")
      ->type_name("auto|host|cuda")
      ->envname("TC_BACKEND")
      ->capture_default_str();
  app.add_option("-g,--gpus", gpus_, "GPUs that the ranks take turns on: rank r is on GPU r mod N; default: all")
      ->type_name("N");
  app.add_option("-G,--cudagraph", graph_replays_, kind.graph)->type_name("N")->capture_default_str();
  app.add_option("--seed", seed_, "Seed of the inputs and of the sampled checks")
      ->type_name("N")
      ->capture_default_str();
  app.add_option("-T,--timeout", timeout_, "End the whole run after this many seconds; 0: never")
      ->type_name("SECONDS")
      ->capture_default_str();
}

CommonOptions CommonOptionsParser::Values() const {
  constexpr uint64_t kMost = 1000000000;
  CommonOptions options;
  options.types = ParseTypes("-d/--datatype", types_);
  for (const std::string& part : SplitList("-r/--ranks", ranks_, ',')) {
    options.ranks.push_back(static_cast<int>(ParseInteger("-r/--ranks", part, 1, TC_MAX_RANKS)));
  }
  options.iters = static_cast<int>(ParseInteger("-n/--iters", iters_, 1, kMost));
  options.warmup_iters = static_cast<int>(ParseInteger("-w/--warmup_iters", warmup_iters_, 0, kMost));
  options.check = ParseInteger("-c/--check", check_, 0, 1) != 0;
  options.seed = ParseInteger("--seed", seed_, 0, std::numeric_limits<uint64_t>::max());
  options.timeout_s = static_cast<int>(ParseInteger("-T/--timeout", timeout_, 0, kMost));
  options.threads = threads_;
  options.backend = ParseBackend("--backend", backend_);
  if (!gpus_.empty()) options.gpus = static_cast<int>(ParseInteger("-g/--gpus", gpus_, 1, kMost));
  options.graph_replays = static_cast<int>(ParseInteger("-G/--cudagraph", graph_replays_, 0, 1000000));
  if (options.backend == tcBackendHost && (options.gpus > 0 || options.graph_replays > 0)) {
    throw Failure("-g/--gpus and -G/--cudagraph are for GPUs: leave --backend host away.");
  }
  options.json = json_;
  return options;
}

}  // namespace tc::perf
