// Log lines: to stderr, to the file that TC_DEBUG_FILE names, or to the user's callback.
#pragma once

#include <string>

namespace tc {

// `level` is one of tcLogError ... tcLogTrace. A line above the level of TC_DEBUG costs one comparison.
[[gnu::format(printf, 2, 3)]] void Log(int level, const char* format, ...);

void SetLogCallback(void (*callback)(int level, const char* message, void* user), void* user);

// "error", "WARN", ... to a level; -1 when it is none of them. "none" is 0.
int ParseLogLevel(const std::string& text);

}  // namespace tc
