// Start and end of communicators.
#include <algorithm>
#include <vector>

#include "api/export.h"
#include "api/group.h"
#include "api/settings.h"
#include "api/structs.h"
#include "comm/unique_id.h"

namespace tc::api {
namespace {

// What the tcConfig_t and the environment of one call come to.
Status ReadConfig(const tcConfig_t* config, CommSettings* settings) {
  tcConfig_t complete = DefaultConfig();
  TC_RETURN_IF_ERROR(ReadStruct("config", config, &complete));
  Env env;
  TC_RETURN_IF_ERROR(ReadEnv(&env));
  TC_RETURN_IF_ERROR(ResolveSettings(complete, env, settings));
  return ChooseBackend(complete.backend, env, &settings->backend);
}

Status CheckRanks(int n_ranks) {
  if (n_ranks >= 1 && n_ranks <= TC_MAX_RANKS) return {};
  return Error(tcInvalidArgument, "nRanks is %d; a communicator has 1 to %d ranks", n_ranks, TC_MAX_RANKS);
}

Status Join(const UniqueId& id, int n_ranks, int rank, const CommSettings& settings, tcComm_t* handle) {
  std::unique_ptr<Backend> backend;
  TC_RETURN_IF_ERROR(MakeBackend(settings, n_ranks, &backend));
  std::shared_ptr<Communicator> comm;
  TC_RETURN_IF_ERROR(Communicator::Create(id, n_ranks, rank, settings, std::move(backend), &comm));
  *handle = Comms().Add(std::move(comm));
  return {};
}

Status PrepareInit(tcComm_t* comm, int n_ranks, const tcUniqueId* encoded, int rank, const tcConfig_t* config,
                   UniqueId* id, CommSettings* settings) {
  TC_RETURN_IF_ERROR(CheckOutput("comm", comm));
  *comm = nullptr;
  TC_RETURN_IF_ERROR(CheckRanks(n_ranks));
  if (rank < 0 || rank >= n_ranks) {
    return Error(tcInvalidArgument, "rank is %d; with nRanks %d it must be 0 to %d", rank, n_ranks, n_ranks - 1);
  }
  if (encoded == nullptr) return Error(tcInvalidArgument, "the unique id is NULL");
  TC_RETURN_IF_ERROR(Decode(*encoded, id));
  return ReadConfig(config, settings);
}

Status PrepareInitAll(tcComm_t* comms, int n_ranks, const int* devices, const tcConfig_t* config, UniqueId* id,
                      std::vector<CommSettings>* settings) {
  TC_RETURN_IF_ERROR(CheckOutput("comms", comms));
  TC_RETURN_IF_ERROR(CheckRanks(n_ranks));
  std::fill_n(comms, n_ranks, nullptr);
  CommSettings common;
  TC_RETURN_IF_ERROR(ReadConfig(config, &common));
  settings->assign(n_ranks, common);
  for (int rank = 0; rank < n_ranks; ++rank) {
    (*settings)[rank].device = devices != nullptr ? devices[rank] : rank % DeviceCount(common.backend);
    if ((*settings)[rank].device < 0) {
      return Error(tcInvalidArgument, "devices[%d] is %d; it must be a device's number", rank, devices[rank]);
    }
  }
  return MakeUniqueId(id);
}

Status JoinAll(const UniqueId& id, const std::vector<CommSettings>& settings, tcComm_t* comms) {
  std::vector<Call> joins;
  for (size_t rank = 0; rank < settings.size(); ++rank) {
    joins.push_back([&, rank] {
      return Join(id, static_cast<int>(settings.size()), static_cast<int>(rank), settings[rank], &comms[rank]);
    });
  }
  const Status joined = RunTogether(joins);
  for (size_t rank = 0; rank < settings.size() && !joined.ok(); ++rank) {
    std::shared_ptr<Communicator> half;
    if (comms[rank] != nullptr) (void)Comms().Remove(std::exchange(comms[rank], nullptr), &half);
  }
  return joined;
}

Status SplitFrom(const Status& checked, Communicator& parent, int color, int key, tcComm_t* handle,
                 const CommSettings& settings) {
  Communicator::SplitGroup group;
  TC_RETURN_IF_ERROR(parent.Split(checked, color, key, &group));
  return group.n_ranks == 0 ? Status() : Join(group.id, group.n_ranks, group.rank, settings, handle);
}

}  // namespace
}  // namespace tc::api

