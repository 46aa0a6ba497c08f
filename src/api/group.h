// Groups: collective host calls of one thread for several communicators, held back and carried out together.
#pragma once

#include <functional>
#include <vector>

#include "base/status.h"

namespace tc::api {

// Carries `call` out now, or, between tcGroupStart and tcGroupEnd, at the end of the group. `function` names the entry
// point; the call's status is reported either way.
tcResult_t Collective(const char* function, std::function<Status()> call);

bool InGroup();

// Carries all out at the same time, each on a thread of its own; the first error in the order of the calls.
Status RunTogether(const std::vector<std::function<Status()>>& calls);

}  // namespace tc::api
