// Median and p99 of measured times.
#ifndef TC_PERF_STATISTICS_H_
#define TC_PERF_STATISTICS_H_

#include <vector>

namespace tc::perf {

struct Summary {
  double median;
  double p99;  // the smallest value that at least 99 % do not exceed
};

// `values`: at least one.
Summary Summarize(std::vector<double> values);

// Element i is the largest of all lists' elements i: an iteration takes as long as its slowest rank. All lists have one
// length.
std::vector<double> MaxOverRanks(const std::vector<std::vector<double>>& values_of_ranks);

}  // namespace tc::perf

#endif  // TC_PERF_STATISTICS_H_
