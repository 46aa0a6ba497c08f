#include "options.h"

#include <gtest/gtest.h>

#include <limits>

#include "failure.h"
#include "gemm_options.h"

namespace tc::perf {
namespace {

std::variant<GemmOptions, EarlyExit> Parse(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), "perf");
  return ParseGemmOptions("perf", static_cast<int>(arguments.size()), arguments.data());
}

GemmOptions Accepted(const std::vector<const char*>& arguments) {
  const auto parsed = Parse(arguments);
  if (const auto* early = std::get_if<EarlyExit>(&parsed)) {
    ADD_FAILURE() << early->text;
    return {};
  }
  return std::get<GemmOptions>(parsed);
}

// The command line is refused with a usage error that holds `part`.
void ExpectRefused(const std::vector<const char*>& arguments, const std::string& part) {
  const auto parsed = Parse(arguments);
  const auto* early = std::get_if<EarlyExit>(&parsed);
  ASSERT_NE(early, nullptr) << "accepted, should say: " << part;
  EXPECT_EQ(early->exit_code, kUsageExit);
  EXPECT_NE(early->text.find(part), std::string::npos) << early->text;
}

TEST(OptionsTest, HasDefaults) {
  const GemmOptions options = Accepted({});
  EXPECT_EQ(options.common.iters, 20);
  EXPECT_EQ(options.common.warmup_iters, 5);
  EXPECT_TRUE(options.common.check);
  EXPECT_FALSE(options.common.threads);
  EXPECT_EQ(options.common.backend, tcBackendAuto);
  EXPECT_EQ(options.common.gpus, 0);
  EXPECT_EQ(options.common.graph_replays, 0);
  EXPECT_EQ(options.common.ranks, std::vector<int>({2}));
  ASSERT_EQ(options.common.types.size(), 1u);
  EXPECT_EQ(options.common.types[0]->code, tcFloat32);
  EXPECT_EQ(options.shapes.size(), 1u);
  EXPECT_EQ(options.b_layout, tcBLayoutNK);
}

TEST(OptionsTest, CombinesListsOfDimensions) {
  const GemmOptions options = Accepted({"-M", "256,1K", "-N", "512", "-K", "1,2,3"});
  ASSERT_EQ(options.shapes.size(), 6u);
  EXPECT_EQ(options.shapes[0].m, 256u);
  EXPECT_EQ(options.shapes[3].m, 1024u);
  EXPECT_EQ(options.shapes[3].n, 512u);
  EXPECT_EQ(options.shapes[5].k, 3u);
}

TEST(OptionsTest, TakesShapes) {
  const GemmOptions options = Accepted({"--shapes", "4096x14336x4K,0x0x1"});
  ASSERT_EQ(options.shapes.size(), 2u);
  EXPECT_EQ(options.shapes[0].m, 4096u);
  EXPECT_EQ(options.shapes[0].n, 14336u);
  EXPECT_EQ(options.shapes[0].k, 4096u);
  EXPECT_EQ(options.shapes[1].m, 0u);
}

TEST(OptionsTest, TakesLongAndShortNames) {
  const GemmOptions options = Accepted({"--datatype", "half,all", "--ranks=1,16", "--iters", "7", "--warmup_iters", "0",
                                        "--check", "0", "--json", "x.json", "--blayout", "kn", "--registered",
                                        "--threads", "--seed", "18446744073709551615", "--timeout", "9"});
  EXPECT_EQ(options.common.types.size(), 4u);
  EXPECT_EQ(options.common.ranks, std::vector<int>({1, 16}));
  EXPECT_EQ(options.common.iters, 7);
  EXPECT_EQ(options.common.warmup_iters, 0);
  EXPECT_FALSE(options.common.check);
  EXPECT_EQ(options.common.json, "x.json");
  EXPECT_EQ(options.b_layout, tcBLayoutKN);
  EXPECT_TRUE(options.registered);
  EXPECT_TRUE(options.gathered) << "registered memory of the gathered a needs a gathered a";
  EXPECT_TRUE(options.common.threads);
  EXPECT_EQ(options.common.seed, std::numeric_limits<uint64_t>::max());
  EXPECT_EQ(options.common.timeout_s, 9);
}

