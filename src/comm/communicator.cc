#include "comm/communicator.h"

#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "base/data_type.h"
#include "base/log.h"
#include "comm/allocation.h"
#include "protocol/abort.h"
#include "protocol/cpu_memory.h"

namespace tc {
namespace {

// Bump when the meaning of ControlBlock or of an operator's signals changes, or what ranks tell each other at init.
constexpr int kProtocolVersion = 4;

// Operators' failures that are kept for a caller who asks for none.
constexpr size_t kMostFailures = 256;

template <class Value>
std::string ToBytes(const Value& value) {
  return std::string(reinterpret_cast<const char*>(&value), sizeof(value));
}

template <class Value>
bool FromBytes(const std::string& bytes, Value* value) {
  if (bytes.size() != sizeof(*value)) return false;
  std::memcpy(value, bytes.data(), sizeof(*value));
  return true;
}

std::string Fingerprint(const CommSettings& settings, const Backend& backend) {
  return Format("TileComm %d.%d.%d, protocol %d, %s backend, workspaceBytes %zu, plane %s", TC_MAJOR, TC_MINOR,
                TC_PATCH, kProtocolVersion, backend.name(), settings.workspace_bytes, PlaneName(settings.plane));
}

}  // namespace

const Window* FindWindow(const Windows& windows, int64_t index) {
  const auto found =
      std::find_if(windows.begin(), windows.end(), [&](const auto& window) { return window->index == index; });
  return found == windows.end() ? nullptr : found->get();
}

Communicator::Communicator(const CommSettings& settings, std::unique_ptr<Backend> backend)
    : settings_(settings), backend_(std::move(backend)), windows_(std::make_shared<Windows>()) {}

Status Communicator::Create(const UniqueId& id, int n_ranks, int rank, const CommSettings& settings,
                            std::unique_ptr<Backend> backend, std::shared_ptr<Communicator>* comm) {
  std::shared_ptr<Communicator> made(new Communicator(settings, std::move(backend)));
  made->view_.rank = rank;
  made->view_.n_ranks = n_ranks;
  TC_RETURN_IF_ERROR(Bootstrap::Connect({.id = id,
                                         .n_ranks = n_ranks,
                                         .rank = rank,
                                         .fingerprint = Fingerprint(settings, *made->backend_),
                                         .directory = settings.bootstrap_dir,
                                         .timeout = settings.init_timeout},
                                        &made->bootstrap_));
  TC_RETURN_IF_ERROR(made->MeetNeighbours());
  TC_RETURN_IF_ERROR(made->AgreeOnFacts());
  TC_RETURN_IF_ERROR(made->VerifyPeers());
  TC_RETURN_IF_ERROR(made->MapControl());
  made->joined_ = true;
  if (n_ranks > 1) {
    TC_RETURN_IF_ERROR(DeathWatch::Start(
        made->bootstrap_->connections(), [raw = made.get()](int peer) { raw->OnClosed(peer); },
        [raw = made.get()] { raw->Notice(); }, &made->watch_));
  }
  Log(tcLogInfo, "%s: communicator of %d ranks on the %s backend", made->Who().c_str(), n_ranks,
      made->backend_->name());
  *comm = std::move(made);
  return {};
}

Communicator::~Communicator() {
  backend_->Drain();
  watch_.reset();
  SayGoodbye();
}

// Peers see the connection close and must know that this is no death. Their block stays mapped until they go, too.
void Communicator::SayGoodbye() {
  for (int peer = 0; peer < n_ranks() && view_.abort[peer] != nullptr; ++peer) {
    CpuMemory::StoreReleaseSys(&view_.abort[peer]->from[rank()].left, uint32_t{1});
  }
}

void Communicator::OnClosed(int peer) {
  // A rank that aborted, or failed in a host call, says so a moment before or after its connection closes.
  for (int tries = 0; tries < 20; ++tries) {
    if (HasLeft<CpuMemory>(view_, peer)) return;
    if (const int by = AbortedBy<CpuMemory>(view_); by >= 0) {
      EndAndTell(AbortReason(by), 0);
      return;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  EndAndTell(
      Error(tcRemoteError, "%s: rank %d died (its connection closed); destroy this communicator", Who().c_str(), peer),
      kPeerDied + static_cast<uint32_t>(peer));
}

void Communicator::Notice() {
  backend_->Collect(*this);
  const int by = AbortedBy<CpuMemory>(view_);
  if (by >= 0) EndAndTell(AbortReason(by), 0);
}

Status Communicator::AbortReason(int by) const {
  const uint32_t word = AbortWord<CpuMemory>(view_, by);
  const tcResult_t code = AbortCode(word);
  if (word == kEnded) {
    return Error(code, "rank %d's communicator ended by an error, which that rank tells; destroy this one", by);
  }
  if (word < kPeerDied) return Error(code, "rank %d aborted the communicator; destroy it", by);
  return Error(code, "rank %u died, as rank %d saw; destroy this communicator", word - kPeerDied, by);
}

std::string Communicator::Who() const {
  std::string who = "rank " + std::to_string(rank());
  return settings_.name.empty() ? who : who + " of " + settings_.name;
}

Status Communicator::Together(const Status& mine, const std::string& payload, std::vector<std::string>* all) {
  return Checked(bootstrap_->AllGather(mine, payload, all));
}

Status Communicator::Checked(Status status) {
  if (joined_ && !LeavesUsable(status.code())) End(status);
  return status;
}

Status Communicator::MeetNeighbours() {
  // The ticket of no segment: its process tells whether two ranks share one.
  const std::string process = ToBytes(SegmentTable::Instance().process());
  const std::string mine = process + Format("%d ", static_cast<int>(::getpid())) + backend_->identity();
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(Status(), mine, &payloads));
  std::vector<Neighbour> ranks;
  for (const std::string& payload : payloads) {
    const size_t device = std::min(payload.find(' ', process.size()), payload.size() - 1) + 1;
    ranks.push_back({payload.substr(device), payload.compare(0, process.size(), process) == 0});
    devices_.push_back(ranks.back().device);
  }
  Status met;
  for (size_t peer = 0; peer < ranks.size() && met.ok(); ++peer) {
    if (ranks[peer].same_process || ranks[peer].device.empty() || ranks[peer].device != backend_->identity()) continue;
    met = Error(
        tcInvalidUsage,
        "rank %zu (process %s) and rank %d (process %d) are two processes on one GPU (%s); give each process a GPU "
        "of its own, or make them threads of one process",
        peer, payloads[peer].substr(process.size(), payloads[peer].find(' ', process.size()) - process.size()).c_str(),
        rank(), static_cast<int>(::getpid()), backend_->identity().c_str());
  }
  std::string apart;
  if (met.ok()) met = backend_->Meet(ranks, &apart);
  TC_RETURN_IF_ERROR(Together(met, apart, &payloads));
  const auto first = std::find_if(payloads.begin(), payloads.end(), [](const auto& why) { return !why.empty(); });
  if (settings_.host_staged() || first == payloads.end()) return {};
  StageThroughHost(*first);  // one rank that cannot reach a peer is enough: a plane is the same for all
  return {};
}

Status Communicator::AgreeOnFacts() {
  std::string mine;
  if (rank() == 0) mine = Pack(FindFacts(settings_.fact_sources, *backend_, devices_));
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(Status(), mine, &payloads));
  TC_RETURN_IF_ERROR(Unpack(payloads[0], n_ranks(), &facts_));
  const std::string apart = WhyApart(facts_.table);
  if (!apart.empty() && n_ranks() > 1 && settings_.plane == tcPlaneAuto) StageThroughHost(apart);
  return {};
}

void Communicator::StageThroughHost(const std::string& why) {
  settings_.plane = tcPlaneHostStaged;
  Log(rank() == 0 ? tcLogWarn : tcLogInfo, "%s: all data goes through host memory: %s", Who().c_str(), why.c_str());
}

Status Communicator::VerifyPeers() {
  if (n_ranks() == 1 || settings_.host_staged()) return {};
  std::string key;
  bool verifies = false;
  PeerVerdicts mine = settings_.check_failures;
  TC_RETURN_IF_ERROR(AgreeToVerify(&key, &verifies));
  if (verifies) TC_RETURN_IF_ERROR(RunChecks(&mine));
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(Status(), Pack(mine), &payloads));
  for (const std::string& payload : payloads) {
    PeerVerdicts theirs;
    if (!Unpack(payload, &theirs)) return Error(tcInternalError, "a rank sent verdicts that make no sense");
    verdicts_.Add(theirs);
  }
  if (verifies && rank() == 0 && verdicts_.fine()) Remember(CacheDirectory(settings_.cache_dir), key);