using namespace tc;       // NOLINT: only entry points follow
using namespace tc::api;  // NOLINT

TC_EXPORT(tcResult_t, tcGetVersion, (int* version)) {
  if (const Status bad = CheckOutput("version", version); !bad.ok()) return Report("tcGetVersion", bad);
  *version = TC_VERSION_CODE;
  return tcSuccess;
}

TC_EXPORT(tcResult_t, tcGetUniqueId, (tcUniqueId * id)) {
  Status status = CheckOutput("id", id);
  UniqueId fresh;
  if (status.ok()) status = MakeUniqueId(&fresh);
  if (status.ok()) *id = Encode(fresh);
  return Report("tcGetUniqueId", status);
}

TC_EXPORT(tcResult_t, tcUniqueIdFromString, (const char* text, tcUniqueId* id)) {
  Status status = CheckOutput("id", id);
  if (status.ok() && (text == nullptr || text[0] == '\0')) {
    status = Error(tcInvalidArgument, "the text is %s; pass a string that all ranks know", text ? "empty" : "NULL");
  }
  if (status.ok()) *id = Encode(UniqueIdFromString(text));
  return Report("tcUniqueIdFromString", status);
}

TC_EXPORT(tcResult_t, tcInitComm,
          (tcComm_t * comm, int nRanks, const tcUniqueId* id, int rank, const tcConfig_t* config)) {
  UniqueId decoded;
  CommSettings settings;
  if (const Status bad = PrepareInit(comm, nRanks, id, rank, config, &decoded, &settings); !bad.ok()) {
    return Refuse("tcInitComm", bad);
  }
  return Collective("tcInitComm", nullptr, [=] { return Join(decoded, nRanks, rank, settings, comm); });
}

TC_EXPORT(tcResult_t, tcInitCommAll, (tcComm_t * comms, int nRanks, const int* devices, const tcConfig_t* config)) {
  UniqueId id;
  std::vector<CommSettings> settings;
  if (const Status bad = PrepareInitAll(comms, nRanks, devices, config, &id, &settings); !bad.ok()) {
    return Refuse("tcInitCommAll", bad);
  }
  return Collective("tcInitCommAll", nullptr, [=] { return JoinAll(id, settings, comms); });
}

TC_EXPORT(tcResult_t, tcCommSplit, (tcComm_t comm, int color, int key, tcComm_t* newComm, const tcConfig_t* config)) {
  std::shared_ptr<Communicator> parent;
  if (const Status bad = FindComm(comm, &parent); !bad.ok()) return Refuse("tcCommSplit", bad);
  // What is wrong from here on, the other ranks are told: they have made the call, too.
  Status checked = CheckOutput("newComm", newComm);
  if (checked.ok()) *newComm = nullptr;
  if (checked.ok() && color < 0 && color != TC_SPLIT_NOCOLOR) {
    checked = Error(tcInvalidArgument, "color is %d; it must be 0 or more, or TC_SPLIT_NOCOLOR", color);
  }
  CommSettings settings = parent->settings();
  if (checked.ok() && config != nullptr) checked = ReadConfig(config, &settings);
  return Collective("tcCommSplit", parent, [=] { return SplitFrom(checked, *parent, color, key, newComm, settings); });
}

TC_EXPORT(tcResult_t, tcCommFinalize, (tcComm_t comm)) {
  std::shared_ptr<Communicator> found;
  if (const Status bad = FindComm(comm, &found); !bad.ok()) return Refuse("tcCommFinalize", bad);
  return Collective("tcCommFinalize", found, [=] { return found->Finalize(); });
}

TC_EXPORT(tcResult_t, tcCommDestroy, (tcComm_t comm)) {
  std::shared_ptr<Communicator> removed;
  const Status status = Comms().Remove(comm, &removed);
  if (status.ok()) {
    WindowHandles().RemoveIf([&](const WindowHandle& window) { return window.comm == comm; });
    removed->backend().Drain();  // here: another thread's error getter may be what frees it
  }
  return Report("tcCommDestroy", status);
}

TC_EXPORT(tcResult_t, tcCommAbort, (tcComm_t comm)) {
  return WithComm("tcCommAbort", comm, [](Communicator& found) {
    found.Abort();
    return Status();
  });
}
