// One case of a fused GEMM's perf binary, as a rank runs it.
#ifndef TC_PERF_GEMM_CASE_H_
#define TC_PERF_GEMM_CASE_H_

#include <memory>
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

// Elements that `bytes` touch at least.
inline uint64_t ElementsIn(size_t bytes, const ElementType& type) { return (bytes + type.bytes - 1) / type.bytes; }

// A case on one rank: its memory is there, and its inputs are in it.
class GemmCase {
 public:
  virtual ~GemmCase() = default;

  // One iteration on an input set, from a common start of all ranks to its end on this one: microseconds of one
  // operator. What c and gatheredA held before is gone.
  virtual double Time(size_t set) = 0;
  // Counts what the last Time, which was for this set and iteration, has left wrong.
  virtual void Check(size_t set, uint64_t iteration, RankResult* result) = 0;
  // c in host memory, packed, valid until the next call of any of these.
  virtual const std::byte* CopyOut() = 0;
};

// On CPUs. On every rank at once.
std::unique_ptr<GemmCase> MakeHostCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                                       Communicator& communicator);

// On the current GPU: its memory, events or graph replays as clock, and a check by kernels. On every rank at once.
std::unique_ptr<GemmCase> MakeDeviceCase(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                                         Communicator& communicator);

// Host memory that one rank on CPUs takes for a case.
double GemmCaseBytes(const GemmOptions& options, const GemmShape& shape, size_t sets, size_t element_bytes,
                     int n_ranks);

// Warm-up and timed iterations of tcFusedAllGatherGemm. `kept` receives rank 0's last c; nullptr: nobody wants it.
RankResult RunAllGatherGemm(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                            Communicator& communicator, SharedResult* kept);

}  // namespace tc::perf

#endif  // TC_PERF_GEMM_CASE_H_
