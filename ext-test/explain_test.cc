// tcExplain from outside: its buffer, what it says by a fact table, and that operators still do what they should.
#include <unistd.h>

#include <cstdlib>
#include <fstream>
#include <mutex>
#include <sstream>

#include "ranks.h"

namespace tc::test {
namespace {

class ExplainTest : public ::testing::Test {
 protected:
  void TearDown() override {
    ::unsetenv("TC_FACTS");
    tcSetLogCallback(nullptr, nullptr);
    if (!file_.empty()) ::unlink(file_.c_str());
  }

  static std::string Table(const std::string& name) {
    std::ifstream in(std::string(TC_TESTDATA) + "/" + name + ".json");
    std::stringstream text;
    text << in.rdbuf();
    return text.str();
  }

  // TC_FACTS names a file with this text.
  void UseFacts(const std::string& text) {
    char name[] = "/tmp/tc_explain_XXXXXX";
    const int file = ::mkstemp(name);
    ASSERT_GE(file, 0);
    ::close(file);
    file_ = name;
    std::ofstream(name) << text;
    ::setenv("TC_FACTS", name, 1);
  }

  static tcOpDesc_t FusedDesc() {
    tcOpDesc_t desc;
    TC_OP_DESC_INIT(&desc);
    desc.op = tcOpAllGatherGemm;
    desc.type = tcBfloat16;
    desc.m = desc.k = 8192;
    desc.n = 1024;
    return desc;
  }

  static std::string Explain(tcComm_t comm, const tcOpDesc_t& desc) {
    size_t bytes = 0;
    TC_EXPECT_OK(tcExplain(comm, &desc, nullptr, &bytes));
    std::string json(bytes, '?');
    TC_EXPECT_OK(tcExplain(comm, &desc, json.data(), &bytes));
    EXPECT_EQ(bytes, json.size());
    EXPECT_EQ(json.find('\0'), bytes - 1);
    json.pop_back();
    return json;
  }

  static void ExpectGathers(int n_ranks, int rank, tcComm_t comm) {
    std::vector<int32_t> all(static_cast<size_t>(n_ranks) * 1000, -1);
    const std::vector<int32_t> own(1000, rank);
    TC_EXPECT_OK(tcAllGather(own.data(), all.data(), own.size(), tcInt32, comm, TestStream()));
    TC_EXPECT_OK(tcStreamSynchronize(comm, TestStream()));
    for (size_t i = 0; i < all.size(); ++i) ASSERT_EQ(all[i], static_cast<int32_t>(i / 1000));
  }

