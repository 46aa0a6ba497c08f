#include "api/structs.h"

#include "api/export.h"

namespace tc::api {

tcConfig_t DefaultConfig() {
  tcConfig_t config{};
  config.size = sizeof(config);
  config.device = -1;
  return config;
}

tcGemmConfig_t DefaultGemmConfig() {
  tcGemmConfig_t config{};
  config.size = sizeof(config);
  config.outType = -1;
  config.bType = -1;
  config.alpha = 1.0f;
  return config;
}

namespace {

template <class Struct>
tcResult_t Init(const char* function, Struct* theirs, size_t size, Struct defaults) {
  if (theirs == nullptr) return Report(function, Error(tcInvalidArgument, "the structure is NULL"));
  if (size < kFirstSize<Struct>) {
    return Report(function, Error(tcInvalidArgument, "size is %zu, less than version 0.1's %zu; pass sizeof(structure)",
                                  size, kFirstSize<Struct>));
  }
  std::memset(static_cast<void*>(theirs), 0, size);
  defaults.size = size;
  std::memcpy(static_cast<void*>(theirs), &defaults, std::min(size, sizeof(defaults)));
  return tcSuccess;
}

}  // namespace
}  // namespace tc::api

using namespace tc::api;  // NOLINT: this file only defines entry points from here on

TC_EXPORT(tcResult_t, tcConfigInit, (tcConfig_t * config, size_t size)) {
  return Init("tcConfigInit", config, size, DefaultConfig());
}

TC_EXPORT(tcResult_t, tcGemmConfigInit, (tcGemmConfig_t * config, size_t size)) {
  return Init("tcGemmConfigInit", config, size, DefaultGemmConfig());
}

TC_EXPORT(tcResult_t, tcMoeConfigInit, (tcMoeConfig_t * config, size_t size)) {
  return Init("tcMoeConfigInit", config, size, {});
}

TC_EXPORT(tcResult_t, tcMoeDispatchArgsInit, (tcMoeDispatchArgs_t * args, size_t size)) {
  return Init("tcMoeDispatchArgsInit", args, size, {});
}

TC_EXPORT(tcResult_t, tcMoeRecvInit, (tcMoeRecv_t * recv, size_t size)) {
  return Init("tcMoeRecvInit", recv, size, {});
}

TC_EXPORT(tcResult_t, tcMoeCombineArgsInit, (tcMoeCombineArgs_t * args, size_t size)) {
  return Init("tcMoeCombineArgsInit", args, size, {});
}

TC_EXPORT(tcResult_t, tcOpDescInit, (tcOpDesc_t * desc, size_t size)) { return Init("tcOpDescInit", desc, size, {}); }

TC_EXPORT(tcResult_t, tcCommStatsInit, (tcCommStats_t * stats, size_t size)) {
  return Init("tcCommStatsInit", stats, size, {});
}
