#include "base/env.h"

#include <strings.h>

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <mutex>

#include "base/data_type.h"
#include "base/log.h"

extern char** environ;

namespace tc {
namespace {

template <class Integer>
bool ParseInteger(const std::string& text, Integer low, Integer high, Integer* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end && *value >= low && *value <= high;
}

bool ParseMilliseconds(const std::string& text, int* value) {
  return ParseInteger(text, 1, std::numeric_limits<int>::max(), value);
}

bool ParseMilliseconds(const std::string& text, std::optional<int>* value) {
  int parsed = 0;
  if (!ParseMilliseconds(text, &parsed)) return false;
  *value = parsed;
  return true;
}

bool ParseBytes(std::string text, std::optional<size_t>* value) {
  size_t unit = 1;
  if (!text.empty()) {
    switch (text.back()) {
      case 'K':
        unit = size_t{1} << 10;
        break;
      case 'M':
        unit = size_t{1} << 20;
        break;
      case 'G':
        unit = size_t{1} << 30;
        break;
    }
    if (unit != 1) text.pop_back();
  }
  size_t count = 0;
  if (!ParseInteger(text, size_t{1}, std::numeric_limits<size_t>::max() / unit, &count)) return false;
  *value = count * unit;
  return true;
}

bool ParseSwitch(const std::string& text, bool* value) {
  *value = text == "1";
  return text == "0" || text == "1";
}

bool ParseBackend(const std::string& text, tcBackend_t* backend) {
  constexpr const char* kNames[] = {"auto", "host", "cuda"};
  for (tcBackend_t candidate = tcBackendAuto; candidate <= tcBackendCuda; ++candidate) {
    if (::strcasecmp(text.c_str(), kNames[candidate]) == 0) {
      *backend = candidate;
      return true;
    }
  }
  return false;
}

bool ParsePlane(const std::string& text, tcPlane_t* plane) {
  for (tcPlane_t candidate = tcPlaneAuto; candidate <= tcPlaneHostStaged; ++candidate) {
    if (::strcasecmp(text.c_str(), PlaneName(candidate)) == 0) {
      *plane = candidate;
      return true;
    }
  }
  return false;
}

void WarnOfMisspeltNames() {
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string name(*entry, std::strcspn(*entry, "="));
    if (name.rfind("TC_", 0) != 0) continue;
    const EnvVariable* nearest = nullptr;
    size_t distance = 3;
    for (const EnvVariable& variable : EnvTable()) {
      if (const size_t d = EditDistance(name, variable.name); d < distance) {
        nearest = &variable;
        distance = d;
      }
    }
    if (nearest != nullptr && distance > 0) {
      Log(tcLogWarn, "the environment has %s, which is not a variable of this library; did you mean %s?", name.c_str(),
          nearest->name);
    }
  }
}

}  // namespace

