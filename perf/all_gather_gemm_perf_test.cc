// Runs the perf binary as its user does, and looks at what the user gets: exit code, output, files, processes.
#include <cstdio>
#include <cstring>
#include <map>
#include <set>

#include "binary_test.h"
#include "inputs.h"
#include "npy.h"
#include "reference.h"

namespace tc::perf {
namespace {

TEST_F(PerfBinaryTest, ProcessesAreRightForEveryType) {
  const Ended ended = Run("-r 2 -M 64,65 -N 48 -K 40 -d all -n 4 -w 1");
  ExpectRight(ended, 6);
  EXPECT_EQ(Rows(ended.out)[3][0], "65");
  EXPECT_EQ(Rows(ended.out)[5][3], "bfloat16");
  ExpectFiles({});
}

TEST_F(PerfBinaryTest, ThreadsAreRightForEveryType) {
  ExpectRight(Run("--threads -r 3 -M 64,65 -N 48 -K 40 -d all -n 4 -w 1"), 6);
  ExpectFiles({});
}

TEST_F(PerfBinaryTest, RanksAreProcessesOrThreadsAsAsked) {
  for (const bool threads : {false, true}) {
    const Ended ended = Run(std::string("-r 3 -M 8 -N 8 -K 8 -n 1 ") + (threads ? "--threads" : ""));
    ExpectRight(ended, 1);
    std::set<int> pids;
    int lines = 0;
    std::istringstream stream(ended.out);
    for (std::string line; std::getline(stream, line);) {
      int rank;
      int pid;
      if (std::sscanf(line.c_str(), "# Rank %d Pid %d on", &rank, &pid) != 2) continue;
      EXPECT_EQ(rank, lines++);
      pids.insert(pid);
    }
    EXPECT_EQ(lines, 3);
    EXPECT_EQ(pids.size(), threads ? 1u : 3u);
  }
}

TEST_F(PerfBinaryTest, GathersARightlyAlsoInRegisteredMemory) {
  for (const char* how : {"--gathered", "--registered"}) {
    for (const char* layout : {"nk", "kn"}) {
      ExpectRight(Run(std::string(how) + " -b " + layout + " -r 1,3 -M 70 -N 33 -K 50 -d all -n 2 -w 1"), 6);
    }
  }
}

TEST_F(PerfBinaryTest, RanksWithoutRowsAndEmptyResultsAreRight) {
  ExpectRight(Run("-r 4 --gathered --shapes 2x5x7,5x16x3,0x16x3,16x0x3,1x1x1 -n 2 -w 1"), 5);
}

TEST_F(PerfBinaryTest, LargeShapesAreSampled) { ExpectRight(Run("-r 2 --shapes 520x520x600 -n 2 -w 0"), 1); }

TEST_F(PerfBinaryTest, NothingIsCheckedWithoutCheck) {
  const Ended ended = Run("-c 0 -M 8 -N 8 -K 8 -n 1");
  EXPECT_EQ(ended.exit_code, 0) << ended.err;
  EXPECT_NE(ended.out.find("# Out of bounds values : 0 OK (not checked)\n"), std::string::npos) << ended.out;
  EXPECT_EQ(Rows(ended.out).at(0).back(), "N/A");
}

TEST_F(PerfBinaryTest, RefusesWhatItCannotRun) {
  ExpectRefused(Run("--no-such-flag"), "--no-such-flag");
  ExpectRefused(Run("-M 12x"), "'12x' is not a size");
  ExpectRefused(Run("-J none/report.json"), "cannot write none/report.json: No such file or directory");
  ExpectRefused(Run("-J /dev/null"), "not a regular file");
  ExpectRefused(Run("-M 1M -N 1M -K 1M"), "this machine has");
  ExpectRefused(Run("-G 10"), "leave --backend host away");
  ExpectRefused(Wait(Start("/usr/bin/env", std::string("CUDA_VISIBLE_DEVICES= ") + TC_PERF_BINARY + " --backend cuda")),
                "no GPU");
  ExpectFiles({});
}

TEST_F(PerfBinaryTest, WritesAReport) {
  ExpectRight(Run("-r 2,3 -M 20 -N 30 -K 40 -d half -n 7 -w 1 --seed 5 -J report.json"), 2);
  ExpectFiles({"report.json"});
  const auto report = nlohmann::json::parse(ReadFile(Path("report.json")));
  EXPECT_EQ(report["config"]["iters"], 7);
  EXPECT_EQ(report["config"]["seed"], 5);
  EXPECT_EQ(report["config"]["ranks"], nlohmann::json({2, 3}));
  EXPECT_GT(report["environment"]["cpus"], 0);
  EXPECT_TRUE(report["environment"]["library_version"].is_string());
  EXPECT_EQ(report["out_of_bounds"], nlohmann::json({{"count", 0}, {"okay", true}}));
  EXPECT_TRUE(report["error"].is_null());
  ASSERT_EQ(report["results"].size(), 2u);
  const auto& result = report["results"][1];
  EXPECT_EQ(result["m"], 20);
  EXPECT_EQ(result["n"], 30);
  EXPECT_EQ(result["k"], 40);
  EXPECT_EQ(result["type"], "half");
  EXPECT_EQ(result["ranks"], 3);
  EXPECT_EQ(result["nwrong"], 0);
  EXPECT_EQ(result["times_us"].size(), 7u);
  EXPECT_EQ(result["times_us_of_ranks"].size(), 3u);
  EXPECT_GT(result["median_us"], 0);
  EXPECT_GE(result["p99_us"], result["median_us"]);
  EXPECT_GT(result["gflops"], 0);
}

class FaultTest : public PerfBinaryTest, public ::testing::WithParamInterface<const char*> {
 protected:
  const std::string mode_ = GetParam();
};

INSTANTIATE_TEST_SUITE_P(, FaultTest, ::testing::Values("", "--threads"),
                         [](const auto& tested) { return *tested.param == '\0' ? "Processes" : "Threads"; });

TEST_P(FaultTest, NoFaultIsRight) { ExpectRight(RunFaulty("", mode_ + " -M 20 -N 30 -K 40 -n 4 --gathered"), 1); }

// What 4 timed iterations on 20 x 30 count for a fault of rank 1.
const std::map<std::string, std::string> kWrongOfFault = {
    {"element", "4"},                                            // one in each of 4 timed iterations
    {"unwritten", "120"},                                        // a row of 30
    {"beside", "4"},      {"gathered", "4"}, {"stale", "2400"},  // all of them
};

TEST_P(FaultTest, CountsWrongElements) {
  for (const auto& [fault, count] : kWrongOfFault) {
    const Ended ended = RunFaulty(fault, mode_ + " -M 20 -N 30 -K 40 -n 4 -w 1 --gathered -J report.json");
    EXPECT_EQ(ended.exit_code, 1) << fault << ended.out << ended.err;
    EXPECT_NE(ended.out.find("# Out of bounds values : " + count + " FAILED"), std::string::npos) << fault << ended.out;
    EXPECT_EQ(Rows(ended.out).at(0).back(), count) << fault << ended.out;
    EXPECT_NE(ended.out.find("rank 1: "), std::string::npos) << fault << ended.out;
    const auto report = nlohmann::json::parse(ReadFile(Path("report.json")));
    EXPECT_EQ(report["out_of_bounds"]["okay"], false) << fault;
    EXPECT_EQ(std::to_string(report["results"][0]["nwrong"].get<uint64_t>()), count) << fault;
  }
}

TEST_P(FaultTest, TellsWhichRankDied) {
  const Ended ended = RunFaulty("die", mode_ + " -r 3 -M 20 -N 30 -K 40 -J report.json");
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.err.find(mode_.empty() ? "\nrank 1 (pid " : "\nthe process of all ranks (pid "), std::string::npos)
      << ended.err;
  EXPECT_NE(ended.err.find("signal 9"), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("M 20, N 30, K 40, float"), std::string::npos) << ended.err;
  EXPECT_EQ(ended.out.find("concluded"), std::string::npos) << ended.out;
  EXPECT_FALSE(nlohmann::json::parse(ReadFile(Path("report.json")))["error"].is_null());
  ExpectFiles({"report.json"});
}

TEST_P(FaultTest, TellsWhichRankFailedAndWhy) {
  const Ended ended = RunFaulty("refused", mode_ + " -r 3 -M 20 -N 30 -K 40");
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.err.find("\nrank 1 (pid "), std::string::npos) << ended.err;
  EXPECT_NE(ended.err.find("tcFusedAllGatherGemm: "), std::string::npos) << ended.err;
}

