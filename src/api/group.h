// Groups: collective host calls of one thread for several communicators, held back and carried out together.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/status.h"
#include "comm/communicator.h"

namespace tc::api {

using Call = std::function<Status()>;

// Carries `call` out now, or, between tcGroupStart and tcGroupEnd, at the end of the group. `function` names the entry
// point; the call's status is reported either way. `comm`: whose call it is; NULL for an init.
tcResult_t Collective(const char* function, std::shared_ptr<Communicator> comm, Call call);

// Reports a call that is wrong in itself. In a group it makes the whole group fail at its end, with none of its calls
// made.
tcResult_t Refuse(const char* function, const Status& status);

// Carries all out at the same time, each on a thread of its own; the first error in their order. When there are not
// threads enough none is carried out.
Status RunTogether(const std::vector<Call>& calls);

}  // namespace tc::api
