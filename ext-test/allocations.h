// Counts the calling thread's heap allocations: the binary's own malloc, calloc, realloc and aligned ones stand before
// libc's, for the library, too.
#pragma once

#include <string>

namespace tc::test {

void StartCountingAllocations();

// Ends the count. Allocations since its start, but for the CUDA driver's own; *callers names the objects that made
// them.
size_t StopCountingAllocations(std::string* callers);

}  // namespace tc::test
