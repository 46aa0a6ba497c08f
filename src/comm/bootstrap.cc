// A call of all ranks, once they are connected:
//
//   rank 0 -> rank r   kArrived  when rank 0 enters the call: from now on its clock counts, so that all get one answer
//   rank r -> rank 0   kCall     kind, number of the call, own status, payload (and a descriptor)
//   rank 0 -> rank r   kOutcome  failed rank or -1, its code and sentence, else all payloads (and descriptors)
//
// kVerdict instead of kOutcome, at any time: the group is broken, with the sentence that all later calls return.
#include "comm/bootstrap.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <cerrno>
#include <iterator>

#include "comm/channel.h"
#include "comm/rendezvous.h"
#include "comm/wire.h"

namespace tc {
namespace {

constexpr const char* kCallNames[] = {"AllGather", "AllGatherFds"};

Status NoRoom() {
  return Error(tcSystemError,
               "this process could not take the file descriptors of the other ranks: too many open files; raise "
               "`ulimit -n`");
}

}  // namespace

Bootstrap::Bootstrap(const Options& options) : options_(options) {}
Bootstrap::~Bootstrap() = default;

Status Bootstrap::Connect(const Options& options, std::unique_ptr<Bootstrap>* bootstrap) {
  bootstrap->reset();
  if (options.n_ranks < 1 || options.n_ranks > static_cast<int>(Channel::kMaxFds)) {
    return Error(tcInvalidArgument, "nRanks is %d; it must be 1 to %zu", options.n_ranks, Channel::kMaxFds);
  }
  if (options.rank < 0 || options.rank >= options.n_ranks) {
    return Error(tcInvalidArgument, "rank is %d; it must be 0 to %d", options.rank, options.n_ranks - 1);
  }
  std::unique_ptr<Bootstrap> made(new Bootstrap(options));
  if (options.n_ranks > 1 && options.rank == 0) {
    TC_RETURN_IF_ERROR(GatherRanks(options, &made->peers_));
  } else if (options.n_ranks > 1) {
    made->peers_.resize(1);
    TC_RETURN_IF_ERROR(JoinRankZero(options, &made->peers_[0]));
  }
  *bootstrap = std::move(made);
  return Status();
}

std::vector<DeathWatch::Connection> Bootstrap::connections() const {
  std::vector<DeathWatch::Connection> open;
  for (size_t i = 0; i < peers_.size(); ++i) {
    if (peers_[i] != nullptr) open.push_back({options_.rank == 0 ? static_cast<int>(i) : 0, peers_[i]->fd()});
  }
  return open;
}

Status Bootstrap::AllGather(const Status& mine, const std::string& payload, std::vector<std::string>* all) {
  Contributions brought;
  TC_RETURN_IF_ERROR(Exchange(CallKind::kAllGather, {mine, payload, UniqueFd()}, &brought));
  all->clear();
  for (Contribution& each : brought) all->push_back(std::move(each.payload));
  return Status();
}

Status Bootstrap::AllGatherFds(int fd, std::vector<UniqueFd>* all) {
  Contribution mine;
  mine.fd.Reset(::fcntl(fd, F_DUPFD_CLOEXEC, 0));
  if (!mine.fd.valid()) mine.status = SystemError(errno, "file descriptor %d could not be shared", fd);
  Contributions brought;
  TC_RETURN_IF_ERROR(Exchange(CallKind::kAllGatherFds, std::move(mine), &brought));

  // Whether a rank had room for them only that rank knows: a second round makes it everybody's answer.
  Status received;
  for (const Contribution& each : brought) {
    if (!each.fd.valid()) received = NoRoom();
  }
  std::vector<std::string> unused;
  TC_RETURN_IF_ERROR(AllGather(received, "", &unused));
  all->clear();
  for (Contribution& each : brought) all->push_back(std::move(each.fd));
  return Status();
}

Status Bootstrap::Exchange(CallKind kind, Contribution mine, Contributions* all) {
  if (!broken_.ok()) return broken_;
  ++calls_;
  mine.here = true;
  all->resize(static_cast<size_t>(n_ranks()));
  if (rank() != 0) return ExchangeAsJoiner(kind, mine, all);
  (*all)[0] = std::move(mine);
  return n_ranks() == 1 ? (*all)[0].status : ExchangeAsRankZero(kind, all);
}

Status Bootstrap::ExchangeAsRankZero(CallKind kind, Contributions* all) {
  for (size_t peer = 1; peer < peers_.size(); ++peer) peers_[peer]->Queue(kArrived, "");
  if (Status status = Collect(kind, all); !status.ok()) return Break(std::move(status));

  int failed_rank = -1;
  for (int peer = n_ranks() - 1; peer >= 0; --peer) {
    Contribution& each = (*all)[static_cast<size_t>(peer)];
    const bool lost = kind == CallKind::kAllGatherFds && each.status.ok() && !each.fd.valid();
    if (lost) (*all)[0].status = NoRoom();
    if (!each.status.ok()) failed_rank = peer;
  }
  if (Status status = Deliver(kind, failed_rank, *all); !status.ok()) return Break(std::move(status));
  if (failed_rank < 0) return Status();
  const Status& failed = (*all)[static_cast<size_t>(failed_rank)].status;
  return failed_rank == 0 ? failed : Error(failed.code(), "rank %d: %s", failed_rank, failed.sentence().c_str());
}

// Serves all ranks at once, whatever order they come in. Those that have come are watched too: a rank that dies while
// it waits for others ends the call at once.
Status Bootstrap::Collect(CallKind kind, Contributions* all) {
  const Deadline end = After(options_.timeout);
  while (true) {
    bool complete = true;
    std::vector<pollfd> entries = {{-1, 0, 0}};  // [r] is rank r's
    for (size_t peer = 1; peer < peers_.size(); ++peer) {
      const Io sent = peers_[peer]->Send();  // an end that is closed shows below
      const bool here = (*all)[peer].here;
      complete = complete && here;
      const int events = POLLRDHUP | (here ? 0 : POLLIN) | (sent == Io::kWait ? POLLOUT : 0);
      entries.push_back({peers_[peer]->fd(), static_cast<short>(events), 0});
    }
    if (complete) return Status();
    if (!PollUntil(&entries, end)) return Absent(kind, *all);
    for (int peer = 1; peer < n_ranks(); ++peer) {
      const size_t at = static_cast<size_t>(peer);
      if (!(*all)[at].here && entries[at].revents != 0) TC_RETURN_IF_ERROR(TakeFrom(peer, kind, &(*all)[at]));
      if ((*all)[at].here && (entries[at].revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0) return Died(peer, kind);
    }
  }
}

Status Bootstrap::TakeFrom(int peer, CallKind kind, Contribution* into) {
  Channel& channel = *peers_[static_cast<size_t>(peer)];
  Frame frame;
  const Io io = channel.Receive(&frame);
  if (io == Io::kWait) return Status();
  if (io == Io::kClosed) return Died(peer, kind);
  if (io == Io::kFailed) return SystemError(channel.error(), "rank 0 could not read from rank %d", peer);

  uint32_t its_kind = 0;
  uint64_t its_call = 0;
  tcResult_t code = tcSuccess;
  std::string sentence;
  WireReader reader(frame.body);
  if (frame.type != kCall || !reader.Get(&its_kind) || !reader.Get(&its_call) || !reader.Get(&code) ||
      !reader.Get(&sentence) || !reader.Get(&into->payload) || its_kind >= std::size(kCallNames) ||
      its_call != calls_) {
    return Error(tcInternalError, "rank %d and rank 0 lost step at call %llu of the bootstrap", peer,
                 static_cast<unsigned long long>(calls_));
  }
  into->here = true;
  into->status = Status(code, std::move(sentence));
  if (its_kind != static_cast<uint32_t>(kind)) {
    into->status =
        Error(tcInvalidUsage, "called %s where rank 0 called %s (call %llu of the bootstrap)", kCallNames[its_kind],
              kCallNames[static_cast<uint32_t>(kind)], static_cast<unsigned long long>(calls_));
  }
  if (!frame.fds.empty()) into->fd = std::move(frame.fds[0]);
  return Status();
}

Status Bootstrap::Deliver(CallKind kind, int failed_rank, const Contributions& all) {
  WireWriter outcome;
  const Status& status = failed_rank < 0 ? Status() : all[static_cast<size_t>(failed_rank)].status;
  outcome.Put(failed_rank).Put(status.code()).Put(status.sentence());
  std::vector<int> fds;
  for (const Contribution& each : all) {
    if (failed_rank >= 0) break;
    outcome.Put(each.payload);
    if (kind == CallKind::kAllGatherFds) fds.push_back(each.fd.get());
  }
  const auto body = std::make_shared<const std::string>(outcome.Take());
  for (size_t peer = 1; peer < peers_.size(); ++peer) peers_[peer]->Queue(kOutcome, body, fds);

  const Deadline end = After(options_.timeout);
  while (true) {
    std::vector<pollfd> entries;
    std::vector<int> slow;
    for (int peer = 1; peer < n_ranks(); ++peer) {
      Channel& channel = *peers_[static_cast<size_t>(peer)];
      const Io io = channel.Send();
      if (io == Io::kClosed) return Died(peer, kind);
      if (io == Io::kFailed) return SystemError(channel.error(), "rank 0 could not write to rank %d", peer);
      if (io == Io::kDone) continue;
      entries.push_back({channel.fd(), POLLOUT, 0});
      slow.push_back(peer);
    }
    if (slow.empty()) return Status();
    if (PollUntil(&entries, end)) continue;
    return Error(tcTimeout, "%s did not take the outcome of %s within %lld ms", NameRanks(slow).c_str(),
                 kCallNames[static_cast<uint32_t>(kind)], static_cast<long long>(options_.timeout.count()));
  }
}

Status Bootstrap::Absent(CallKind kind, const Contributions& all) const {
  std::vector<int> missing;
  for (int peer = 1; peer < n_ranks(); ++peer) {
    if (!all[static_cast<size_t>(peer)].here) missing.push_back(peer);
  }
  return Error(tcTimeout, "%s of %d did not come to %s (call %llu of the bootstrap) within %lld ms",
               NameRanks(missing).c_str(), n_ranks(), kCallNames[static_cast<uint32_t>(kind)],
               static_cast<unsigned long long>(calls_), static_cast<long long>(options_.timeout.count()));
}

Status Bootstrap::ExchangeAsJoiner(CallKind kind, const Contribution& mine, Contributions* all) {
  WireWriter call;
  call.Put(static_cast<uint32_t>(kind)).Put(calls_).Put(mine.status.code()).Put(mine.status.sentence());
  call.Put(mine.payload);
  std::vector<int> fds;
  if (mine.fd.valid()) fds.push_back(mine.fd.get());
  peers_[0]->Queue(kCall, std::make_shared<const std::string>(call.Take()), std::move(fds));

  std::string outcome;
  std::vector<UniqueFd> shared;
  if (Status status = AwaitOutcome(kind, &outcome, &shared); !status.ok()) return Break(std::move(status));
  return ReadOutcome(outcome, std::move(shared), all);
}

// Sends and receives side by side: rank 0 may have said its last word before it has read a large payload.
Status Bootstrap::AwaitOutcome(CallKind kind, std::string* outcome, std::vector<UniqueFd>* fds) {
  Channel& rank_zero = *peers_[0];
  Deadline end = After(options_.timeout);
  bool arrived = false;
  while (true) {
    const Io sent = rank_zero.Send();  // an end that is closed shows in Receive, after what it said before
    if (sent == Io::kFailed) return SystemError(rank_zero.error(), "rank %d could not write to rank 0", rank());
    Frame frame;
    const Io io = rank_zero.Receive(&frame);
    if (io == Io::kClosed) return Died(0, kind);
    if (io == Io::kFailed) return SystemError(rank_zero.error(), "rank %d could not read from rank 0", rank());
    if (io == Io::kWait) {
      std::vector<pollfd> entry = {
          {rank_zero.fd(), static_cast<short>(sent == Io::kWait ? POLLIN | POLLOUT : POLLIN), 0}};
      if (PollUntil(&entry, end)) continue;
      return Error(tcTimeout, "rank 0 %s %s (call %llu of the bootstrap) within %lld ms",
                   arrived ? "did not finish" : "did not come to", kCallNames[static_cast<uint32_t>(kind)],
                   static_cast<unsigned long long>(calls_), static_cast<long long>(options_.timeout.count()));
    }
    if (frame.type == kOutcome) {
      *outcome = std::move(frame.body);
      *fds = std::move(frame.fds);
      return Status();
    }
    if (frame.type != kArrived) return VerdictOf(frame);
    arrived = true;
    end = After(options_.timeout + kVerdictGrace);
  }
}

Status Bootstrap::ReadOutcome(const std::string& outcome, std::vector<UniqueFd> fds, Contributions* all) const {
  int failed_rank = -1;
  tcResult_t code = tcSuccess;
  std::string sentence;
  WireReader reader(outcome);
  bool whole = reader.Get(&failed_rank) && reader.Get(&code) && reader.Get(&sentence);
  if (whole && failed_rank == rank()) return Status(code, std::move(sentence));
  if (whole && failed_rank >= 0) return Error(code, "rank %d: %s", failed_rank, sentence.c_str());
  for (size_t i = 0; i < all->size(); ++i) {
    whole = whole && reader.Get(&(*all)[i].payload);
    if (i < fds.size()) (*all)[i].fd = std::move(fds[i]);
  }
  return whole ? Status() : Error(tcInternalError, "rank 0's outcome ends too early");
}

Status Bootstrap::Died(int peer, CallKind kind) const {
  return Error(tcRemoteError,
               "rank %d died, or closed its communicator, before %s (call %llu of the bootstrap) was done", peer,
               kCallNames[static_cast<uint32_t>(kind)], static_cast<unsigned long long>(calls_));
}

// Rank 0 leaves the sentence in every connection before it closes: a rank that comes to this call later finds it there.
Status Bootstrap::Break(Status error) {
  broken_ = std::move(error);
  for (const std::unique_ptr<Channel>& peer : peers_) {
    if (peer == nullptr) continue;
    if (rank() == 0) {
      peer->Queue(kVerdict, VerdictBody(broken_));
      (void)peer->Send();
    }
    ::shutdown(peer->fd(), SHUT_WR);  // the descriptor stays: somebody may watch it
  }
  return broken_;
}

}  // namespace tc
