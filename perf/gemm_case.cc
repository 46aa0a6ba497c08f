#include "gemm_case.h"

#include "run.h"
#include "shards.h"

namespace tc::perf {
namespace {

RankResult IterateOverSets(const CommonOptions& options, size_t sets, GemmCase& c) {
  RankResult result;
  result.times_us = Iterate(
      options, [&](uint64_t iteration) { return c.Time(iteration % sets); },
      [&](uint64_t iteration) { c.Check(iteration % sets, iteration, &result); });
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
  RankResult result = IterateOverSets(options.common, inputs.Sets(), *c);
  rank.Meet();
  if (kept != nullptr) Keep(rank, inputs.Type(), c->CopyOut(), kept, &result);
  c.reset();
  rank.Meet();
  return result;
}

}  // namespace tc::perf
