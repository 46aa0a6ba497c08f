// The command line of the perf binaries of the fused GEMMs.
#ifndef TC_PERF_GEMM_OPTIONS_H_
#define TC_PERF_GEMM_OPTIONS_H_

#include <string>
#include <variant>
#include <vector>

#include "options.h"

namespace tc::perf {

struct GemmShape {
  size_t m;
  size_t n;
  size_t k;
};

struct GemmOptions {
  CommonOptions common;
  std::vector<GemmShape> shapes;  // empty when the shape comes from --a and --b
  tcBLayout_t b_layout = tcBLayoutNK;
  bool gathered = false;    // also ask for gatheredA
  bool registered = false;  // gatheredA in registered memory; implies gathered
  std::string a_path;       // the user's own arrays; both or none
  std::string b_path;
  std::string out_path;  // empty: the result is not kept

  bool OwnArrays() const { return !a_path.empty(); }
};

// Never throws: whatever is wrong comes back as an EarlyExit with a sentence.
std::variant<GemmOptions, EarlyExit> ParseGemmOptions(const std::string& program, int argc, const char* const* argv);

}  // namespace tc::perf

#endif  // TC_PERF_GEMM_OPTIONS_H_
