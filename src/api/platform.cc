// The machine that a communicator runs on.
#include <sstream>

#include "api/export.h"
#include "base/env.h"
#include "base/log.h"
#include "platform/discover.h"
#include "platform/render.h"

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

namespace {

Status WriteText(const std::string& text, char* buffer, size_t* bytes) {
  TC_RETURN_IF_ERROR(CheckOutput("bytes", bytes));
  const size_t capacity = *bytes;
  *bytes = text.size() + 1;
  if (buffer == nullptr) return {};
  if (capacity < *bytes) {
    return Error(tcInvalidArgument, "json has room for %zu bytes; %zu are needed", capacity, *bytes);
  }
  text.copy(buffer, text.size());
  buffer[text.size()] = '\0';
  return {};
}

}  // namespace

TC_EXPORT(tcResult_t, tcGetPlatform, (tcComm_t comm, char* json, size_t* bytes)) {
  return WithComm("tcGetPlatform", comm, [&](Communicator&) {
    Env env;
    TC_RETURN_IF_ERROR(ReadEnv(&env));
    platform::Topology topology;
    TC_RETURN_IF_ERROR(platform::DiscoverTopology(env, &topology));
    Log(tcLogInfo, "the topology, from %s:", topology.source.c_str());
    std::istringstream rows(platform::ToText(topology));
    for (std::string row; std::getline(rows, row);) Log(tcLogInfo, "%s", row.c_str());
    return WriteText(platform::ToJson(topology), json, bytes);
  });
}
