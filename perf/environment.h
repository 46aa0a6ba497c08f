// Where a run took place and what it ran with.
#ifndef TC_PERF_ENVIRONMENT_H_
#define TC_PERF_ENVIRONMENT_H_

#include <nlohmann/json.hpp>
#include <string>

namespace tc::perf {

std::string HostName();
// Of the library that is loaded, as 0.1.0.
std::string LibraryVersion();
// Of the tc.h this was compiled with.
std::string HeaderVersion();
// CPUs that this process may use.
int CpuCount();
// Memory of the machine.
double MemoryBytes();

// All of it, for a report.
nlohmann::json Environment();

}  // namespace tc::perf

#endif  // TC_PERF_ENVIRONMENT_H_
