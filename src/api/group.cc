#include "api/group.h"

#include <thread>
#include <utility>

#include "api/export.h"

namespace tc::api {
namespace {

struct Group {
  int depth = 0;
  std::vector<std::function<Status()>> calls;
};

Group& ThreadGroup() {
  thread_local Group group;
  return group;
}

}  // namespace

bool InGroup() { return ThreadGroup().depth > 0; }

tcResult_t Collective(const char* function, std::function<Status()> call) {
  if (!InGroup()) return Report(function, NoThrow(call));
  ThreadGroup().calls.push_back([function, call = std::move(call)] {
    const Status status = NoThrow(call);
    return status.ok() ? status : Status(status.code(), std::string(function) + ": " + status.sentence());
  });
  return tcSuccess;
}

Status RunTogether(const std::vector<std::function<Status()>>& calls) {
  std::vector<Status> results(calls.size());
  std::vector<std::thread> threads;
  for (size_t i = 1; i < calls.size(); ++i) {
    // Where no thread is to be had the call fails; the others, which wait for it, end by their time limit.
    const Status started = NoThrow([&]() -> Status {
      threads.emplace_back([&, i] { results[i] = NoThrow(calls[i]); });
      return {};
    });
    if (!started.ok()) results[i] = started;
  }
  if (!calls.empty()) results[0] = NoThrow(calls[0]);
  for (std::thread& thread : threads) thread.join();
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

}  // namespace tc::api

using namespace tc::api;  // NOLINT

TC_EXPORT(tcResult_t, tcGroupStart, (void)) {
  ++ThreadGroup().depth;
  return tcSuccess;
}

TC_EXPORT(tcResult_t, tcGroupEnd, (void)) {
  Group& group = ThreadGroup();
  if (group.depth == 0) {
    return Report("tcGroupEnd", tc::Error(tcInvalidUsage, "there is no tcGroupStart before it on this thread"));
  }
  if (--group.depth > 0) return tcSuccess;
  return Report("tcGroupEnd", RunTogether(std::exchange(group.calls, {})));
}
