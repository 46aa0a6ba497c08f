// What every perf binary is told on its command line, and how its values are read. Lists are comma separated.
#ifndef TC_PERF_OPTIONS_H_
#define TC_PERF_OPTIONS_H_

#include <CLI/CLI.hpp>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "element_type.h"

namespace tc::perf {

struct CommonOptions {
  std::vector<const ElementType*> types;
  std::vector<int> ranks;
  int iters = 20;
  int warmup_iters = 5;
  bool check = true;
  bool threads = false;  // ranks are threads of one process, not processes
  tcBackend_t backend = tcBackendAuto;
  int gpus = 0;           // that ranks take turns on; 0: all
  int graph_replays = 0;  // of the operator, by CUDA graph, in one timed iteration; 0: no graph
  uint64_t seed = 1;
  int timeout_s = 0;  // of the whole run; 0: none
  std::string json;   // empty: no report
};

// The command line asks for no run: `text` goes to stdout when exit_code is 0 (help), else to stderr.
struct EarlyExit {
  int exit_code;
  std::string text;
};

// The exit code of a command line that cannot be understood.
inline constexpr int kUsageExit = 2;

// What values() makes of the command line, once `app` has parsed it. Never throws: whatever is wrong comes back as an
// EarlyExit with a sentence.
template <class Values>
auto ParseCommandLine(const std::string& program, CLI::App& app, int argc, const char* const* argv,
                      const Values& values) -> std::variant<decltype(values()), EarlyExit> {
  try {
    app.parse(argc, argv);
    return values();
  } catch (const CLI::CallForHelp&) {
    return EarlyExit{0, app.help()};
  } catch (const std::exception& error) {
    return EarlyExit{kUsageExit, program + ": " + error.what() + "\n'" + program + " -h' lists the options.\n"};
  }
}

// How the options of one program differ from another's.
struct CommonOptionsKind {
  bool types = true;  // there is -d
  const char* graph =
      "Replay a CUDA graph of the operator N times in a timed iteration, and divide its time by N; 0: none";
};

// Adds the options of CommonOptions to a command-line parser. Values() reads what was typed.
class CommonOptionsParser {
 public:
  explicit CommonOptionsParser(CLI::App& app, const CommonOptionsKind& kind = {});
  // Call after the parse. Throws Failure with a sentence that names the option.
  CommonOptions Values() const;
  bool TypesGiven() const { return types_option_ != nullptr && types_option_->count() > 0; }

 private:
  std::string types_ = "float";
  std::string ranks_ = "2";
  std::string iters_ = "20";
  std::string warmup_iters_ = "5";
  std::string check_ = "1";
  std::string seed_ = "1";
  std::string timeout_ = "0";
  bool threads_ = false;
  std::string backend_ = "auto";
  std::string gpus_;
  std::string graph_replays_ = "0";
  std::string json_;
  CLI::Option* types_option_ = nullptr;  // nullptr: there is none
};

// Readers of single values. `option` is how the option is shown in the sentence of the Failure they throw.
uint64_t ParseInteger(std::string_view option, std::string_view text, uint64_t min, uint64_t max);
// 4096, 4K, 1M: a K is 1024, an M is 1024 * 1024.
size_t ParseSize(std::string_view option, std::string_view text);
std::vector<size_t> ParseSizes(std::string_view option, std::string_view text);
// auto, host, cuda
tcBackend_t ParseBackend(std::string_view option, std::string_view text);
const char* BackendName(tcBackend_t backend);
std::vector<const ElementType*> ParseTypes(std::string_view option, std::string_view text);
// Splits at `separator`; an empty part is a Failure.
std::vector<std::string> SplitList(std::string_view option, std::string_view text, char separator);

}  // namespace tc::perf

#endif  // TC_PERF_OPTIONS_H_