TEST_P(FaultTest, EndsAtTheTimeLimit) {
  const Ended ended = Wait(Start(TC_PERF_BINARY, mode_ + " --backend host -T 1 -M 20 -N 30 -K 40 -n 1000000000 -c 0"));
  EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
  EXPECT_NE(ended.err.find("time limit"), std::string::npos) << ended.err;
}

TEST_P(FaultTest, RanksDoNotOutliveAKilledParent) {
  const pid_t pid = Start(TC_PERF_BINARY, mode_ + " --backend host -T 240 -r 2 -M 20 -N 30 -K 40 -n 1000000000 -c 0");
  // The table's titles: the ranks run by then.
  while (ReadFile(top_ / "out").find("#wrong") == std::string::npos) usleep(10000);
  kill(pid, SIGKILL);
  EXPECT_EQ(Wait(pid).exit_code, 128 + SIGKILL);
  size_t ranks = 0;
  while (wait(nullptr) > 0) ++ranks;  // ends when the last of them has
  EXPECT_EQ(ranks, mode_.empty() ? 2u : 1u);
  ExpectFiles({});
}

TEST_F(GpuPerfTest, CountsWrongElementsAsTheHostDoes) {
  for (const char* type : {"float", "half", "bfloat16"}) {
    const std::string arguments = std::string(kOnOneGpu) + "-M 20 -N 30 -K 40 -n 4 -w 1 --gathered -d " + type;
    ExpectRight(RunFaulty("", arguments, "cuda"), 1);
    for (const auto& [fault, count] : kWrongOfFault) {
      const Ended ended = RunFaulty(fault, arguments, "cuda");
      EXPECT_EQ(ended.exit_code, 1) << fault << ended.out << ended.err;
      ASSERT_EQ(Rows(ended.out).size(), 1u) << fault << ended.out << ended.err;
      if (std::string(type) == "float") {
        EXPECT_EQ(Rows(ended.out)[0].back(), count) << fault << ended.out;
      } else {  // a few wrong elements round to what is right
        EXPECT_GE(std::stoul(Rows(ended.out)[0].back()) * 10, std::stoul(count) * 9)
            << fault << " " << type << ended.out;
      }
    }
  }
}

