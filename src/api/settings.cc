#include "api/settings.h"

#include <algorithm>
#include <thread>

#include "host/backend.h"

namespace tc::api {
namespace {

constexpr size_t kDefaultWorkspaceBytes = size_t{256} << 20;
constexpr int kDefaultTimeoutMs = 60'000;
constexpr int kDefaultEntryTimeoutMs = 1'800'000;

Status CheckConfig(const tcConfig_t& config) {
  const auto not_negative = [](const char* name, int value) {
    return value >= 0 ? Status() : Error(tcInvalidArgument, "tcConfig_t::%s is %d; it must be 0 or more", name, value);
  };
  TC_RETURN_IF_ERROR(not_negative("maxSMs", config.maxSMs));
  TC_RETURN_IF_ERROR(not_negative("timeoutMs", config.timeoutMs));
  TC_RETURN_IF_ERROR(not_negative("entryTimeoutMs", config.entryTimeoutMs));
  if (config.device < -1) {
    return Error(tcInvalidArgument, "tcConfig_t::device is %d; it must be -1 or a device's number", config.device);
  }
  if (config.backend < tcBackendAuto || config.backend > tcBackendCuda) {
    return Error(tcInvalidArgument, "tcConfig_t::backend is %d, which is no tcBackend_t", config.backend);
  }
  return {};
}

}  // namespace

Status ResolveSettings(const tcConfig_t& config, const Env& env, CommSettings* settings) {
  TC_RETURN_IF_ERROR(CheckConfig(config));
  const auto ms = [](const std::optional<int>& over, int configured, int fallback) {
    return std::chrono::milliseconds(over.value_or(configured != 0 ? configured : fallback));
  };
  settings->device = config.device;
  settings->workspace_bytes =
      env.workspace_bytes.value_or(config.workspaceBytes != 0 ? config.workspaceBytes : kDefaultWorkspaceBytes);
  settings->timeout = ms(env.timeout_ms, config.timeoutMs, kDefaultTimeoutMs);
  settings->entry_timeout = ms(env.entry_timeout_ms, config.entryTimeoutMs, kDefaultEntryTimeoutMs);
  settings->init_timeout = std::chrono::milliseconds(env.init_timeout_ms);
  settings->host_threads = env.host_threads;
  settings->bootstrap_dir = env.bootstrap_dir;
  settings->name = config.name != nullptr ? config.name : "";
  return {};
}

Status ChooseBackend(tcBackend_t configured, const Env& env, tcBackend_t* backend) {
  const tcBackend_t wanted = env.backend != tcBackendAuto ? env.backend : configured;
  if (wanted == tcBackendCuda) {
    return Error(tcUnsupported, "this library was built without its CUDA backend; use tcBackendAuto or tcBackendHost");
  }
  *backend = tcBackendHost;
  return {};
}

Status MakeBackend(tcBackend_t, const CommSettings& settings, int n_ranks, std::unique_ptr<Backend>* backend) {
  int threads = settings.host_threads;
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / n_ranks);
  *backend = std::make_unique<host::HostBackend>(settings.device, threads);
  return {};
}

}  // namespace tc::api
