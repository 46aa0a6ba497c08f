// The common end of every operator call.
#pragma once

#include "base/status.h"
#include "registry/registry.h"

namespace tc {

// Launches, or, when `checked` is an error, posts the refusal to the peers and returns it. The call counts either way,
// so that ranks stay in step.
Status Issue(const Status& checked, const KernelRow* row, const Launch& launch);

}  // namespace tc
