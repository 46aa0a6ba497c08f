// What the tests of the perf binaries share: they run a binary as its user does. A target that includes this defines
// TC_PERF_PROGRAM, the binary's name, TC_PERF_BINARY and TC_PERF_FAULTY_BINARY, its paths.
#ifndef TC_PERF_BINARY_TEST_H_
#define TC_PERF_BINARY_TEST_H_

#include <gtest/gtest.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "placement.h"

namespace tc::perf {

struct Ended {
  int exit_code = -1;  // 128 + the signal that ended it
  std::string out;
  std::string err;
};

inline std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream stream(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
}

// The cells of the table's rows.
inline std::vector<std::vector<std::string>> Rows(const std::string& out) {
  std::vector<std::vector<std::string>> rows;
  std::istringstream lines(out);
  for (std::string line; std::getline(lines, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream cells(line);
    rows.emplace_back(std::istream_iterator<std::string>(cells), std::istream_iterator<std::string>());
  }
  return rows;
}

// How many columns the titles name; the last one is #wrong.
inline size_t Columns(const std::string& out) {
  const std::string end = " #wrong\n";
  const size_t stop = out.find(end);
  if (stop == std::string::npos) return 0;
  std::istringstream titles(out.substr(out.rfind('\n', stop) + 1, stop + end.size()));
  size_t columns = 0;
  for (std::string title; titles >> title && title != "#wrong";) ++columns;
  return columns;  // without the #, and with the last
}

// Each test runs in an empty folder of its own; output goes to files beside it.
class PerfBinaryTest : public ::testing::Test {
 protected:
  void SetUp() override {
    char name[] = TC_PERF_PROGRAM "_test.XXXXXX";
    ASSERT_NE(mkdtemp(name), nullptr);
    top_ = std::filesystem::absolute(name);
    folder_ = top_ / "run";
    std::filesystem::create_directory(folder_);
    // What outlives the binary becomes ours to see.
    ASSERT_EQ(prctl(PR_SET_CHILD_SUBREAPER, 1), 0);
  }
  void TearDown() override {
    EXPECT_EQ(waitpid(-1, nullptr, WNOHANG), -1) << "a process was left behind";
    EXPECT_EQ(errno, ECHILD);
    std::filesystem::remove_all(top_);
  }

  pid_t Start(const std::string& binary, const std::string& arguments) const {
    const std::string command =
        "cd '" + folder_.string() + "' && exec '" + binary + "' " + arguments + " >../out 2>../err";
    const pid_t pid = fork();
    if (pid == 0) {
      execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
      _exit(127);
    }
    return pid;
  }

  Ended Wait(pid_t pid) const {
    int status = 0;
    EXPECT_EQ(waitpid(pid, &status, 0), pid);
    const int exit_code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return {exit_code, ReadFile(top_ / "out"), ReadFile(top_ / "err")};
  }

  // -T, so that a hang is a failure of this test and not of the whole run.
  Ended Run(const std::string& arguments) const {
    return Wait(Start(TC_PERF_BINARY, "-T 240 --backend host " + arguments));
  }

  // With a library whose rank 1 goes wrong.
  Ended RunFaulty(const std::string& fault, const std::string& arguments, const std::string& backend = "host") const {
    setenv("PERF_FAULT", fault.c_str(), 1);
    const Ended ended = Wait(Start(TC_PERF_FAULTY_BINARY, "-T 240 --backend " + backend + " " + arguments));
    unsetenv("PERF_FAULT");
    return ended;
  }

  // All went well, with `rows` rows of right results.
  static void ExpectRight(const Ended& ended, size_t rows) {
    EXPECT_EQ(ended.exit_code, 0) << ended.out << ended.err;
    EXPECT_EQ(ended.err, "");
    EXPECT_NE(ended.out.find("# Out of bounds values : 0 OK\n"), std::string::npos) << ended.out;
    EXPECT_NE(ended.out.find("# Collective test concluded: " TC_PERF_PROGRAM "\n"), std::string::npos) << ended.out;
    const auto table = Rows(ended.out);
    EXPECT_EQ(table.size(), rows) << ended.out;
    for (const auto& row : table) {
      ASSERT_EQ(row.size(), Columns(ended.out)) << ended.out;
      EXPECT_EQ(row.back(), "0") << ended.out;
    }
  }

  // The command line was refused before anything ran, in a sentence with `part`.
  static void ExpectRefused(const Ended& ended, const std::string& part) {
    EXPECT_EQ(ended.exit_code, 2) << ended.out << ended.err;
    EXPECT_EQ(ended.out, "");
    EXPECT_NE(ended.err.find(part), std::string::npos) << ended.err;
  }

  void ExpectFiles(const std::vector<std::string>& wanted) const {
    std::vector<std::string> found;
    for (const auto& entry : std::filesystem::directory_iterator(folder_)) found.push_back(entry.path().filename());
    std::sort(found.begin(), found.end());
    EXPECT_EQ(found, wanted);
  }

  std::string Path(const std::string& name) const { return folder_ / name; }

  std::filesystem::path top_;
  std::filesystem::path folder_;
};

// On one GPU, which is where two ranks can be everywhere.
class GpuPerfTest : public PerfBinaryTest {
 protected:
  void SetUp() override {
    if (VisibleGpus() == 0) GTEST_SKIP() << "no GPU";
    PerfBinaryTest::SetUp();
  }
  void TearDown() override {
    if (!IsSkipped()) PerfBinaryTest::TearDown();
  }
  static constexpr const char* kOnOneGpu = "-g 1 --threads ";
};

}  // namespace tc::perf

#endif  // TC_PERF_BINARY_TEST_H_
