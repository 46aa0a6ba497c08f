// Rendezvous of the ranks of one node over Unix sockets, and the collective host calls of a communicator's life.
//
// Rank 0 listens under the id's name (abstract socket; a file below TC_BOOTSTRAP_DIR where network namespaces differ),
// every other rank connects to it, and the connections stay open: a star. Both ends check the peer's uid (SO_PEERCRED)
// and the id's secrets before anything else is read; a stranger is dropped and disturbs nobody. No IP interface is
// used.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "comm/death_watch.h"
#include "comm/unique_id.h"

namespace tc {

class Channel;

class Bootstrap {
 public:
  struct Options {
    UniqueId id;
    int n_ranks = 1;
    int rank = 0;
    std::string fingerprint;                    // library version and what changes protocol or plan: one readable line
    std::string directory;                      // where the socket file goes; empty: abstract socket
    std::chrono::milliseconds timeout{60'000};  // of Connect and of each later call
  };

  // Collective. Errors, the same sentence on every rank that can be reached: a rank that did not come in time (named),
  // two ranks with the same number, ranks that disagree on n_ranks or fingerprint (both sides printed).
  // n_ranks = 1 opens nothing.
  static Status Connect(const Options& options, std::unique_ptr<Bootstrap>* bootstrap);
  ~Bootstrap();

  int rank() const { return options_.rank; }
  int n_ranks() const { return options_.n_ranks; }

  // The open connections: rank 0's lead to every other rank, any other's to rank 0.
  std::vector<DeathWatch::Connection> connections() const;

  // Collective: every rank gives its own status and payload; all[r] receives rank r's payload. When any rank gave an
  // error, or dies, or does not come in time, every rank returns an error: the lowest failing rank's code and sentence
  // (prefixed "rank N: " on other ranks), tcRemoteError for a rank that died, tcTimeout for one that did not come.
  Status AllGather(const Status& mine, const std::string& payload, std::vector<std::string>* all);

  // Collective: a file descriptor from every rank to every rank; (*all)[r] is rank r's (own entry: a duplicate).
  Status AllGatherFds(int fd, std::vector<UniqueFd>* all);

 private:
  enum class CallKind : uint32_t { kAllGather, kAllGatherFds };

  // What a rank brings to a call.
  struct Contribution {
    Status status;
    std::string payload;
    UniqueFd fd;
    bool here = false;
  };
  using Contributions = std::vector<Contribution>;

  explicit Bootstrap(const Options& options);

  // One call of all ranks. When it succeeds *all holds what every rank brought, save descriptors for which this process
  // has no room. Sets broken_ when a rank is dead or absent.
  Status Exchange(CallKind kind, Contribution mine, Contributions* all);

  // Rank 0's part.
  Status ExchangeAsRankZero(CallKind kind, Contributions* all);
  Status Collect(CallKind kind, Contributions* all);
  Status TakeFrom(int rank, CallKind kind, Contribution* into);
  Status Deliver(CallKind kind, int failed_rank, const Contributions& all);
  Status Absent(CallKind kind, const Contributions& all) const;

  // Every other rank's part.
  Status ExchangeAsJoiner(CallKind kind, const Contribution& mine, Contributions* all);
  Status AwaitOutcome(CallKind kind, std::string* outcome, std::vector<UniqueFd>* fds);
  Status ReadOutcome(const std::string& outcome, std::vector<UniqueFd> fds, Contributions* all) const;

  Status Died(int rank, CallKind kind) const;
  Status Break(Status error);

  const Options options_;
  std::vector<std::unique_ptr<Channel>> peers_;  // rank 0: [r] leads to rank r; any other: [0] leads to rank 0
  uint64_t calls_ = 0;
  Status broken_;  // what every later call returns
};

}  // namespace tc
