#include "base/log.h"

#include <strings.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <mutex>

#include "tc.h"

namespace tc {
namespace {

constexpr const char* kLevelNames[] = {"none", "error", "warn", "info", "trace"};

std::string HostName() {
  char name[256] = "localhost";
  ::gethostname(name, sizeof(name) - 1);
  return name;
}

// %h: host name, %p: process id, %%: a percent sign.
std::string ExpandFileName(const std::string& pattern) {
  std::string name;
  for (size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] != '%' || i + 1 == pattern.size()) {
      name += pattern[i];
      continue;
    }
    switch (pattern[++i]) {
      case 'h':
        name += HostName();
        break;
      case 'p':
        name += std::to_string(::getpid());
        break;
      default:
        name += pattern[i];
    }
  }
  return name;
}

// The library's only global mutable state.
struct Sink {
  Sink() {
    if (const char* text = std::getenv("TC_DEBUG")) {
      // A bad value is reported by the first call that reads the environment as a whole; until then the default holds.
      if (const int parsed = ParseLogLevel(text); parsed >= 0) level = parsed;
    }
    if (const char* pattern = std::getenv("TC_DEBUG_FILE"); pattern != nullptr && pattern[0] != '\0') {
      file = std::fopen(ExpandFileName(pattern).c_str(), "ae");
    }
  }

  std::mutex mutex;
  int level = tcLogWarn;
  std::FILE* file = nullptr;  // closed by the end of the process
  void (*callback)(int, const char*, void*) = nullptr;
  void* user = nullptr;
};

Sink& TheSink() {
  static Sink* sink = new Sink;  // never destroyed: threads may log while the process ends
  return *sink;
}

}  // namespace

int ParseLogLevel(const std::string& text) {
  for (int level = 0; level <= tcLogTrace; ++level) {
    if (::strcasecmp(text.c_str(), kLevelNames[level]) == 0) return level;
  }
  return -1;
}

void Log(int level, const char* format, ...) {
  Sink& sink = TheSink();
  if (level > sink.level) return;
  char message[2048];
  va_list args;
  va_start(args, format);
  std::vsnprintf(message, sizeof(message), format, args);
  va_end(args);
  std::lock_guard lock(sink.mutex);
  if (sink.callback != nullptr) {
    sink.callback(level, message, sink.user);
    return;
  }
  std::FILE* out = sink.file != nullptr ? sink.file : stderr;
  std::fprintf(out, "%s:%d:%ld tilecomm %s: %s\n", HostName().c_str(), ::getpid(), ::syscall(SYS_gettid),
               kLevelNames[std::clamp<int>(level, 1, tcLogTrace)], message);
  std::fflush(out);
}

void SetLogCallback(void (*callback)(int level, const char* message, void* user), void* user) {
  Sink& sink = TheSink();
  std::lock_guard lock(sink.mutex);
  sink.callback = callback;
  sink.user = user;
}

}  // namespace tc