  usual_plane_ = tcPlaneAuto;
  std::string failed;
  for (const tcPlane_t plane : {tcPlanePush, tcPlanePull, tcPlaneCopyEngine}) {
    if ((backend_->planes() >> plane & 1) == 0) continue;
    const std::string why = WhyFailed(verdicts_, plane);
    if (why.empty()) {
      if (usual_plane_ == tcPlaneAuto) usual_plane_ = plane;
      continue;
    }
    if (failed.empty()) failed = why;
    facts_.table.failed_planes.push_back(plane);  // which the planner leaves out
    Log(rank() == 0 ? tcLogWarn : tcLogInfo, "%s: plane %s is not used: %s", Who().c_str(), PlaneName(plane),
        why.c_str());
  }
  if (settings_.plane != tcPlaneAuto) return MayUse(settings_.plane);
  if (usual_plane_ == tcPlaneAuto) StageThroughHost(failed);
  return {};
}

Status Communicator::AgreeToVerify(std::string* key, bool* verifies) {
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(Status(), backend_->CheckKey(), &payloads));
  *key = Format("TileComm %d.%d.%d\n", TC_MAJOR, TC_MINOR, TC_PATCH);
  for (const std::string& part : payloads) *key += part + "\n";
  const bool never = settings_.verify == Verify::kNever || payloads[0].empty();
  const bool remembered = !never && settings_.verify == Verify::kUnlessRemembered &&
                          IsRemembered(CacheDirectory(settings_.cache_dir), *key);
  TC_RETURN_IF_ERROR(Together(Status(), never || remembered ? "skip" : "verify", &payloads));
  *verifies = payloads[0] == "verify";
  return {};
}