  std::string file_;
};

void ExpectHas(const std::string& json, const char* words) {
  EXPECT_NE(json.find(words), std::string::npos) << words << " is not in\n" << json;
}

TEST_F(ExplainTest, SaysWhatItPlansAndWhatItLaunches) {
  if (OnGpu()) GTEST_SKIP() << "its buffers are the host's";
  UseFacts(Table("rtx-pro-5000-x4"));
  std::mutex mutex;
  std::vector<std::string> told;
  RunRanks(Launch::kThreads, 4, [&](int rank, tcComm_t comm) {
    const std::string json = Explain(comm, FusedDesc());
    {
      const std::lock_guard lock(mutex);
      told.push_back(json);
    }
    ExpectGathers(4, rank, comm);
  });
  ASSERT_EQ(told.size(), 4u);
  for (const std::string& json : told) EXPECT_EQ(json, told[0]);
  ExpectHas(told[0], "\"operator\": \"tcFusedAllGatherGemm\"");
  ExpectHas(told[0], "\"name\": \"rtx-pro-5000-x4\"");
  ExpectHas(told[0], "\"builtIn\": false");
  ExpectHas(told[0], "\"bound\": \"communication\"");
  ExpectHas(told[0], "\"kernel\": \"host_all_gather_gemm\",\n    \"plane\": \"push\",\n    \"commSms\": 4,\n");
  ExpectHas(told[0], "\"why\": \"the planner's choice\"");
  ExpectHas(told[0], "\"pull\": \"there is no kernel for it\"");
  ExpectHas(told[0], "memory that is not registered (tcCommRegister) is staged in a workspace of 16777216 bytes");
  ExpectHas(told[0], "\"kernel\": \"NCCL + cuBLAS\"");
}

TEST_F(ExplainTest, WithoutATableItSaysSo) {
  RunRanks(Launch::kThreads, 2, [](int, tcComm_t comm) {
    for (const tcOp_t op : {tcOpBarrier, tcOpAllGather, tcOpReduceScatter, tcOpAllReduce, tcOpBroadcast, tcOpAllToAll,
                            tcOpAllGatherV, tcOpReduceScatterV, tcOpAllToAllV, tcOpAllGatherGemm}) {
      tcOpDesc_t desc = FusedDesc();
      desc.op = op;
      desc.count = op == tcOpBarrier ? 0 : 1000;
      const std::string json = Explain(comm, desc);
      ExpectHas(json, "\"builtIn\": true");
      ExpectHas(json, "\"reason\": \"");
      if (!OnGpu() || std::getenv("TC_P2P_DISABLE") == nullptr) ExpectHas(json, "\"plane\": \"push\"");
    }
  });
}

TEST_F(ExplainTest, ABrokenTableIsWarnedAboutAndNothingElse) {
  static std::string warned;
  warned.clear();
  tcSetLogCallback([](int level, const char* message, void*) { level <= tcLogWarn ? warned += message : warned; },
                   nullptr);
  UseFacts(Table("h200-x2").substr(0, 500));
  RunRanks(Launch::kThreads, 1, [](int, tcComm_t comm) { ExpectHas(Explain(comm, FusedDesc()), "\"builtIn\": true"); });
  EXPECT_NE(warned.find(file_ + ": line 10, column "), std::string::npos) << warned;
  EXPECT_NE(warned.find("the built-in model is used"), std::string::npos) << warned;
}

TEST_F(ExplainTest, ATableWithoutPeerAccessPutsAllDataThroughTheHost) {
  if (OnGpu()) GTEST_SKIP() << "its buffers are the host's";
  std::string text = Table("rtx-pro-5000-x4");
  const std::string access = "\"access\": true";
  UseFacts(text.replace(text.find(access), access.size(), "\"access\": false"));
  tcSetLogCallback([](int, const char*, void*) {}, nullptr);
  for (const Launch launch : {Launch::kThreads, Launch::kProcesses}) {
    RunRanks(launch, 3, [](int rank, tcComm_t comm) {
      const std::string json = Explain(comm, FusedDesc());
      ExpectHas(json, "\"plane\": \"host_staged\"");
      ExpectHas(json, "\"push\": \"plane host_staged was asked for\"");
      ExpectHas(json, "all data of this communicator goes through host memory");
      ExpectHas(json, "everything is staged in a workspace");
      ExpectGathers(3, rank, comm);
    });
  }
}

TEST_F(ExplainTest, RefusesWhatItCannotExplain) {
  RunRanks(Launch::kThreads, 1, [](int, tcComm_t comm) {
    tcOpDesc_t desc = FusedDesc();
    size_t bytes = 0;
    EXPECT_FAILS(tcExplain(comm, nullptr, nullptr, &bytes), tcInvalidArgument, "desc is NULL");
    EXPECT_FAILS(tcExplain(comm, &desc, nullptr, nullptr), tcInvalidArgument, "bytes is NULL");
    EXPECT_FAILS(tcExplain(nullptr, &desc, nullptr, &bytes), tcInvalidArgument, "comm");
    char small[8] = "1234567";
    bytes = sizeof(small);
    EXPECT_FAILS(tcExplain(comm, &desc, small, &bytes), tcInvalidArgument, "json has room for 8 bytes");
    EXPECT_GT(bytes, sizeof(small));
    EXPECT_STREQ(small, "1234567");
    desc.m = 0;
    EXPECT_FAILS(tcExplain(comm, &desc, nullptr, &bytes), tcInvalidArgument, "a plan needs 1 or more");
    desc.op = tcOpMoeDispatch;
    EXPECT_FAILS(tcExplain(comm, &desc, nullptr, &bytes), tcUnsupported, "tcMoeDispatch");
    desc.op = 77;
    EXPECT_FAILS(tcExplain(comm, &desc, nullptr, &bytes), tcInvalidArgument, "op 77");
  });
}

}  // namespace
}  // namespace tc::test
