// One case of a fused GEMM's perf binary, as a rank runs it.
#ifndef TC_PERF_GEMM_CASE_H_
#define TC_PERF_GEMM_CASE_H_

#include <nlohmann/json.hpp>
#include <vector>

#include "gemm_options.h"
#include "handles.h"
#include "inputs.h"
#include "shared_result.h"

namespace tc::perf {

// What one rank measured in one case.
struct RankResult {
  std::vector<double> times_us;  // of the timed iterations
  uint64_t wrong = 0;            // elements, summed over the timed iterations
  uint64_t spoiled = 0;          // elements written beside c or gatheredA, likewise
  uint64_t differing = 0;        // elements of the last c that are not rank 0's; only with a SharedResult
};

void to_json(nlohmann::json& json, const RankResult& result);
void from_json(const nlohmann::json& json, RankResult& result);

// Memory that one rank takes for a case, on the device and on the host together.
double GemmCaseBytes(const GemmOptions& options, const GemmShape& shape, size_t sets, size_t element_bytes,
                     int n_ranks);

// Warm-up and timed iterations of tcFusedAllGatherGemm. `kept` receives rank 0's last c; nullptr: nobody wants it.
RankResult RunAllGatherGemm(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                            Communicator& communicator, SharedResult* kept);

}  // namespace tc::perf

#endif  // TC_PERF_GEMM_CASE_H_