Status Communicator::RunChecks(PeerVerdicts* mine) {
  std::shared_ptr<Segment> segment;
  std::vector<std::shared_ptr<Segment>> mappings;
  std::vector<std::byte*> bases;
  const Status allocated = backend_->Allocate(Memory::kDevice, CheckArea::TotalBytes(n_ranks()), true, &segment);
  TC_RETURN_IF_ERROR(ShareSegment(Memory::kDevice, allocated, segment, 0, &mappings, &bases));
  CheckArea area{.rank = rank(), .n_ranks = n_ranks()};
  std::copy(bases.begin(), bases.end(), area.base);
  for (const CheckStep& step : CheckSteps()) {
    std::vector<std::string> payloads;
    const Status done = backend_->RunCheck(step, area, &mine->wrong[static_cast<int>(step.check)][rank()]);
    TC_RETURN_IF_ERROR(Together(done, "", &payloads));
  }
  return {};
}

Status Communicator::MayUse(tcPlane_t plane) const {
  const std::string why = WhyFailed(verdicts_, plane);
  if (why.empty()) return {};
  return Error(tcUnsupported, "plane %s failed its verification: %s; or leave the plane to auto", PlaneName(plane),
               why.c_str());
}

Status Communicator::ShareSegment(Memory memory, const Status& mine, const std::shared_ptr<Segment>& segment,
                                  size_t offset, std::vector<std::shared_ptr<Segment>>* mappings,
                                  std::vector<std::byte*>* bases) {
  struct Offer {
    SegmentTicket ticket;
    uint64_t offset;
  };
  Offer offer{};
  if (segment != nullptr) offer = {SegmentTable::Instance().Add(segment), offset};
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(mine, ToBytes(offer), &payloads));

  std::vector<Offer> offers(payloads.size());
  bool one_process = true;
  for (size_t peer = 0; peer < payloads.size(); ++peer) {
    if (!FromBytes(payloads[peer], &offers[peer])) {
      return Error(tcInternalError, "rank %zu sent a segment offer of %zu bytes", peer, payloads[peer].size());
    }
    one_process = one_process && offers[peer].ticket.process == offers[0].ticket.process;
  }
  // Whether the ranks share one process is the same answer on all of them, so all skip the descriptors or none does.
  std::vector<UniqueFd> fds;
  if (!one_process) TC_RETURN_IF_ERROR(Checked(bootstrap_->AllGatherFds(segment->fd(), &fds)));

  Status mapped;
  mappings->resize(offers.size());
  bases->resize(offers.size());
  for (size_t peer = 0; peer < offers.size() && mapped.ok(); ++peer) {
    std::shared_ptr<Segment>& mapping = (*mappings)[peer];
    mapping = SegmentTable::Instance().Find(offers[peer].ticket);
    if (mapping != nullptr) {
      mapped = backend_->Adopt(memory, *mapping);
    } else if (peer < fds.size()) {
      mapped = backend_->Import(memory, offers[peer].ticket, fds[peer], &mapping);
    } else {
      mapped = Error(tcRemoteError, "rank %zu's memory is gone: its call has failed", peer);
    }
    if (mapped.ok()) (*bases)[peer] = mapping->base() + offers[peer].offset;
  }
  // Nobody goes on, and nobody lets go of its own segment, before all have mapped it.
  return Together(mapped, "", &payloads);
}

