// The border that exceptions do not cross.
#pragma once

#include <exception>
#include <new>

#include "base/status.h"

namespace tc {

// What `act` returns; an exception (no memory, no thread to be had) becomes tcSystemError.
template <class Act>
Status NoThrow(const Act& act) {
  try {
    return act();
  } catch (const std::bad_alloc&) {
    return Error(tcSystemError, "out of memory");
  } catch (const std::exception& failure) {
    return Error(tcSystemError, "%s; this process may have reached a limit of threads or memory", failure.what());
  }
}

}  // namespace tc