TEST_F(GpuPerfTest, SeesInASampleWhatWasNotWritten) {
  const std::string arguments = std::string(kOnOneGpu) + "-M 520 -N 520 -K 600 -n 2 -w 1 -d half";
  const Ended ended = RunFaulty("unwritten", arguments, "cuda");
  ASSERT_EQ(Rows(ended.out).size(), 1u) << ended.out << ended.err;
  EXPECT_EQ(Rows(ended.out)[0].back(), "1040") << "two rows of 520" << ended.out;
}

TEST_F(GpuPerfTest, ReportsTheGpu) {
  const Ended ended =
      Wait(Start(TC_PERF_BINARY, std::string("--backend cuda -T 240 -M 64 -N 64 -K 64 -G 3 -J r.json ") + kOnOneGpu));
  ExpectRight(ended, 1);
  EXPECT_NE(ended.out.find(" device 0 "), std::string::npos) << ended.out;
  const auto report = nlohmann::json::parse(ReadFile(Path("r.json")));
  EXPECT_EQ(report["config"]["cudagraph"], 3);
  EXPECT_EQ(report["results"][0]["gpus"], 1);
  ASSERT_EQ(report["environment"]["gpus"].size(), 1u);
  EXPECT_NE(report["environment"]["gpus"][0]["name"], "");
  EXPECT_TRUE(report["environment"]["cuda_runtime_version"].is_string());
}

TEST_F(GpuPerfTest, MultipliesTheUsersOwnArrays) {
  const ElementType& type = ElementTypeOf(tcFloat32);
  const std::vector<float> ones(30, 1.0f);
  WriteNpy(Path("A.npy"), type, 6, 5, ones.data());
  WriteNpy(Path("B.npy"), type, 4, 5, ones.data());
  const std::string arguments = "--backend cuda -T 240 --a A.npy --b B.npy --out C.npy --gathered ";
  for (const char* graph : {"", " -G 3"}) {
    ExpectRight(Wait(Start(TC_PERF_BINARY, arguments + kOnOneGpu + graph)), 1);
    const NpyMatrix c = ReadNpy(Path("C.npy"));
    ASSERT_EQ(c.bytes.size(), 24 * sizeof(float));
    float last;
    std::memcpy(&last, &c.bytes[23 * sizeof(float)], sizeof(last));
    EXPECT_EQ(last, 5.0f);
    std::filesystem::remove(Path("C.npy"));
  }
}

class OwnArraysTest : public PerfBinaryTest {
 protected:
  // A [37,29] and B [23,29], or [29,23] for kn.
  void WriteInputs(const ElementType& type, bool kn) const {
    const GeneratedInputs inputs(type, 11);
    WriteMatrix("A.npy", type, 37, 29, [&](size_t row, size_t col, float* value) {
      inputs.ReadA(0, row, col, {value, 1});
    });
    WriteMatrix("B.npy", type, kn ? 29 : 23, kn ? 23 : 29, [&](size_t row, size_t col, float* value) {
      inputs.ReadB(0, 0, kn ? col : row, kn ? row : col, {value, 1});
    });
  }