Status Communicator::MapControl() {
  const bool shared = n_ranks() > 1;  // a lone rank has no peer, so nothing to share and nothing to stage
  const bool host_staged = shared && settings_.host_staged();
  const size_t staging = shared ? settings_.workspace_bytes : 0;
  const size_t slot_bytes = ControlBytes(packet_rows());
  const size_t control_bytes = slot_bytes + staging;
  // One allocation of what lies on the device: what peers write, or, when they write to the host, where it lands; and
  // what this rank alone touches. CUDA maps no less than 2 MiB to a peer.
  const size_t before = host_staged ? staging : control_bytes;
  const size_t local_place = (before + kWriterStride - 1) / kWriterStride * kWriterStride;
  const size_t device_bytes = local_place + sizeof(LocalBlock) + backend_->table_bytes();
  std::shared_ptr<Segment> control;
  std::shared_ptr<Segment> abort;
  Status allocated = backend_->Allocate(Memory::kDevice, device_bytes, shared && !host_staged, &device_memory_);
  if (allocated.ok()) {
    control = device_memory_;
    view_.local = reinterpret_cast<LocalBlock*>(device_memory_->base() + local_place);
    backend_->PlaceTables(device_memory_->base() + local_place + sizeof(LocalBlock));
    reserved_bytes_ = device_memory_->reserved_bytes();
  }
  if (allocated.ok() && host_staged) {
    view_.landing = device_memory_->base();
    allocated = backend_->Allocate(Memory::kHost, control_bytes, shared, &control);
    if (allocated.ok()) reserved_bytes_ += control->reserved_bytes();
  }
  if (allocated.ok()) allocated = backend_->Allocate(Memory::kHost, sizeof(AbortBlock), shared, &abort);
  if (allocated.ok()) reserved_bytes_ += abort->reserved_bytes();
  const Memory memory = host_staged ? Memory::kHost : Memory::kDevice;  // of what peers write
  std::vector<std::byte*> controls;
  std::vector<std::byte*> aborts;
  TC_RETURN_IF_ERROR(ShareSegment(memory, allocated, control, 0, &control_mappings_, &controls));
  TC_RETURN_IF_ERROR(ShareSegment(Memory::kHost, Status(), abort, 0, &abort_mappings_, &aborts));
  for (int peer = 0; peer < n_ranks(); ++peer) {
    view_.control[peer] = reinterpret_cast<ControlBlock*>(controls[peer]);
    view_.workspace[peer] = controls[peer] + slot_bytes;
    view_.abort[peer] = reinterpret_cast<AbortBlock*>(aborts[peer]);
  }
  return {};
}

