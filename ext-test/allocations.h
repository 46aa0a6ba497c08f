// Counts heap allocations: the binary's own malloc, calloc, realloc and aligned ones stand before libc's, for the
// library, too.
#pragma once

#include <cstddef>
#include <string>

namespace tc::test {

enum class Threads { kCalling, kAll };

// Of all threads: by one of them at a time.
void StartCountingAllocations(Threads whose = Threads::kCalling);

// Ends the count. Allocations since its start, but for the CUDA driver's own; *callers names the objects that made
// them.
size_t StopCountingAllocations(std::string* callers);

}  // namespace tc::test
