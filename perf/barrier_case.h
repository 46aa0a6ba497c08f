// Barriers, as a rank measures them.
#ifndef TC_PERF_BARRIER_CASE_H_
#define TC_PERF_BARRIER_CASE_H_

#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "handles.h"
#include "options.h"
#include "roll_call.h"

namespace tc::perf {

// What one rank measured.
struct BarrierResult {
  std::vector<double> times_us;  // of the timed iterations, for one barrier
  uint64_t early = 0;            // how often it left a barrier before a peer had come to it
  uint64_t miscounted = 0;       // barriers by which tcCommGetStats is wrong
};

void to_json(nlohmann::json& json, const BarrierResult& result);
void from_json(const nlohmann::json& json, BarrierResult& result);

class BarrierCase {
 public:
  virtual ~BarrierCase() = default;

  // Microseconds of one barrier, from a common start of all ranks to its end on this one.
  virtual double Time() = 0;
  // Runs as many barriers as there are ranks, to each of which another rank comes late. Returns how often this rank
  // left one before a peer had come.
  virtual uint64_t CountEarly() = 0;
  // Barriers that Time runs, the one for the common start included.
  virtual uint64_t BarriersOfTime() const = 0;
};

// On CPUs, and on the current GPU. On every rank at once.
std::unique_ptr<BarrierCase> MakeHostBarrierCase(const CommonOptions& options, RollCall& roll,
                                                 Communicator& communicator);
std::unique_ptr<BarrierCase> MakeDeviceBarrierCase(const CommonOptions& options, RollCall& roll,
                                                   Communicator& communicator);

// How long `rank` keeps the others waiting before a barrier of CountEarly: 100 to 200 us when it is its turn, else 0.
uint64_t LateNanoseconds(uint64_t seed, int barrier, int rank);

// Warm-up and timed iterations.
BarrierResult RunBarriers(const CommonOptions& options, RollCall& roll, Communicator& communicator);

}  // namespace tc::perf

#endif  // TC_PERF_BARRIER_CASE_H_
