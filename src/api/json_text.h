// A text that goes into the caller's buffer.
#pragma once

#include <string>

#include "api/export.h"

namespace tc::api {

// buffer NULL: *bytes receives the size needed, terminator included. Else *bytes is the buffer's size, and receives the
// size of the text. tcInvalidArgument when there is no room.
inline Status WriteText(const std::string& text, char* buffer, size_t* bytes) {
  TC_RETURN_IF_ERROR(CheckOutput("bytes", bytes));
  const size_t capacity = *bytes;
  *bytes = text.size() + 1;
  if (buffer == nullptr) return {};
  if (capacity < *bytes) {
    return Error(tcInvalidArgument, "json has room for %zu bytes; %zu are needed", capacity, *bytes);
  }
  text.copy(buffer, text.size());
  buffer[text.size()] = '\0';
  return {};
}

}  // namespace tc::api
