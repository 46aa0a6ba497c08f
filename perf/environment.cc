#include "environment.h"

#include <sched.h>
#include <tc.h>
#include <unistd.h>

#include <thread>

#include "failure.h"

namespace tc::perf {
namespace {

std::string VersionText(int code) {
  return std::to_string(code / 10000) + "." + std::to_string(code / 100 % 100) + "." + std::to_string(code % 100);
}

}  // namespace

std::string HostName() {
  char name[256] = {};
  if (gethostname(name, sizeof(name) - 1) != 0) return "unknown";
  return name;
}

std::string LibraryVersion() {
  int version = 0;
  if (tcGetVersion(&version) != tcSuccess) throw Failure(std::string("tcGetVersion: ") + tcGetLastError(nullptr));
  return VersionText(version);
}

std::string HeaderVersion() { return VersionText(TC_VERSION_CODE); }

int CpuCount() {
  cpu_set_t set;
  if (sched_getaffinity(0, sizeof(set), &set) == 0) return CPU_COUNT(&set);
  return static_cast<int>(std::thread::hardware_concurrency());
}

double MemoryBytes() {
  return static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGESIZE));
}

nlohmann::json Environment() {
  return {{"host", HostName()},
          {"cpus", CpuCount()},
          {"memory_bytes", MemoryBytes()},
          {"library_version", LibraryVersion()},
          {"header_version", HeaderVersion()}};
}

}  // namespace tc::perf
