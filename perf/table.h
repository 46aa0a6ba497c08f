// The table on stdout, in nccl-tests' manner: every line but the rows starts with '#'. Each line is flushed as it is
// written.
#ifndef TC_PERF_TABLE_H_
#define TC_PERF_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ranks.h"

namespace tc::perf {

struct Column {
  std::string title;
  std::string unit;  // shown below the title; may be empty
  int width;
};

class Table {
 public:
  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void Comment(const std::string& text) const;
  // The first lines: what runs, and where.
  void Start(const std::string& program) const;
  // Who the ranks are. `places`: [n_ranks], what a rank's line says beside its host.
  void Ranks(const RankGroup& group, const std::vector<std::string>& places, bool threads) const;
  // The column titles; only the first call prints them.
  void Titles();
  void Row(const std::vector<std::string>& cells) const;
  // The last lines. `wrong`: elements of the whole run.
  void Footer(const std::string& program, uint64_t wrong, bool checked) const;

 private:
  void Line(const std::string& start, const std::vector<std::string>& cells) const;

  std::vector<Column> columns_;
  bool titles_shown_ = false;
};

// 12.34
std::string FormatNumber(double value, int decimals = 2);

}  // namespace tc::perf

#endif  // TC_PERF_TABLE_H_
