#include "table.h"

#include <cstdio>

#include "environment.h"

namespace tc::perf {

void Table::Comment(const std::string& text) const {
  std::printf("#%s%s\n", text.empty() ? "" : " ", text.c_str());
  std::fflush(stdout);
}

void Table::Start(const std::string& program) const {
  Comment(program + ": TileComm library " + LibraryVersion() + ", header " + HeaderVersion());
  Comment("host " + HostName() + ", " + std::to_string(CpuCount()) + " CPUs");
}

void Table::Ranks(const RankGroup& group, const std::vector<std::string>& places, bool threads) const {
  const size_t n_ranks = places.size();
  Comment("");
  Comment("Using " + std::to_string(n_ranks) + (n_ranks == 1 ? " rank" : " ranks") +
          (threads ? ": threads of one process" : ": processes"));
  for (size_t i = 0; i < n_ranks; ++i) {
    const int rank = static_cast<int>(i);
    std::printf("#  Rank %2d Pid %6d on %s%s\n", rank, static_cast<int>(group.Pid(rank)), HostName().c_str(),
                places[i].c_str());
  }
  std::fflush(stdout);
}

void Table::Titles() {
  if (titles_shown_) return;
  titles_shown_ = true;
  std::vector<std::string> titles;
  std::vector<std::string> units;
  for (const Column& column : columns_) {
    titles.push_back(column.title);
    units.push_back(column.unit);
  }
  Comment("");
  Line("#", titles);
  Line("#", units);
}

void Table::Row(const std::vector<std::string>& cells) const { Line(" ", cells); }

void Table::Line(const std::string& start, const std::vector<std::string>& cells) const {
  std::string line = start;
  for (size_t i = 0; i < columns_.size(); ++i) {
    const auto width = static_cast<size_t>(columns_[i].width);
    line.append(cells[i].size() < width ? width - cells[i].size() : 1, ' ');
    line += cells[i];
  }
  line.erase(line.find_last_not_of(' ') + 1);
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void Table::Footer(const std::string& program, uint64_t wrong, bool checked) const {
  Comment("");
  const std::string verdict = wrong > 0 ? "FAILED" : checked ? "OK" : "OK (not checked)";
  Comment("Out of bounds values : " + std::to_string(wrong) + " " + verdict);
  Comment("Collective test concluded: " + program);
}

std::string FormatNumber(double value, int decimals) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", decimals, value);
  return text;
}

}  // namespace tc::perf
