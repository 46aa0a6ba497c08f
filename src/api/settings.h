// From a tcConfig_t and the environment to a communicator's settings and backend.
#pragma once

#include <memory>

#include "base/env.h"
#include "comm/communicator.h"

namespace tc::api {

// Environment over configuration over default.
Status ResolveSettings(const tcConfig_t& config, const Env& env, CommSettings* settings);

// GPUs of this process; as many as there can be ranks on the host backend.
int DeviceCount(tcBackend_t backend);

// For a rank of a communicator of `n_ranks`.
Status MakeBackend(const CommSettings& settings, int n_ranks, std::unique_ptr<Backend>* backend);

// tcBackendHost or tcBackendCuda: what the configuration, the environment and this machine come to.
Status ChooseBackend(tcBackend_t configured, const Env& env, tcBackend_t* backend);

// Memory of tcMemAlloc: of the current device with CUDA, else shared memory.
Status AllocateShareable(tcBackend_t backend, size_t bytes, const Env& env, std::shared_ptr<Segment>* segment);

}  // namespace tc::api
