// The result of a step inside the library: a tcResult_t and the sentence that tcGetLastError() will return.
#pragma once

#include <string>
#include <utility>

#include "tc.h"

namespace tc {

// printf into a string.
[[gnu::format(printf, 1, 2)]] std::string Format(const char* format, ...);

class [[nodiscard]] Status {
 public:
  Status() = default;
  Status(tcResult_t code, std::string sentence) : code_(code), sentence_(std::move(sentence)) {}

  bool ok() const { return code_ == tcSuccess; }
  tcResult_t code() const { return code_; }
  const std::string& sentence() const { return sentence_; }

 private:
  tcResult_t code_ = tcSuccess;
  std::string sentence_;
};

// Whether a call that returns this code has had no effect: its communicator is as good as before.
constexpr bool LeavesUsable(tcResult_t code) {
  return code == tcSuccess || code == tcInvalidArgument || code == tcInvalidUsage || code == tcUnsupported;
}

// An error with a printf sentence: `return Error(tcInvalidArgument, "nRanks is %d; ...", n);`
[[gnu::format(printf, 2, 3)]] Status Error(tcResult_t code, const char* format, ...);

// tcSystemError whose sentence ends with the text of `error` (an errno value).
[[gnu::format(printf, 2, 3)]] Status SystemError(int error, const char* format, ...);

#define TC_RETURN_IF_ERROR(expression)       \
  do {                                       \
    ::tc::Status tc_status_ = (expression);  \
    if (!tc_status_.ok()) return tc_status_; \
  } while (false)

}  // namespace tc