Status Communicator::Split(const Status& checked, int color, int key, SplitGroup* group) {
  struct Choice {
    int32_t color;
    int32_t key;
    UniqueId id;
  };
  Choice mine{color, key, {}};
  Status made = checked.ok() ? Usable() : checked;
  if (made.ok()) made = MakeUniqueId(&mine.id);
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(made, ToBytes(mine), &payloads));
  std::vector<std::pair<int32_t, int>> members;  // (key, old rank), the new order
  std::vector<Choice> choices(payloads.size());
  for (size_t peer = 0; peer < payloads.size(); ++peer) {
    if (!FromBytes(payloads[peer], &choices[peer])) {
      return Error(tcInternalError, "rank %zu sent a split choice of %zu bytes", peer, payloads[peer].size());
    }
    if (choices[peer].color == color) members.emplace_back(choices[peer].key, static_cast<int>(peer));
  }
  if (color == TC_SPLIT_NOCOLOR) return {};
  std::sort(members.begin(), members.end());
  group->id = choices[members.front().second].id;
  group->n_ranks = static_cast<int>(members.size());
  group->rank = static_cast<int>(std::find(members.begin(), members.end(), std::pair(key, rank())) - members.begin());
  return {};
}

Status Communicator::Register(const Status& checked, void* ptr, size_t bytes, std::shared_ptr<const Window>* window) {
  Status ready = checked.ok() ? Usable() : checked;
  std::shared_ptr<Segment> segment;
  size_t offset = 0;
  if (ready.ok()) ready = Allocations::Instance().Find(ptr, bytes, &segment, &offset);
  auto made = std::make_shared<Window>();
  std::vector<std::byte*> bases;
  if (settings_.host_staged()) {
    std::vector<std::string> payloads;
    TC_RETURN_IF_ERROR(Together(ready, "", &payloads));
    made->reachable = false;
    made->mappings = {segment};
    bases.resize(n_ranks());
    bases[rank()] = static_cast<std::byte*>(ptr);
  } else {
    TC_RETURN_IF_ERROR(ShareSegment(Memory::kDevice, ready, segment, offset, &made->mappings, &bases));
  }
  std::copy(bases.begin(), bases.end(), made->base.begin());
  made->local = static_cast<std::byte*>(ptr);
  made->bytes = bytes;
  auto windows = std::make_shared<Windows>(*this->windows());
  // The lowest free index: all ranks register and deregister in one order, so it is the same everywhere.
  while (
      std::any_of(windows->begin(), windows->end(), [&](const auto& other) { return other->index == made->index; })) {
    ++made->index;
  }
  windows->push_back(made);
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(backend_->PlaceWindow(made->index, bases), "", &payloads));
  std::lock_guard lock(mutex_);
  windows_ = std::move(windows);
  counters_.window_bytes += bytes;
  *window = std::move(made);
  return {};
}

Status Communicator::Deregister(const Status& checked, int64_t index) {
  // Peers may still store into this rank's part, so nobody unmaps before everybody has finished.
  backend_->Drain();
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(checked.ok() ? Usable() : checked, ToBytes(index), &payloads));
  for (size_t peer = 0; peer < payloads.size(); ++peer) {
    int64_t other = -1;
    if (!FromBytes(payloads[peer], &other) || other != index) {
      return Error(
          tcInvalidUsage,
          "%s deregisters its window %lld, rank %zu its window %lld; deregister in the same order on every rank",
          Who().c_str(), static_cast<long long>(index), peer, static_cast<long long>(other));
    }
  }
  std::lock_guard lock(mutex_);
  auto windows = std::make_shared<Windows>(*windows_);
  std::erase_if(*windows, [&](const auto& window) {
    if (window->index != index) return false;
    counters_.window_bytes -= window->bytes;
    return true;
  });
  windows_ = std::move(windows);
  return {};
}

std::shared_ptr<const Windows> Communicator::windows() const {
  std::lock_guard lock(mutex_);
  return windows_;
}

Destination Communicator::Locate(const Windows& windows, const void* ptr, size_t bytes) {
  const auto* begin = static_cast<const std::byte*>(ptr);
  for (const auto& window : windows) {
    if (window->reachable && begin >= window->local && bytes <= window->bytes &&
        static_cast<size_t>(begin - window->local) <= window->bytes - bytes) {
      return {window->index, static_cast<uint64_t>(begin - window->local)};
    }
  }
  return {};
}

Status Communicator::Finalize() {
  backend_->Drain();
  std::vector<std::string> payloads;
  TC_RETURN_IF_ERROR(Together(Usable(), "", &payloads));
  SayGoodbye();  // the process may end without tcCommDestroy
  std::lock_guard lock(mutex_);
  finalized_ = true;
  return {};
}

