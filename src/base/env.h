// The TC_* environment: one table says name, type, default and meaning of every variable; docs/ENVIRONMENT.md shows it.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "tc.h"

namespace tc {

// What the environment says; a variable that is not set leaves its field as it is here.
struct Env {
  tcBackend_t backend = tcBackendAuto;
  std::string bootstrap_dir;
  int init_timeout_ms = 60'000;
  std::optional<int> timeout_ms;        // over tcConfig_t::timeoutMs
  std::optional<int> entry_timeout_ms;  // over tcConfig_t::entryTimeoutMs
  int entry_warning_ms = 60'000;
  std::optional<size_t> workspace_bytes;
  tcPlane_t plane = tcPlaneAuto;
  int comm_sms = 0;  // 0: the kernels' default
  bool p2p_disable = false;
  bool vmm_disable = false;
  std::string verify = "cache";
  std::string cache_dir;        // "": the user's
  std::string verify_failures;  // see comm/verification.h
  int host_threads = 0;         // 0: the processor's share of one rank
  int jitter_us = 0;
  std::string sysfs_root;  // "": this machine's
  std::string topo_file;
  std::string facts_file;  // "": the built-in model
};

struct EnvVariable {
  const char* name;
  const char* type;
  const char* fallback;  // the default, in words
  const char* meaning;
  bool (*parse)(const std::string& text, Env* env);
};

const std::vector<EnvVariable>& EnvTable();

// Reads the environment: tcInvalidArgument names a variable whose value is bad. Unknown TC_* names that look like a
// misspelt one are warned about, once a process.
Status ReadEnv(Env* env);

// The number of single-character edits between two names.
size_t EditDistance(const std::string& a, const std::string& b);

}  // namespace tc
