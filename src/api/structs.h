// Reading the caller's structures, whatever version of tc.h they were compiled with.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstring>

#include "base/status.h"
#include "tc.h"

namespace tc::api {

// Structures have grown by fields at their ends: version 0.1's size is the least that is accepted. Every structure is
// still as it was in 0.1; one that grows must state its old size here.
template <class Struct>
constexpr size_t kFirstSize = sizeof(Struct);

// Copies what the caller has over `mine`, which holds the defaults. NULL leaves the defaults.
template <class Struct>
Status ReadStruct(const char* name, const Struct* theirs, Struct* mine) {
  if (theirs == nullptr) return {};
  const size_t size = theirs->size;
  if (size < kFirstSize<Struct>) {
    return Error(tcInvalidArgument,
                 "%s.size is %zu, less than version 0.1's %zu; fill the structure with its Init function", name, size,
                 kFirstSize<Struct>);
  }
  const char* bytes = reinterpret_cast<const char*>(theirs);
  // A size that was never set can be anything; no version of a structure is near this.
  if (size > (size_t{1} << 16)) {
    return Error(tcInvalidArgument, "%s.size is %zu; fill the structure with its Init function", name, size);
  }
  if (std::any_of(bytes + std::min(size, sizeof(Struct)), bytes + size, [](char byte) { return byte != 0; })) {
    return Error(tcInvalidArgument, "%s sets fields behind its first %zu bytes, which this version does not know", name,
                 sizeof(Struct));
  }
  std::memcpy(mine, theirs, std::min(size, sizeof(Struct)));
  mine->size = sizeof(Struct);
  return {};
}

// Copies a result into the caller's structure, not past its size.
template <class Struct>
Status WriteStruct(const char* name, const Struct& mine, Struct* theirs) {
  if (theirs == nullptr) return Error(tcInvalidArgument, "%s is NULL", name);
  const size_t size = theirs->size;
  if (size < kFirstSize<Struct>) {
    return Error(tcInvalidArgument,
                 "%s->size is %zu, less than version 0.1's %zu; fill the structure with its Init function", name, size,
                 kFirstSize<Struct>);
  }
  std::memcpy(theirs, &mine, std::min(size, sizeof(Struct)));
  theirs->size = size;
  return {};
}

tcConfig_t DefaultConfig();
tcGemmConfig_t DefaultGemmConfig();

}  // namespace tc::api
