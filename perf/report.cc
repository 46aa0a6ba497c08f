#include "report.h"

#include <algorithm>

#include "atomic_file.h"
#include "environment.h"

namespace tc::perf {

void Report::NoteGpu(const nlohmann::json& gpu) {
  nlohmann::json& gpus = gpu_environment_["gpus"];
  const nlohmann::json named = {{"device", gpu["device"]}, {"name", gpu["name"]}};
  if (std::find(gpus.begin(), gpus.end(), named) == gpus.end()) gpus.push_back(named);
  for (const char* version : {"driver_version", "cuda_driver_version", "cuda_runtime_version"}) {
    gpu_environment_[version] = gpu[version];
  }
}

void Report::Write(const std::string& path, const nlohmann::json& config, uint64_t wrong,
                   const std::string& error) const {
  if (path.empty()) return;
  nlohmann::json report = {{"config", config}, {"environment", Environment()}, {"results", rows_}};
  report["environment"].update(gpu_environment_);
  report["out_of_bounds"] = {{"count", wrong}, {"okay", wrong == 0}};
  report["error"] = error.empty() ? nlohmann::json(nullptr) : nlohmann::json(error);
  // A path need not be UTF-8, and a report is worth more than its exact bytes.
  const std::string text = report.dump(2, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  WriteFileAtomically(path, {text});
}

}  // namespace tc::perf
