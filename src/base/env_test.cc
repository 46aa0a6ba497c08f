#include "base/env.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <sstream>

#include "base/log.h"

namespace tc {
namespace {

class Environment : public ::testing::Test {
 protected:
  void SetUp() override { Clear(); }
  void TearDown() override { Clear(); }
  static void Clear() {
    for (const EnvVariable& variable : EnvTable()) ::unsetenv(variable.name);
  }
};

TEST_F(Environment, GoodValuesAreRead) {
  ::setenv("TC_BACKEND", "HOST", 1);
  ::setenv("TC_BOOTSTRAP_DIR", "/run/x", 1);
  ::setenv("TC_TIMEOUT_MS", "250", 1);
  ::setenv("TC_WORKSPACE_BYTES", "3M", 1);
  ::setenv("TC_HOST_THREADS", "7", 1);
  ::setenv("TC_P2P_DISABLE", "0", 1);
  ::setenv("TC_VMM_DISABLE", "1", 1);
  ::setenv("TC_SYSFS_ROOT", "/recorded", 1);
  ::setenv("TC_TOPO_FILE", "box.xml", 1);
  Env env;
  ASSERT_TRUE(ReadEnv(&env).ok());
  EXPECT_EQ(env.backend, tcBackendHost);
  EXPECT_EQ(env.bootstrap_dir, "/run/x");
  EXPECT_EQ(env.timeout_ms, 250);
  EXPECT_FALSE(env.entry_timeout_ms.has_value());
  EXPECT_EQ(env.workspace_bytes, size_t{3} << 20);
  EXPECT_EQ(env.host_threads, 7);
  EXPECT_FALSE(env.p2p_disable);
  EXPECT_TRUE(env.vmm_disable);
  EXPECT_EQ(env.sysfs_root, "/recorded");
  EXPECT_EQ(env.topo_file, "box.xml");
}

TEST_F(Environment, BadValuesAreErrorsThatNameTheVariable) {
  const std::pair<const char*, const char*> kBad[] = {
      {"TC_BACKEND", ""},          {"TC_DEBUG", "verbose"},     {"TC_BOOTSTRAP_DIR", ""},
      {"TC_TIMEOUT_MS", "0"},      {"TC_TIMEOUT_MS", "1e3"},    {"TC_ENTRY_TIMEOUT_MS", "99999999999"},
      {"TC_INIT_TIMEOUT_MS", "-"}, {"TC_WORKSPACE_BYTES", "M"}, {"TC_WORKSPACE_BYTES", "-1"},
      {"TC_HOST_THREADS", "1025"}, {"TC_P2P_DISABLE", "2"},     {"TC_VMM_DISABLE", "yes"},
      {"TC_SYSFS_ROOT", ""},       {"TC_TOPO_FILE", ""},        {"TC_WORKSPACE_BYTES", "18446744073709551615G"}};
  for (const auto& [name, value] : kBad) {
    ::setenv(name, value, 1);
    Env env;
    const Status status = ReadEnv(&env);
    EXPECT_EQ(status.code(), tcInvalidArgument) << name << "=" << value;
    EXPECT_NE(status.sentence().find(name), std::string::npos) << status.sentence();
    ::unsetenv(name);
  }
}

TEST_F(Environment, EditDistanceCountsSingleCharacterEdits) {
  EXPECT_EQ(EditDistance("TC_DEBUG", "TC_DEBUG"), 0u);
  EXPECT_EQ(EditDistance("TC_DEBG", "TC_DEBUG"), 1u);
  EXPECT_EQ(EditDistance("TC_DEUBG", "TC_DEBUG"), 2u);
  EXPECT_EQ(EditDistance("", "abc"), 3u);
}

// The warning is given once a process, so this one starts afresh.
TEST_F(Environment, AMisspeltNameIsWarnedAboutWithTheRightOne) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  ::setenv("TC_TIMOUT_MS", "5", 1);
  ::setenv("TC_DEBUG", "warn", 1);
  EXPECT_EXIT(
      {
        SetLogCallback([](int, const char* message, void*) { std::fprintf(stderr, "%s\n", message); }, nullptr);
        Env env;
        (void)ReadEnv(&env);
        std::exit(0);
      },
      ::testing::ExitedWithCode(0), "TC_TIMOUT_MS.*did you mean TC_TIMEOUT_MS");
  ::unsetenv("TC_TIMOUT_MS");
}

TEST_F(Environment, TheDocumentShowsTheTable) {
  std::string table = "| variable | takes | default | meaning |\n|---|---|---|---|\n";
  for (const EnvVariable& variable : EnvTable()) {
    table += std::string("| `") + variable.name + "` | " + variable.type + " | " + variable.fallback + " | " +
             variable.meaning + " |\n";
  }
  std::ifstream in(TC_ENVIRONMENT_MD);
  std::stringstream document;
  document << in.rdbuf();
  EXPECT_NE(document.str().find(table), std::string::npos) << "docs/ENVIRONMENT.md must contain:\n" << table;
}

}  // namespace
}  // namespace tc
