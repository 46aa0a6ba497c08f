#include "barrier_case.h"

#include <chrono>
#include <thread>

#include "generator.h"
#include "run.h"

namespace tc::perf {
namespace {

// Memory of the ranks, and the host's clock.
class HostBarrierCase final : public BarrierCase {
 public:
  HostBarrierCase(const CommonOptions& options, RollCall& roll, Communicator& communicator)
      : seed_(options.seed), roll_(roll), communicator_(communicator), rank_(communicator.Owner()) {
    roll_.Reset(rank_.Index());
  }

  double Time() override {
    using Clock = std::chrono::steady_clock;
    communicator_.Barrier();
    const Clock::time_point start = Clock::now();
    communicator_.Barrier();
    return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
  }

  uint64_t CountEarly() override {
    uint64_t early = 0;
    for (int barrier = 0; barrier < rank_.Count(); ++barrier) {
      const uint64_t late_ns = LateNanoseconds(seed_, barrier, rank_.Index());
      if (late_ns > 0) std::this_thread::sleep_for(std::chrono::nanoseconds(late_ns));
      roll_.Announce(rank_.Index());
      communicator_.Barrier();
      early += roll_.CountAbsent(rank_.Index(), rank_.Count());
    }
    return early;
  }

  uint64_t BarriersOfTime() const override { return 2; }

 private:
  const uint64_t seed_;
  RollCall& roll_;
  Communicator& communicator_;
  Rank& rank_;
};

uint64_t CountOperators(const Communicator& communicator) {
  Rank& rank = communicator.Owner();
  tcCommStats_t stats;
  Require(rank, TC_COMM_STATS_INIT(&stats), "tcCommStatsInit");
  Require(rank, tcCommGetStats(communicator.Comm(), &stats), "tcCommGetStats", communicator.Comm());
  return stats.ops;
}

}  // namespace

void to_json(nlohmann::json& json, const BarrierResult& result) {
  json = {{"times_us", result.times_us}, {"early", result.early}, {"miscounted", result.miscounted}};
}

void from_json(const nlohmann::json& json, BarrierResult& result) {
  json.at("times_us").get_to(result.times_us);
  json.at("early").get_to(result.early);
  json.at("miscounted").get_to(result.miscounted);
}

std::unique_ptr<BarrierCase> MakeHostBarrierCase(const CommonOptions& options, RollCall& roll,
                                                 Communicator& communicator) {
  return std::make_unique<HostBarrierCase>(options, roll, communicator);
}

uint64_t LateNanoseconds(uint64_t seed, int barrier, int rank) {
  if (barrier != rank) return 0;
  return 100'000 + Mix(seed + static_cast<uint64_t>(barrier) * kGeneratorStep) % 100'000;
}

// The ranks meet on the host where one may allocate or free, see RunAllGatherGemm.
BarrierResult RunBarriers(const CommonOptions& options, RollCall& roll, Communicator& communicator) {
  Rank& rank = communicator.Owner();
  const auto make = communicator.OnGpu() ? MakeDeviceBarrierCase : MakeHostBarrierCase;
  std::unique_ptr<BarrierCase> c = make(options, roll, communicator);
  uint64_t counted = CountOperators(communicator);  // the first call may allocate
  rank.Meet();
  BarrierResult result;
  const auto time = [&](uint64_t) {
    if (options.check) counted = CountOperators(communicator);
    return c->Time();
  };
  const auto check = [&](uint64_t) {
    const uint64_t grown = CountOperators(communicator) - counted;
    const uint64_t wanted = c->BarriersOfTime();
    result.miscounted += grown > wanted ? grown - wanted : wanted - grown;
    result.early += c->CountEarly();
  };
  result.times_us = Iterate(options, time, check);
  rank.Meet();
  c.reset();
  rank.Meet();
  return result;
}

}  // namespace tc::perf
