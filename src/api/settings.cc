#include "api/settings.h"

#include <algorithm>
#include <thread>

#ifdef TC_HAVE_CUDA
#include "cuda/backend.h"
#include "cuda/segment.h"
#endif
#include "host/backend.h"
#include "host/segment.h"

namespace tc::api {
namespace {

constexpr size_t kDefaultWorkspaceBytes = size_t{256} << 20;
constexpr size_t kMostWorkspaceBytes = size_t{1} << 44;
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
  if (settings->workspace_bytes > kMostWorkspaceBytes) {
    return Error(tcInvalidArgument, "workspaceBytes is %zu; at most %zu can be addressed", settings->workspace_bytes,
                 kMostWorkspaceBytes);
  }
  settings->timeout = ms(env.timeout_ms, config.timeoutMs, kDefaultTimeoutMs);
  settings->entry_timeout = ms(env.entry_timeout_ms, config.entryTimeoutMs, kDefaultEntryTimeoutMs);
  settings->entry_warning = std::chrono::milliseconds(env.entry_warning_ms);
  settings->jitter = std::chrono::microseconds(env.jitter_us);
  settings->init_timeout = std::chrono::milliseconds(env.init_timeout_ms);
  settings->vmm_disable = env.vmm_disable;
  settings->plane = env.p2p_disable ? tcPlaneHostStaged : env.plane;
  settings->comm_sms = env.comm_sms;
  settings->host_threads = env.host_threads;
  settings->bootstrap_dir = env.bootstrap_dir;
  settings->cache_dir = env.cache_dir;
  settings->verify = env.verify == "full"  ? Verify::kAlways
                     : env.verify == "off" ? Verify::kNever
                                           : Verify::kUnlessRemembered;
  if (!env.verify_failures.empty() && !ParseCheckFailures(env.verify_failures, &settings->check_failures)) {
    return Error(tcInvalidArgument, "the environment variable TC_VERIFY_FAIL is \"%s\"; it takes CHECK:FROM-TO, ...",
                 env.verify_failures.c_str());
  }
  settings->fact_sources = {env.facts_file, env.sysfs_root, env.topo_file};
  settings->name = config.name != nullptr ? config.name : "";
  return {};
}

Status ChooseBackend(tcBackend_t configured, const Env& env, tcBackend_t* backend) {
  const tcBackend_t wanted = env.backend != tcBackendAuto ? env.backend : configured;
  *backend = tcBackendHost;
  if (wanted == tcBackendHost) return {};
#ifdef TC_HAVE_CUDA
  Status why;
  if (cuda::IsAvailable(&why)) {
    *backend = tcBackendCuda;
    return {};
  }
#else
  const Status why = Error(tcUnsupported, "this library was built without its CUDA backend");
#endif
  if (wanted == tcBackendAuto) return {};
  return Error(why.code(), "the CUDA backend is not to be had: %s; use tcBackendAuto or tcBackendHost",
               why.sentence().c_str());
}

int DeviceCount(tcBackend_t backend) {
#ifdef TC_HAVE_CUDA
  if (backend == tcBackendCuda) return cuda::DeviceCount();
#else
  (void)backend;
#endif
  return TC_MAX_RANKS;
}

Status MakeBackend(const CommSettings& settings, int n_ranks, std::unique_ptr<Backend>* backend) {
#ifdef TC_HAVE_CUDA
  if (settings.backend == tcBackendCuda) {
    return cuda::CudaBackend::Create(settings.device, settings.vmm_disable, backend);
  }
#endif
  int threads = settings.host_threads;
  if (threads == 0) threads = std::max(1, static_cast<int>(std::thread::hardware_concurrency()) / n_ranks);
  *backend = std::make_unique<host::HostBackend>(settings.device, threads);
  return {};
}

Status AllocateShareable(tcBackend_t backend, size_t bytes, const Env& env, std::shared_ptr<Segment>* segment) {
#ifdef TC_HAVE_CUDA
  if (backend == tcBackendCuda) return cuda::AllocateOnCurrentDevice(bytes, env.vmm_disable, segment);
#else
  (void)backend;
  (void)env;
#endif
  return host::AllocateShared(bytes, segment);
}

}  // namespace tc::api