void Communicator::Abort() {
  EndAndTell(Error(tcAborted, "%s: tcCommAbort was called here; destroy this communicator", Who().c_str()),
             kAbortCalled);
}

Status Communicator::fatal() {
  Notice();
  std::lock_guard lock(mutex_);
  return fatal_;
}

Status Communicator::Usable() {
  Notice();
  std::lock_guard lock(mutex_);
  if (!fatal_.ok()) {
    return Error(fatal_.code(), "the communicator has ended (%s); destroy it and make a new one",
                 fatal_.sentence().c_str());
  }
  if (finalized_) {
    return Error(tcInvalidUsage, "%s: the communicator was finalized; only tcCommDestroy is left", Who().c_str());
  }
  return {};
}

bool Communicator::Fail(const Status& status) {
  std::lock_guard lock(mutex_);
  const bool first = fatal_.ok();
  if (first) {
    fatal_ = status;
    last_error_ = status.sentence();
    Log(tcLogError, "%s", status.sentence().c_str());
  }
  // Again, too: a kernel may have written there what it saw of this.
  CpuMemory::StoreReleaseSys(backend_->error_word(), fatal_.code());
  return first;
}

void Communicator::EndAndTell(const Status& status, uint32_t word) {
  if (!Fail(status)) return;
  if (word != 0) PublishAbort<CpuMemory>(view_, word);
  backend_->Stop();  // last: it may have to wait for operators that only the word ends
}

void Communicator::End(const Status& status) {
  const bool told = AbortedBy<CpuMemory>(view_) >= 0;  // everybody knows the cause already
  EndAndTell(status, told ? 0 : kEnded);
}

void Communicator::FailOperator(const Status& status, std::optional<tcStream_t> stream) {
  std::lock_guard lock(mutex_);
  if (operator_failures_.size() < kMostFailures) operator_failures_.push_back({stream, status});
  Log(tcLogError, "%s", status.sentence().c_str());
}

std::string Communicator::Title(int32_t op, Sequence epoch) const {
  return Format("%s: %s #%llu", Who().c_str(), OpName(op), static_cast<unsigned long long>(epoch));
}

void Communicator::WarnOfWait(int32_t op, Sequence epoch, int peer, std::chrono::nanoseconds waited) const {
  Log(tcLogWarn, "%s has waited %g s for rank %d to enter", Title(op, epoch).c_str(),
      std::chrono::duration<double>(waited).count(), peer);
}

Status Communicator::PeerHasLeft(int32_t op, Sequence epoch, int peer) const {
  return Error(tcRemoteError, "%s: rank %d has destroyed its communicator and will not enter", Title(op, epoch).c_str(),
               peer);
}

Status Communicator::TakeAsyncError() {
  Notice();
  std::lock_guard lock(mutex_);
  if (!fatal_.ok() || operator_failures_.empty()) return fatal_;
  const Status oldest = std::move(operator_failures_.front().status);
  operator_failures_.erase(operator_failures_.begin());
  last_error_ = oldest.sentence();
  return oldest;
}

Status Communicator::TakeAsyncError(tcStream_t stream) {
  Notice();
  std::lock_guard lock(mutex_);
  if (!fatal_.ok()) return fatal_;
  Status oldest;
  std::erase_if(operator_failures_, [&](OperatorFailure& failure) {
    if (failure.stream.value_or(stream) != stream) return false;
    if (oldest.ok()) oldest = std::move(failure.status);
    return true;
  });
  if (!oldest.ok()) last_error_ = oldest.sentence();
  return oldest;
}

void Communicator::SetLastError(const std::string& sentence) {
  std::lock_guard lock(mutex_);
  last_error_ = sentence;
}

std::string Communicator::last_error() const {
  std::lock_guard lock(mutex_);
  return last_error_;
}

const Communicator::Counters& Communicator::Tally() {
  backend_->Tally(*this);
  return counters_;
}

int Communicator::packet_rows() const {
  return n_ranks() > 1 && backend_->sends_packets() && !settings_.host_staged() ? n_ranks() : 0;
}

uint64_t Communicator::memory_bytes() const { return reserved_bytes_ + backend_->memory_bytes(); }

}  // namespace tc