const std::vector<EnvVariable>& EnvTable() {
  static const auto* table = new std::vector<EnvVariable>{
      {"TC_DEBUG", "none, error, warn, info or trace", "warn", "Which log lines are shown.",
       [](const std::string& text, Env*) { return ParseLogLevel(text) >= 0; }},
      {"TC_DEBUG_FILE", "file name", "stderr", "Where log lines go; %h is the host name, %p the process id.",
       [](const std::string&, Env*) { return true; }},
      {"TC_BACKEND", "auto, host or cuda", "auto", "Overrides tcConfig_t::backend.",
       [](const std::string& text, Env* env) { return ParseBackend(text, &env->backend); }},
      {"TC_BOOTSTRAP_DIR", "directory", "an abstract socket",
       "Directory that all ranks share, for their meeting socket: needed where containers have network namespaces of "
       "their own.",
       [](const std::string& text, Env* env) {
         env->bootstrap_dir = text;
         return !text.empty();
       }},
      {"TC_INIT_TIMEOUT_MS", "milliseconds, 1 or more", "60000",
       "How long init, split, register and finalize wait for the other ranks.",
       [](const std::string& text, Env* env) { return ParseMilliseconds(text, &env->init_timeout_ms); }},
      {"TC_TIMEOUT_MS", "milliseconds, 1 or more", "60000",
       "Overrides tcConfig_t::timeoutMs: the longest wait inside an operator that all ranks have entered.",
       [](const std::string& text, Env* env) { return ParseMilliseconds(text, &env->timeout_ms); }},
      {"TC_ENTRY_TIMEOUT_MS", "milliseconds, 1 or more", "1800000",
       "Overrides tcConfig_t::entryTimeoutMs: the longest wait for a rank to enter an operator.",
       [](const std::string& text, Env* env) { return ParseMilliseconds(text, &env->entry_timeout_ms); }},
      {"TC_ENTRY_WARNING_MS", "milliseconds, 1 or more", "60000",
       "How often a wait for a rank to enter an operator is warned about.",
       [](const std::string& text, Env* env) { return ParseMilliseconds(text, &env->entry_warning_ms); }},
      {"TC_WORKSPACE_BYTES", "bytes, or a number with K, M or G", "256M",
       "Overrides tcConfig_t::workspaceBytes: staging memory for data that is not registered.",
       [](const std::string& text, Env* env) { return ParseBytes(text, &env->workspace_bytes); }},
      {"TC_PLANE", "auto, push, pull, copy_engine or host_staged", "auto",
       "Who moves the data, where an operator's tcGemmConfig_t does not say it; the same on all ranks.",
       [](const std::string& text, Env* env) { return ParsePlane(text, &env->plane); }},
      {"TC_COMM_SMS", "number, 0 to 1024", "0, the kernels' own choice",
       "The most SMs that a plain collective of this rank moves data with.",
       [](const std::string& text, Env* env) { return ParseInteger(text, 0, 1024, &env->comm_sms); }},
      {"TC_P2P_DISABLE", "0 or 1", "0",
       "1: GPUs do not reach each other's memory: all data goes through pinned host memory. The same on every rank.",
       [](const std::string& text, Env* env) { return ParseSwitch(text, &env->p2p_disable); }},
      {"TC_VMM_DISABLE", "0 or 1", "0",
       "1: device memory is shared by cudaIpc, as where CUDA virtual memory is not to be had.",
       [](const std::string& text, Env* env) { return ParseSwitch(text, &env->vmm_disable); }},
      {"TC_VERIFY", "cache, full or off", "cache",
       "Whether init verifies that GPUs reach each other's memory rightly: unless TC_CACHE_DIR says that they did, "
       "always, never. Rank 0's counts.",
       [](const std::string& text, Env* env) {
         env->verify = text;
         return text == "cache" || text == "full" || text == "off";
       }},
      {"TC_CACHE_DIR", "directory", "tilecomm in XDG_CACHE_HOME or ~/.cache",
       "Where rank 0 keeps what was found out about this machine; it need not be writable.",
       [](const std::string& text, Env* env) {
         env->cache_dir = text;
         return !text.empty();
       }},
      {"TC_VERIFY_FAIL", "CHECK:FROM-TO, separated by commas", "nothing",
       "For tests: checks between ranks that fail; CHECK is stores, bulk_stores, loads, copies or flags.",
       [](const std::string& text, Env* env) {
         env->verify_failures = text;
         return !text.empty();
       }},
      {"TC_HOST_THREADS", "number, 1 to 1024", "the processors divided by the ranks, at least 1",
       "Compute threads of each rank on the host backend.",
       [](const std::string& text, Env* env) { return ParseInteger(text, 1, 1024, &env->host_threads); }},
      {"TC_SYSFS_ROOT", "directory", "this machine's root",
       "Where the topology is read from instead: a directory with a copy of another machine's sys and proc.",
       [](const std::string& text, Env* env) {
         env->sysfs_root = text;
         return !text.empty();
       }},
      {"TC_TOPO_FILE", "file name", "sysfs and NVML",
       "A topology file of NCCL's (XML), read instead of sysfs and NVML, also of TC_SYSFS_ROOT: for virtual machines "
       "that hide the PCIe switches.",
       [](const std::string& text, Env* env) {
         env->topo_file = text;
         return !text.empty();
       }},
      {"TC_FACTS", "file name", "a built-in model of the machine's kind",
       "Rank 0's fact table (docs/FACTS.md), by which all ranks plan; one that cannot be used is warned about.",
       [](const std::string& text, Env* env) {
         env->facts_file = text;
         return !text.empty();
       }},
      {"TC_JITTER_US", "microseconds, 0 to 1000", "0",
       "For tests: blocks of kernels pause for a random time, up to this, at every step.",
       [](const std::string& text, Env* env) { return ParseInteger(text, 0, 1000, &env->jitter_us); }},
  };
  return *table;
}

size_t EditDistance(const std::string& a, const std::string& b) {
  std::vector<size_t> row(b.size() + 1);
  for (size_t j = 0; j <= b.size(); ++j) row[j] = j;
  for (size_t i = 1; i <= a.size(); ++i) {
    size_t diagonal = std::exchange(row[0], i);
    for (size_t j = 1; j <= b.size(); ++j) {
      const size_t substituted = diagonal + (a[i - 1] != b[j - 1]);
      diagonal = row[j];
      row[j] = std::min({substituted, row[j] + 1, row[j - 1] + 1});
    }
  }
  return row[b.size()];
}

Status ReadEnv(Env* env) {
  static std::once_flag warned;
  std::call_once(warned, WarnOfMisspeltNames);
  for (const EnvVariable& variable : EnvTable()) {
    const char* text = std::getenv(variable.name);
    if (text == nullptr || variable.parse(text, env)) continue;
    return Error(tcInvalidArgument, "the environment variable %s is \"%s\"; it takes %s (default: %s)", variable.name,
                 text, variable.type, variable.fallback);
  }
  return {};
}

}  // namespace tc
