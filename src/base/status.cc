#include "base/status.h"

#include <cstdarg>
#include <cstdio>
#include <system_error>

namespace tc {
namespace {

std::string FormatV(const char* format, va_list args) {
  va_list count;
  va_copy(count, args);
  const int length = std::vsnprintf(nullptr, 0, format, count);
  va_end(count);
  std::string text(length > 0 ? static_cast<size_t>(length) : 0, '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, args);
  return text;
}

}  // namespace

std::string Format(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::string text = FormatV(format, args);
  va_end(args);
  return text;
}

Status Error(tcResult_t code, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status(code, FormatV(format, args));
  va_end(args);
  return status;
}

Status SystemError(int error, const char* format, ...) {
  va_list args;
  va_start(args, format);
  Status status(tcSystemError, FormatV(format, args) + ": " + std::generic_category().message(error));
  va_end(args);
  return status;
}

}  // namespace tc
