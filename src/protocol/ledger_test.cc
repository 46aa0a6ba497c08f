// The wait ledger and the table of named barriers in docs/PROTOCOL.md say what the code does.
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <regex>
#include <set>
#include <sstream>
#include <string>

namespace {

namespace fs = std::filesystem;

std::string Contents(const fs::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

int Count(const std::string& text, const std::string& part) {
  int count = 0;
  for (size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + part.size())) ++count;
  return count;
}

// Calls `visit(path below src, contents)` for the library's sources.
template <class Visit>
void ForEachSource(const std::set<std::string>& layers, const Visit& visit) {
  const fs::path src = fs::path(TC_SOURCE_DIR) / "src";
  for (const std::string& layer : layers) {
    for (const auto& entry : fs::recursive_directory_iterator(src / layer)) {
      const std::string name = entry.path().filename();
      if (!entry.is_regular_file() || name.find("_test.") != std::string::npos) continue;
      visit(fs::relative(entry.path(), src).string(), Contents(entry.path()));
    }
  }
}

// The first cells, in backticks, of the table below a heading.
std::multiset<std::string> TagsBelow(const std::string& heading) {
  const std::string text = Contents(fs::path(TC_SOURCE_DIR) / "docs" / "PROTOCOL.md");
  const size_t begin = text.find("\n## " + heading);
  EXPECT_NE(begin, std::string::npos) << heading;
  if (begin == std::string::npos) return {};
  const std::string section = text.substr(begin, text.find("\n## ", begin + 1) - begin);
  const std::regex row("\\n\\| `([^`]+)`");
  std::multiset<std::string> tags;
  for (std::sregex_iterator it(section.begin(), section.end(), row); it != std::sregex_iterator(); ++it) {
    tags.insert((*it)[1]);
  }
  return tags;
}

// A file's waits are numbered in the order of its lines: `host/epoch.cc#1`.
TEST(Ledger, NamesEveryWaitOfTheCodeAndNoOther) {
  std::multiset<std::string> waits;
  ForEachSource({"api", "comm", "cuda", "host", "ops", "planes"},
                [&](const std::string& path, const std::string& text) {
                  int count = 0;
                  for (const char* call : {"WaitUntil<", ".wait(", ".wait_for(", "::poll(", "sleep_for("})
                    count += Count(text, call);
                  for (int number = 1; number <= count; ++number) waits.insert(path + "#" + std::to_string(number));
                });
  const std::multiset<std::string> ledger = TagsBelow("Wait ledger");
  EXPECT_GE(waits.size(), 10u) << "the sources were not found";
  for (const std::string& tag : waits) EXPECT_EQ(ledger.count(tag), 1u) << tag << " is not in the ledger, or twice";
  for (const std::string& tag : ledger) EXPECT_EQ(waits.count(tag), 1u) << tag << " is in the ledger, not in the code";
}

// A wait that the ledger cannot see: a loop of one's own round a protocol predicate.
TEST(Ledger, NobodySpinsBesideWaitUntil) {
  const std::regex own_loop("while \\(!(Has|Reached|GateIsOpen|TakePacket|ReadVerdict)");
  ForEachSource({"api", "comm", "cuda", "host", "ops", "planes"},
                [&](const std::string& path, const std::string& text) {
                  EXPECT_FALSE(std::regex_search(text, own_loop)) << path;
                });
}

// P13: a named barrier is one that is not __syncthreads'; an mbarrier and a cluster's barrier are none.
TEST(Ledger, NamesEveryNamedBarrierOfTheKernelsAndNoOther) {
  const std::regex named("\\b(bar|barrier)(\\.cta)?\\.(sync|arrive|red)[^\\n]*");
  std::multiset<std::string> users;
  if (!fs::exists(fs::path(TC_SOURCE_DIR) / "src" / "cuda")) GTEST_SKIP();
  ForEachSource({"cuda"}, [&](const std::string& path, const std::string& text) {
    int number = 0;
    for (std::sregex_iterator it(text.begin(), text.end(), named); it != std::sregex_iterator(); ++it) {
      users.insert(path + "#" + std::to_string(++number));
    }
  });
  EXPECT_EQ(users, TagsBelow("Named barriers"));
}

}  // namespace
