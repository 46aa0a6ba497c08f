#include "statistics.h"

#include <algorithm>
#include <cstddef>

namespace tc::perf {

Summary Summarize(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t count = values.size();
  const double median = (values[(count - 1) / 2] + values[count / 2]) / 2;
  const size_t p99_rank = (count * 99 + 99) / 100;
  return {median, values[p99_rank - 1]};
}

std::vector<double> MaxOverRanks(const std::vector<std::vector<double>>& values_of_ranks) {
  std::vector<double> largest = values_of_ranks.at(0);
  for (const std::vector<double>& values : values_of_ranks) {
    for (size_t i = 0; i < largest.size(); ++i) largest[i] = std::max(largest[i], values.at(i));
  }
  return largest;
}

}  // namespace tc::perf
