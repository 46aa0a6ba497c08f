// A communicator: one rank's membership, its view of all ranks' memory, its windows, and its state of error.
#pragma once

#include <array>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/env.h"
#include "base/status.h"
#include "comm/agreed_facts.h"
#include "comm/backend.h"
#include "comm/bootstrap.h"
#include "comm/unique_id.h"
#include "comm/verification.h"
#include "protocol/layout.h"
#include "tc.h"

namespace tc {

// Whether init verifies that ranks reach each other's memory rightly: unless that is remembered, always, never.
enum class Verify { kUnlessRemembered, kAlways, kNever };

// tcConfig_t with the environment applied and every default filled in.
struct CommSettings {
  tcBackend_t backend = tcBackendHost;
  int device = -1;
  size_t workspace_bytes = 0;
  std::chrono::nanoseconds timeout{};
  std::chrono::nanoseconds entry_timeout{};
  std::chrono::nanoseconds entry_warning = std::chrono::seconds(60);
  std::chrono::milliseconds init_timeout{};
  std::chrono::nanoseconds jitter{};  // of blocks, for tests
  bool vmm_disable = false;
  // Of operators that are not told. tcPlaneHostStaged is of all: no device reaches a peer's memory.
  tcPlane_t plane = tcPlaneAuto;
  int comm_sms = 0;      // of a plain collective; 0: the kernels' default
  int host_threads = 0;  // 0: the processor's share
  std::string bootstrap_dir;
  std::string cache_dir;  // "": the user's
  Verify verify = Verify::kUnlessRemembered;
  PeerVerdicts check_failures;  // for tests: what is found wrong besides
  std::string name;
  FactSources fact_sources;

  bool host_staged() const { return plane == tcPlaneHostStaged; }
};

// Memory that all ranks registered together. Its index is the same on every rank.
struct Window {
  int64_t index = 0;
  bool reachable = true;  // by peers, the same on every rank; else only the own base is known
  std::byte* local = nullptr;
  size_t bytes = 0;
  std::array<std::byte*, kMaxRanks> base = {};  // of every rank's part, in this rank's address space
  std::vector<std::shared_ptr<Segment>> mappings;
};
using Windows = std::vector<std::shared_ptr<const Window>>;

// NULL when there is none of that index.
const Window* FindWindow(const Windows& windows, int64_t index);

class Communicator {
 public:
  // Collective. On the ranks of one node.
  static Status Create(const UniqueId& id, int n_ranks, int rank, const CommSettings& settings,
                       std::unique_ptr<Backend> backend, std::shared_ptr<Communicator>* comm);
  ~Communicator();

  int rank() const { return view_.rank; }
  int n_ranks() const { return view_.n_ranks; }
  const CommSettings& settings() const { return settings_; }
  Backend& backend() const { return *backend_; }
  const RankView& view() const { return view_; }
  // Of an operator for which nobody says it: the first of push, pull and copy engine that passed its verification.
  tcPlane_t usual_plane() const { return usual_plane_; }
  // tcUnsupported, and why, for a plane that failed its verification.
  Status MayUse(tcPlane_t plane) const;
  const AgreedFacts& facts() const { return facts_; }

  // What the planner said of an operator, for its next call. Not thread-safe, as calls of one communicator are not.
  struct PlaneChoice {
    tcPlane_t plane = tcPlaneAuto;  // auto: none of the kernels there are
    int comm_sms = 0;
  };
  using OperatorKey = std::array<uint64_t, 7>;
  std::map<OperatorKey, PlaneChoice>& choices() const { return choices_; }
  // "rank 2", or "rank 2 of decoder" where the configuration gave a name.
  std::string Who() const;
  // "rank 2: tcAllGather #41"
  std::string Title(int32_t op, Sequence epoch) const;

  // Collective: ranks of one colour meet again as a new communicator. id and place are those of the new one.
  struct SplitGroup {
    UniqueId id;
    int n_ranks = 0;  // 0: this rank joins none
    int rank = 0;
  };
  Status Split(const Status& checked, int color, int key, SplitGroup* group);

  // Collective.
  // `checked`: what this rank found wrong with the call already; all ranks then fail with it.
  Status Register(const Status& checked, void* ptr, size_t bytes, std::shared_ptr<const Window>* window);
  Status Deregister(const Status& checked, int64_t index);
  // The windows as they are now; an operator that was launched keeps its own copy.
  std::shared_ptr<const Windows> windows() const;
  // The window that holds all of [ptr, ptr + bytes), as peers will know it; {-1, 0} when there is none, or peers cannot
  // reach it.
  static Destination Locate(const Windows& windows, const void* ptr, size_t bytes);

