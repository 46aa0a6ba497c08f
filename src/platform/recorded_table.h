// For tests: the fact tables in testdata.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <string>

#include "platform/fact_table.h"

namespace tc::platform {

inline std::string TableFile(const std::string& name) { return std::string(TC_TESTDATA) + "/" + name + ".json"; }

inline std::string TableText(const std::string& name) {
  std::ifstream in(TableFile(name));
  EXPECT_TRUE(in) << name;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

inline FactTable RecordedTable(const std::string& name) {
  FactTable table;
  const Status status = ReadFactTable(TableFile(name), &table);
  EXPECT_TRUE(status.ok()) << status.sentence();
  return table;
}

}  // namespace tc::platform
