// Argument checks that operators share. Each returns tcInvalidArgument with the name of the argument.
#pragma once

#include "base/status.h"
#include "tc.h"

namespace tc {

// An element type that exists.
Status CheckType(tcDataType_t type);

// A reduction that exists.
Status CheckReduction(tcRedOp_t op);

// A rank of the communicator.
Status CheckRoot(int root, int n_ranks);

// A buffer of `elements` > 0: not NULL, aligned to its element. Nothing is asked of an empty one.
Status CheckBuffer(const char* name, const void* ptr, size_t elements, tcDataType_t type);

// Bytes that a user's address space has, at most.
inline constexpr uint64_t kMostBytes = uint64_t{1} << 47;

// a * b * element size is no more than that.
Status CheckBytes(const char* name, size_t a, size_t b, tcDataType_t type);

// Whether two ranges share a byte.
bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes);

}  // namespace tc