  Status Finalize();
  void Abort();

  // Why rank `by` aborted, as its abort word here says.
  Status AbortReason(int by) const;

  // The error that ended the communicator, or success.
  Status fatal();
  // Whether a call may begin: not finalized, not failed.
  Status Usable();
  // Ends the communicator, unless it has ended, and tells the peers, who would wait for this rank.
  void End(const Status& status);
  // One operator failed on every rank alike; the communicator goes on. `stream`: where it was called, if that is known.
  void FailOperator(const Status& status, std::optional<tcStream_t> stream);
  // An operator that goes on waiting says so.
  void WarnOfWait(int32_t op, Sequence epoch, int peer, std::chrono::nanoseconds waited) const;
  // The end of an operator that waits for a rank which has left in good order.
  Status PeerHasLeft(int32_t op, Sequence epoch, int peer) const;
  // What tcCommGetAsyncError reports: a fatal error for ever, an operator's failure once, the oldest first.
  Status TakeAsyncError();
  // The same for who waits for a stream: all failures there are reported by the first of them.
  Status TakeAsyncError(tcStream_t stream);

  void SetLastError(const std::string& sentence);
  std::string last_error() const;

  struct Counters {
    std::atomic<uint64_t> ops{0};
    std::atomic<uint64_t> bytes_sent{0};
    std::atomic<uint64_t> bytes_received{0};
    std::atomic<uint64_t> window_bytes{0};
    std::array<std::atomic<uint64_t>, kMaxRanks> wait_ns{};
  };
  Counters& counters() { return counters_; }
  // The same, with what the device has counted since.
  const Counters& Tally();
  // What this communicator has reserved on this rank, host memory included.
  uint64_t memory_bytes() const;

 private:
  Communicator(const CommSettings& settings, std::unique_ptr<Backend> backend);
  void SayGoodbye();
  // Ranks that may write packets here.
  int packet_rows() const;
  // Notes what ended the communicator: true for the first.
  bool Fail(const Status& status);
  // The first time: tells the peers by an abort word, 0 for none, and stops what is queued.
  void EndAndTell(const Status& status, uint32_t word);
  // The connection to `peer` closed.
  void OnClosed(int peer);
  // Takes over what operators reported and what peers' abort words say.
  void Notice();
  // Collective: the bootstrap's AllGather. An error that is not about the call's arguments ends the communicator.
  Status Together(const Status& mine, const std::string& payload, std::vector<std::string>* all);
  Status Checked(Status status);
  // Collective: who is where, and whether devices reach each other; then the memory through which ranks talk.
  Status MeetNeighbours();
  Status VerifyPeers();
  Status MapControl();
  // Parts of VerifyPeers: rank 0's word for all on whether they go through the checks, and the checks.
  Status AgreeToVerify(std::string* key, bool* verifies);
  Status RunChecks(PeerVerdicts* mine);
  // Collective: rank 0's facts. They may say that no peer's memory is to be used.
  Status AgreeOnFacts();
  // From here on all ranks use the host-staged plane.
  void StageThroughHost(const std::string& why);
  // Collective: every rank's segment, mapped here. `mine` may be an error, which all ranks then return.
  Status ShareSegment(Memory memory, const Status& mine, const std::shared_ptr<Segment>& segment, size_t offset,
                      std::vector<std::shared_ptr<Segment>>* mappings, std::vector<std::byte*>* bases);

  CommSettings settings_;
  bool joined_ = false;  // all of Create has succeeded so far as peers can tell
  std::unique_ptr<Backend> backend_;
  std::unique_ptr<Bootstrap> bootstrap_;
  RankView view_;
  std::vector<std::string> devices_;  // of all ranks: Backend::identity()
  AgreedFacts facts_;
  mutable std::map<OperatorKey, PlaneChoice> choices_;
  PeerVerdicts verdicts_;
  tcPlane_t usual_plane_ = tcPlanePush;
  std::shared_ptr<Segment> device_memory_;
  uint64_t reserved_bytes_ = 0;  // on this rank, by MapControl
  std::vector<std::shared_ptr<Segment>> control_mappings_;
  std::vector<std::shared_ptr<Segment>> abort_mappings_;

  std::unique_ptr<DeathWatch> watch_;

  mutable std::mutex mutex_;  // over what follows
  std::shared_ptr<const Windows> windows_;
  Status fatal_;
  struct OperatorFailure {
    std::optional<tcStream_t> stream;
    Status status;
  };
  std::vector<OperatorFailure> operator_failures_;  // not reported yet
  bool finalized_ = false;
  std::string last_error_;

  Counters counters_;
};

}  // namespace tc
