// The machine that a communicator runs on.
#include <sstream>

#include "api/export.h"
#include "api/json_text.h"
#include "base/env.h"
#include "base/log.h"
#include "platform/discover.h"
#include "platform/render.h"

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

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
