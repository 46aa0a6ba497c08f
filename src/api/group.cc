#include "api/group.h"

#include <algorithm>
#include <future>
#include <thread>
#include <utility>

#include "api/export.h"

namespace tc::api {
namespace {

struct HeldCall {
  std::shared_ptr<Communicator> comm;  // NULL: belongs to none yet
  Call call;
};

struct Group {
  int depth = 0;
  Status refused;
  std::vector<HeldCall> calls;
};

// A plain pointer, so that a thread's end, or the process's, runs no destructor that a late call could meet.
thread_local Group* thread_group = nullptr;

bool InGroup() { return thread_group != nullptr; }

// The calls of one communicator keep their order and follow each other; those of different ones run side by side.
std::vector<Call> ChainByCommunicator(const std::vector<HeldCall>& held) {
  std::vector<std::pair<const Communicator*, std::vector<Call>>> chains;
  for (const HeldCall& each : held) {
    const auto chain = std::find_if(chains.begin(), chains.end(), [&](const auto& candidate) {
      return each.comm != nullptr && candidate.first == each.comm.get();
    });
    if (chain != chains.end()) {
      chain->second.push_back(each.call);
    } else {
      chains.push_back({each.comm.get(), {each.call}});
    }
  }
  std::vector<Call> calls;
  for (auto& chain : chains) {
    calls.push_back([links = std::move(chain.second)] {
      Status first;
      for (const Call& link : links) {  // all of them: the other ranks make theirs
        const Status status = link();
        if (first.ok()) first = status;
      }
      return first;
    });
  }
  return calls;
}

}  // namespace

tcResult_t Collective(const char* function, std::shared_ptr<Communicator> comm, Call call) {
  if (!InGroup()) return Report(function, NoThrow(call), comm.get());
  const auto held = [=]() -> Status {
    const Status status = NoThrow(call);
    if (status.ok()) return status;
    const std::string sentence = std::string(function) + ": " + status.sentence();
    if (comm != nullptr) comm->SetLastError(comm->Who() + ": " + sentence);
    return Status(status.code(), sentence);
  };
  thread_group->calls.push_back({comm, held});
  return tcSuccess;
}

tcResult_t Refuse(const char* function, const Status& status) {
  if (InGroup() && thread_group->refused.ok()) {
    thread_group->refused = Status(status.code(), std::string(function) + ": " + status.sentence());
  }
  return Report(function, status);
}

Status RunTogether(const std::vector<Call>& calls) {
  std::vector<Status> results(calls.size());
  std::vector<std::thread> threads;
  std::promise<bool> decide;
  const std::shared_future<bool> go = decide.get_future().share();
  const Status started = NoThrow([&]() -> Status {
    for (size_t i = 1; i < calls.size(); ++i) {
      threads.emplace_back([&, i] {
        if (go.get()) results[i] = NoThrow(calls[i]);
      });
    }
    return {};
  });
  decide.set_value(started.ok());
  if (started.ok() && !calls.empty()) results[0] = NoThrow(calls[0]);
  for (std::thread& thread : threads) thread.join();
  if (!started.ok()) return started;
  for (const Status& result : results) {
    if (!result.ok()) return result;
  }
  return {};
}

}  // namespace tc::api

using namespace tc::api;  // NOLINT

TC_EXPORT(tcResult_t, tcGroupStart, (void)) {
  if (thread_group == nullptr) thread_group = new Group;
  ++thread_group->depth;
  return tcSuccess;
}

TC_EXPORT(tcResult_t, tcGroupEnd, (void)) {
  if (thread_group == nullptr) {
    return Report("tcGroupEnd", tc::Error(tcInvalidUsage, "there is no tcGroupStart before it on this thread"));
  }
  if (--thread_group->depth > 0) return tcSuccess;
  const std::unique_ptr<Group> group(std::exchange(thread_group, nullptr));
  if (!group->refused.ok()) return Report("tcGroupEnd", group->refused);
  return Report("tcGroupEnd", RunTogether(ChainByCommunicator(group->calls)));
}