  template <typename Element>
  void WriteMatrix(const std::string& name, const ElementType& type, size_t rows, size_t cols,
                   const Element& element) const {
    std::vector<std::byte> bytes(rows * cols * type.bytes);
    for (size_t i = 0; i < rows * cols; ++i) {
      float value;
      element(i / cols, i % cols, &value);
      Encode(type, {&value, 1}, &bytes[i * type.bytes]);
    }
    WriteNpy(Path(name), type, rows, cols, bytes.data());
  }

  // C.npy is A times B.
  void ExpectProduct(const ElementType& type) const {
    const NpyMatrix c = ReadNpy(Path("C.npy"));
    ASSERT_EQ(c.type, &type);
    ASSERT_EQ(c.rows, 37u);
    ASSERT_EQ(c.cols, 23u);
    const GeneratedInputs inputs(type, 11);
    EXPECT_EQ(GemmReference(inputs, 37, 23, 29, 0, 1, 1).CountWrong(c.bytes.data(), 0, 0), 0u);
  }
};

TEST_F(OwnArraysTest, MultipliesThemInEveryTypeAndLayout) {
  for (const ElementType& type : ElementTypes()) {
    for (const bool kn : {false, true}) {
      for (const char* mode : {"-r 1", "-r 3", "-r 4 --threads"}) {
        WriteInputs(type, kn);
        ExpectRight(Run(std::string("--a A.npy --b B.npy --out C.npy -n 2 -w 1 ") + mode + (kn ? " -b kn" : "")), 1);
        ExpectProduct(type);
        ExpectFiles({"A.npy", "B.npy", "C.npy"});
        std::filesystem::remove(Path("C.npy"));
      }
    }
  }
}

TEST_F(OwnArraysTest, WritesNoResultThatIsWrong) {
  WriteInputs(ElementTypeOf(tcFloat32), false);
  for (const char* check : {"-c 1", "-c 0"}) {
    const Ended ended = RunFaulty("element", std::string("--a A.npy --b B.npy --out C.npy ") + check);
    EXPECT_EQ(ended.exit_code, 1) << ended.out << ended.err;
    EXPECT_NE(ended.out.find("rank 1: 1 elements of C differ from rank 0's"), std::string::npos) << ended.out;
    EXPECT_NE(ended.out.find("C.npy is not written"), std::string::npos) << ended.out;
    ExpectFiles({"A.npy", "B.npy"});
  }
}

TEST_F(OwnArraysTest, RefusesArraysThatDoNotFit) {
  const ElementType& type = ElementTypeOf(tcFloat32);
  const std::string run = "--a A.npy --b B.npy --out C.npy";
  const std::vector<float> zeros(100);
  const auto write = [&](const std::string& name, size_t rows, size_t cols) {
    WriteNpy(Path(name), type, rows, cols, zeros.data());
  };
  ExpectRefused(Run(run), "A.npy cannot be opened: No such file or directory");
  write("A.npy", 4, 5);
  ExpectRefused(Run(run), "B.npy cannot be opened");
  write("B.npy", 5, 6);
  ExpectRefused(Run(run), "say -b kn");
  ExpectRefused(Run("--a B.npy --b A.npy -b kn"), "the shapes do not match");
  write("A.npy", 4, 0);
  write("B.npy", 6, 0);
  ExpectRefused(Run(run), "K = 0");
  write("A.npy", 4, 5);
  WriteNpy(Path("B.npy"), ElementTypeOf(tcFloat16), 6, 5, zeros.data());
  ExpectRefused(Run(run), "both must have one type");
  std::filesystem::resize_file(Path("B.npy"), 130);
  ExpectRefused(Run(run), "B.npy is cut short");
  std::ofstream(Path("B.npy")) << "not an array";
  ExpectRefused(Run(run), "B.npy is not a .npy file");
  write("B.npy", 6, 5);
  ExpectRefused(Run("--a A.npy --b B.npy --out none/C.npy"), "--out: cannot write none/C.npy");
  ExpectFiles({"A.npy", "B.npy"});
}

TEST_F(OwnArraysTest, MultipliesNoRowsAtAll) {
  WriteNpy(Path("A.npy"), ElementTypeOf(tcFloat32), 0, 5, nullptr);
  WriteNpy(Path("B.npy"), ElementTypeOf(tcFloat32), 6, 5, std::vector<float>(30, 1.0f).data());
  ExpectRight(Run("--a A.npy --b B.npy --out C.npy"), 1);
  EXPECT_EQ(ReadNpy(Path("C.npy")).cols, 6u);
}

}  // namespace
}  // namespace tc::perf
