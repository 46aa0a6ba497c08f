// The one exception of the perf binaries: a sentence for the person at the terminal.
#ifndef TC_PERF_FAILURE_H_
#define TC_PERF_FAILURE_H_

#include <stdexcept>

namespace tc::perf {

class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace tc::perf

#endif  // TC_PERF_FAILURE_H_
