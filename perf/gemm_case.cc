#include "gemm_case.h"

#include "device.h"
#include "shards.h"

namespace tc::perf {
namespace {

RankResult Iterate(const CommonOptions& options, size_t sets, GemmCase& c) {
  RankResult result;
  const int all = options.warmup_iters + options.iters;
  for (int iteration = 0; iteration < all; ++iteration) {
    const size_t set = static_cast<size_t>(iteration) % sets;
    const double time_us = c.Time(set);
    if (iteration < options.warmup_iters) continue;
    result.times_us.push_back(time_us);
    if (options.check) c.Check(set, static_cast<uint64_t>(iteration), &result);
  }
  return result;
}

void Keep(const Rank& rank, const ElementType& type, const std::byte* c, SharedResult* kept, RankResult* result) {
  if (rank.Index() == 0) {
    kept->Publish(c);
  } else {
    result->differing = kept->CountDifferences(c, type.bytes);
  }
}

}  // namespace

void to_json(nlohmann::json& json, const RankResult& result) {
  json = {{"times_us", result.times_us},
          {"wrong", result.wrong},
          {"spoiled", result.spoiled},
          {"differing", result.differing}};
}

void from_json(const nlohmann::json& json, RankResult& result) {
  json.at("times_us").get_to(result.times_us);
  json.at("wrong").get_to(result.wrong);
  json.at("spoiled").get_to(result.spoiled);
  json.at("differing").get_to(result.differing);
}

double GemmCaseBytes(const GemmOptions& options, const GemmShape& shape, size_t sets, size_t element_bytes,
                     int n_ranks) {
  const auto m = static_cast<double>(shape.m);
  const auto n = static_cast<double>(shape.n);
  const auto k = static_cast<double>(shape.k);
  const double inputs =
      static_cast<double>(sets) * (static_cast<double>(ShardOf(shape.m, n_ranks, 0).rows) * k + n * k);
  const double outputs = m * n + (options.gathered ? m * k : 0);
  return (inputs + 2 * outputs) * static_cast<double>(element_bytes);
}

// On GPUs to allocate and to free may wait until the device is idle, so no rank may do so while another one's operator
// waits for it: the ranks meet between.
RankResult RunAllGatherGemm(const GemmOptions& options, const GemmShape& shape, const Inputs& inputs,
                            Communicator& communicator, SharedResult* kept) {
  Rank& rank = communicator.Owner();
  const auto make = communicator.OnGpu() ? MakeDeviceCase : MakeHostCase;
  std::unique_ptr<GemmCase> c = make(options, shape, inputs, communicator);
  rank.Meet();
  RankResult result = Iterate(options.common, inputs.Sets(), *c);
  rank.Meet();
  if (kept != nullptr) Keep(rank, inputs.Type(), c->CopyOut(), kept, &result);
  c.reset();
  rank.Meet();
  return result;
}

}  // namespace tc::perf