TEST(OptionsTest, TakesGpusAndGraphReplays) {
  const GemmOptions options = Accepted({"--backend", "cuda", "-g", "2", "-G", "10"});
  EXPECT_EQ(options.common.backend, tcBackendCuda);
  EXPECT_EQ(options.common.gpus, 2);
  EXPECT_EQ(options.common.graph_replays, 10);
  EXPECT_EQ(Accepted({"--gpus", "1", "--cudagraph", "3"}).common.graph_replays, 3);
}

TEST(OptionsTest, HelpIsNoError) {
  for (const char* flag : {"-h", "--help"}) {
    const auto parsed = Parse({flag});
    const auto* early = std::get_if<EarlyExit>(&parsed);
    ASSERT_NE(early, nullptr);
    EXPECT_EQ(early->exit_code, 0);
    for (const char* option : {"-M", "--shapes", "--datatype", "--ranks", "--iters", "--json", "--out", "--timeout"}) {
      EXPECT_NE(early->text.find(option), std::string::npos) << option;
    }
  }
}

TEST(OptionsTest, RefusesUnknownFlags) {
  ExpectRefused({"--shape", "1x1x1"}, "--shape");
  ExpectRefused({"-x"}, "-x");
  ExpectRefused({"256"}, "256");
  ExpectRefused({"-M"}, "-M");
  ExpectRefused({"-M", "1", "-M", "2"}, "-M");
}

TEST(OptionsTest, RefusesMalformedValues) {
  for (const char* text : {"x", "12x", "1.5K", "-5", "K", "0x10", "1KK", " 1", "1 "}) {
    ExpectRefused({"-M", text}, "is not a size");
  }
  ExpectRefused({"-N", "1,,2"}, "empty place");
  ExpectRefused({"-N", "1,"}, "empty place");
  ExpectRefused({"-N", ""}, "empty place");
  ExpectRefused({"-N", "99999999999999999999"}, "is not a size");
  ExpectRefused({"-N", "18446744073709551615K"}, "too large");
  ExpectRefused({"-N", "1025M"}, "too large");
  ExpectRefused({"-K", "0"}, "K is 0");
  ExpectRefused({"--shapes", "1x1x0"}, "K is 0");
  ExpectRefused({"--shapes", "1x1"}, "not a shape");
  ExpectRefused({"--shapes", "1x1x1x1"}, "not a shape");
  ExpectRefused({"--shapes", "1x1x"}, "empty place");
  ExpectRefused({"-d", "double"}, "'double' is not a type");
  ExpectRefused({"-r", "0"}, "from 1 to 16");
  ExpectRefused({"-r", "17"}, "from 1 to 16");
  ExpectRefused({"-n", "0"}, "-n/--iters");
  ExpectRefused({"-n", "ten"}, "'ten' is not a whole number");
  ExpectRefused({"-c", "2"}, "from 0 to 1");
  ExpectRefused({"-b", "nn"}, "there are nk and kn");
  ExpectRefused({"-T", "1s"}, "-T/--timeout");
  ExpectRefused({"--backend", "gpu"}, "there are auto, host and cuda");
  ExpectRefused({"-g", "0"}, "-g/--gpus");
  ExpectRefused({"-G", "x"}, "-G/--cudagraph");
}

TEST(OptionsTest, RefusesContradictions) {
  ExpectRefused({"--shapes", "1x1x1", "-M", "1"}, "takes the place");
  ExpectRefused({"--backend", "host", "-g", "1"}, "are for GPUs");
  ExpectRefused({"--backend", "host", "-G", "1"}, "are for GPUs");
  ExpectRefused({"--a", "a.npy"}, "go together");
  ExpectRefused({"--b", "b.npy"}, "go together");
  ExpectRefused({"--out", "c.npy"}, "needs --a and --b");
  ExpectRefused({"--a", "a.npy", "--b", "b.npy", "-M", "1"}, "own shape and type");
  ExpectRefused({"--a", "a.npy", "--b", "b.npy", "-d", "half"}, "own shape and type");
  ExpectRefused({"--a", "a.npy", "--b", "b.npy", "-r", "1,2"}, "one rank count");
}

}  // namespace
}  // namespace tc::perf
