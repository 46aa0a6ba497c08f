// The JSON report of a run (-J).
#ifndef TC_PERF_REPORT_H_
#define TC_PERF_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>

namespace tc::perf {

class Report {
 public:
  // `gpu`: what UseDevice returned. Each GPU is kept once, and what is the same for all of them.
  void NoteGpu(const nlohmann::json& gpu);
  void AddRow(const nlohmann::json& row) { rows_.push_back(row); }
  // `wrong`: of the whole run. `error`: empty when there was none. No path: nothing is written. Throws Failure.
  void Write(const std::string& path, const nlohmann::json& config, uint64_t wrong, const std::string& error) const;

 private:
  nlohmann::json gpu_environment_ = nlohmann::json::object();
  nlohmann::json rows_ = nlohmann::json::array();
};

}  // namespace tc::perf

#endif  // TC_PERF_REPORT_H_
