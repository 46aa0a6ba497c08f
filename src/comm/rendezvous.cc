#include "comm/rendezvous.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <optional>
#include <thread>

#include "comm/listener.h"
#include "comm/wire.h"

namespace tc {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kStrangerLimit{2000};  // to show the secret; a rank that was too slow dials again
constexpr milliseconds kLinger{1000};         // how long a failed rank 0 stays to tell those that come just now
constexpr size_t kMaxStrangers = 64;          // at once; the oldest goes first

bool EqualInConstantTime(const std::array<uint8_t, 32>& a, const std::array<uint8_t, 32>& b) {
  volatile uint8_t difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference = static_cast<uint8_t>(difference | (a[i] ^ b[i]));
  return difference == 0;
}

std::string HelloBody(const std::array<uint8_t, 32>& secret, milliseconds left) {
  Hello hello;
  hello.secret = secret;
  hello.left_ms = static_cast<uint32_t>(std::clamp<int64_t>(left.count(), 0, UINT32_MAX));
  return std::string(reinterpret_cast<const char*>(&hello), sizeof(hello));
}

// Nothing when the frame is not from somebody who knows the secret.
std::optional<Hello> HelloOf(const Frame& frame, const std::array<uint8_t, 32>& secret) {
  Hello hello;
  const std::array<char, 8> magic = hello.magic;
  if (frame.type != kHello || frame.body.size() != sizeof(hello)) return std::nullopt;
  std::memcpy(&hello, frame.body.data(), sizeof(hello));
  if (hello.magic != magic || !EqualInConstantTime(hello.secret, secret)) return std::nullopt;
  return hello;
}

Status OtherVersion(pid_t pid, uint32_t joiner, uint32_t root) {
  return Error(tcInvalidUsage,
               "the rank of process %d speaks bootstrap protocol %u, rank 0 speaks %u; load the same version of the "
               "library in every process",
               static_cast<int>(pid), joiner, root);
}

// Rank 0's side. One poll loop serves all connections, so that nobody can hold up another.
class Gathering {
 public:
  Gathering(const Bootstrap::Options& options, Listener* listener, Deadline end)
      : options_(options), listener_(*listener), end_(end), expected_(options.n_ranks - 1) {}

  Status Run(std::vector<std::unique_ptr<Channel>>* peers);

 private:
  enum class Stage { kStranger, kFriend, kJoined, kTold, kGone };
  struct Guest {
    std::unique_ptr<Channel> channel;
    pid_t pid = 0;
    Deadline limit;  // of a stranger
    Stage stage = Stage::kStranger;
    int rank = -1;
  };
  struct RankHello {
    int rank = -1;
    int n_ranks = 0;
    std::string fingerprint;
  };

  void ServeOnce();
  void AcceptAll();
  void Advance(Guest* guest);
  Stage Greet(Guest* guest, const Frame& frame);
  Stage Join(Guest* guest, const Frame& frame);
  Status Check(const Guest& guest, const RankHello& hello) const;
  Status Missing() const;
  void Fail(Status verdict);
  Stage Tell(Guest* guest);
  Status Welcome(std::vector<std::unique_ptr<Channel>>* peers);

  const Bootstrap::Options& options_;
  Listener& listener_;
  Deadline end_;
  std::vector<Guest> guests_;
  Status verdict_;
  int joined_ = 0;
  int expected_;  // connections that should hear of a failure
  int told_ = 0;
};

Status Gathering::Run(std::vector<std::unique_ptr<Channel>>* peers) {
  while (verdict_.ok() ? joined_ < options_.n_ranks - 1 : told_ < expected_) {
    ServeOnce();
    if (!Passed(end_)) continue;
    if (verdict_.ok() && joined_ < options_.n_ranks - 1) Fail(Missing());
    break;
  }
  listener_.Close();  // before any rank goes on: the next communicator of the same id must not find this one
  return verdict_.ok() ? Welcome(peers) : verdict_;
}

void Gathering::ServeOnce() {
  Deadline wake = end_;
  std::vector<pollfd> entries = {{listener_.fd(), POLLIN, 0}};
  for (const Guest& guest : guests_) {
    const bool silent = guest.stage == Stage::kJoined;  // has nothing to say, but can die
    entries.push_back(
        {guest.stage == Stage::kTold ? -1 : guest.channel->fd(), static_cast<short>(silent ? POLLRDHUP : POLLIN), 0});
    if (guest.stage == Stage::kStranger) wake = std::min(wake, guest.limit);
  }
  PollUntil(&entries, wake);
  for (size_t i = 0; i < guests_.size(); ++i) {
    if (entries[i + 1].revents != 0) Advance(&guests_[i]);
    if (guests_[i].stage == Stage::kStranger && Passed(guests_[i].limit)) guests_[i].stage = Stage::kGone;
  }
  if (entries[0].revents != 0) AcceptAll();
  std::erase_if(guests_, [](const Guest& guest) { return guest.stage == Stage::kGone; });
}

void Gathering::AcceptAll() {
  for (size_t i = 0; i < kMaxStrangers; ++i) {
    int error = 0;
    UniqueFd fd = listener_.Accept(&error);
    if (error == EAGAIN || error == EWOULDBLOCK) return;
    if (error != 0) return Fail(SystemError(error, "rank 0 could not accept the connection of a rank"));
    Guest guest;
    if (!IsOwnUser(fd.get(), &guest.pid)) continue;
    guest.channel = std::make_unique<Channel>(std::move(fd));
    guest.limit = After(kStrangerLimit);
    const auto stranger = [](const Guest& other) { return other.stage == Stage::kStranger; };
    if (static_cast<size_t>(std::count_if(guests_.begin(), guests_.end(), stranger)) >= kMaxStrangers) {
      guests_.erase(std::find_if(guests_.begin(), guests_.end(), stranger));
    }
    guests_.push_back(std::move(guest));
  }
}

void Gathering::Advance(Guest* guest) {
  if (guest->stage == Stage::kJoined) {  // polled for its end only
    guest->stage = Stage::kGone;
    --expected_;
    Fail(Error(tcRemoteError, "rank %d (process %d) died, or gave up, before all %d ranks had joined", guest->rank,
               static_cast<int>(guest->pid), options_.n_ranks));
    return;
  }
  while (guest->stage == Stage::kStranger || guest->stage == Stage::kFriend) {
    Frame frame;
    const Io io = guest->channel->Receive(&frame);
    if (io == Io::kWait) return;
    if (io != Io::kDone) {
      guest->stage = Stage::kGone;
    } else {
      guest->stage = guest->stage == Stage::kStranger ? Greet(guest, frame) : Join(guest, frame);
    }
  }
}

Gathering::Stage Gathering::Greet(Guest* guest, const Frame& frame) {
  const std::optional<Hello> hello = HelloOf(frame, options_.id.joiner_secret);
  if (!hello) return Stage::kGone;
  guest->channel->Trust();
  const auto left = std::chrono::duration_cast<milliseconds>(end_ - std::chrono::steady_clock::now());
  guest->channel->Queue(kHello, HelloBody(options_.id.root_secret, left));
  if (guest->channel->Send() != Io::kDone) return Stage::kGone;
  if (hello->version == Hello::kVersion) return Stage::kFriend;
  Fail(OtherVersion(guest->pid, hello->version, Hello::kVersion));
  --expected_;  // it has seen the version in our hello and says the same
  return Stage::kGone;
}

Gathering::Stage Gathering::Join(Guest* guest, const Frame& frame) {
  RankHello hello;
  WireReader reader(frame.body);
  if (frame.type != kRank || !reader.Get(&hello.rank) || !reader.Get(&hello.n_ranks) ||
      !reader.Get(&hello.fingerprint)) {
    return Stage::kGone;
  }
  expected_ = std::max(expected_, hello.n_ranks - 1);
  if (Status status = Check(*guest, hello); !status.ok()) Fail(std::move(status));
  if (!verdict_.ok()) return Tell(guest);
  guest->rank = hello.rank;
  ++joined_;
  return Stage::kJoined;
}

Status Gathering::Check(const Guest& guest, const RankHello& hello) const {
  if (hello.n_ranks != options_.n_ranks) {
    return Error(tcInvalidUsage, "rank %d was given nRanks %d, rank 0 was given nRanks %d; all ranks must agree",
                 hello.rank, hello.n_ranks, options_.n_ranks);
  }
  if (hello.rank < 0 || hello.rank >= options_.n_ranks) {
    return Error(tcInvalidUsage, "a rank has number %d, which is not among 0 to %d", hello.rank, options_.n_ranks - 1);
  }
  const auto twin = std::find_if(guests_.begin(), guests_.end(), [&](const Guest& other) {
    return other.stage == Stage::kJoined && other.rank == hello.rank;
  });
  if (hello.rank == 0 || twin != guests_.end()) {
    return Error(tcInvalidUsage, "two ranks have number %d (processes %d and %d); every rank needs a number of its own",
                 hello.rank, static_cast<int>(hello.rank == 0 ? ::getpid() : twin->pid), static_cast<int>(guest.pid));
  }
  if (hello.fingerprint != options_.fingerprint) {
    return Error(tcInvalidUsage, "rank %d has %s, rank 0 has %s; all ranks must agree", hello.rank,
                 hello.fingerprint.c_str(), options_.fingerprint.c_str());
  }
  return Status();
}

Status Gathering::Missing() const {
  std::vector<int> missing;
  for (int rank = 1; rank < options_.n_ranks; ++rank) {
    const auto here = [rank](const Guest& guest) { return guest.stage == Stage::kJoined && guest.rank == rank; };
    if (std::none_of(guests_.begin(), guests_.end(), here)) missing.push_back(rank);
  }
  return Error(tcTimeout, "%s of %d did not join within %lld ms; start %s, or raise TC_INIT_TIMEOUT_MS",
               NameRanks(missing).c_str(), options_.n_ranks, static_cast<long long>(options_.timeout.count()),
               missing.size() == 1 ? "it" : "them");
}

// The first failure is everybody's verdict.
void Gathering::Fail(Status verdict) {
  if (!verdict_.ok()) return;
  verdict_ = std::move(verdict);
  end_ = std::min(end_, After(kLinger));
  for (Guest& guest : guests_) {
    if (guest.stage == Stage::kJoined) guest.stage = Tell(&guest);
  }
}

// A frame this small fits into the socket's buffer; who cannot even take that is past helping.
Gathering::Stage Gathering::Tell(Guest* guest) {
  guest->channel->Queue(kVerdict, VerdictBody(verdict_));
  (void)guest->channel->Send();
  ++told_;
  return Stage::kTold;
}

// A rank that died at this moment shows in the first call, to all ranks alike.
Status Gathering::Welcome(std::vector<std::unique_ptr<Channel>>* peers) {
  peers->resize(static_cast<size_t>(options_.n_ranks));
  for (Guest& guest : guests_) {
    if (guest.stage != Stage::kJoined) continue;
    Tell(&guest);
    (*peers)[static_cast<size_t>(guest.rank)] = std::move(guest.channel);
  }
  return Status();
}

// A joiner's side, once connected. *hung_up: the other end closed before it showed the secret. That is no verdict: rank
// 0 drops whoever is too slow, and a rank 0 that ended leaves its queue behind.
Status Introduce(const Bootstrap::Options& options, const SocketAddress& address, Deadline end, Channel* root,
                 bool* hung_up) {
  pid_t pid = 0;
  Frame frame;
  std::optional<Hello> hello;
  Io io = Io::kFailed;
  if (IsOwnUser(root->fd(), &pid)) {
    root->Queue(kHello, HelloBody(options.id.joiner_secret, milliseconds(0)));
    (void)root->SendBy(end);
    io = root->ReceiveBy(end, &frame);
    *hung_up = io == Io::kClosed;
    if (io == Io::kDone) hello = HelloOf(frame, options.id.root_secret);
  }
  if (io == Io::kWait || *hung_up) {
    return Error(tcTimeout, "process %d listens on %s but did not show the id's secret within %lld ms",
                 static_cast<int>(pid), address.text.c_str(), static_cast<long long>(options.timeout.count()));
  }
  if (!hello) {
    return Error(tcSystemError,
                 "process %d listens on %s but is not rank 0 of this id (another user, or it does not know the id's "
                 "secret): somebody took the address; make a new id",
                 static_cast<int>(pid), address.text.c_str());
  }
  if (hello->version != Hello::kVersion) return OtherVersion(::getpid(), Hello::kVersion, hello->version);

  // From here on rank 0's clock counts, so that all ranks get one answer. It may have come later than this rank.
  root->Trust();
  const Deadline last = After(std::min(milliseconds(hello->left_ms), options.timeout) + kVerdictGrace);
  root->Queue(kRank, WireWriter().Put(options.rank).Put(options.n_ranks).Put(options.fingerprint).Take());
  (void)root->SendBy(last);
  io = root->ReceiveBy(last, &frame);
  if (io == Io::kDone) return VerdictOf(frame);
  return Error(io == Io::kWait ? tcTimeout : tcRemoteError, "rank 0 (process %d) %s before all %d ranks had joined",
               static_cast<int>(pid), io == Io::kWait ? "stopped answering" : "died, or gave up,", options.n_ranks);
}

Status NobodyListened(const Bootstrap::Options& options, const SocketAddress& address) {
  return Error(tcTimeout,
               "rank 0 did not listen on %s within %lld ms; start it, or raise TC_INIT_TIMEOUT_MS (or all %d ranks had "
               "joined already and this is a second rank %d)",
               address.text.c_str(), static_cast<long long>(options.timeout.count()), options.n_ranks, options.rank);
}

// Any process may come first, so a joiner dials until somebody answers.
Status DialUntil(const Bootstrap::Options& options, const SocketAddress& address, Deadline end,
                 std::unique_ptr<Channel>* rank_zero) {
  Status last = NobodyListened(options, address);
  for (milliseconds pause(1);; pause = std::min(2 * pause, milliseconds(20))) {
    UniqueFd fd;
    const int error = Dial(address, &fd);
    if (error == 0) {
      bool hung_up = false;
      auto channel = std::make_unique<Channel>(std::move(fd));
      last = Introduce(options, address, end, channel.get(), &hung_up);
      if (last.ok()) *rank_zero = std::move(channel);
      if (!hung_up) return last;
    } else if (error != ECONNREFUSED && error != ENOENT && error != EAGAIN) {
      return SystemError(error, "rank %d could not connect to rank 0 on %s", options.rank, address.text.c_str());
    }
    if (Passed(end)) return last;
    std::this_thread::sleep_until(std::min(end, After(pause)));
  }
}

}  // namespace

std::string VerdictBody(const Status& verdict) {
  return WireWriter().Put(verdict.code()).Put(verdict.sentence()).Take();
}

Status VerdictOf(const Frame& frame) {
  tcResult_t code = tcInternalError;
  std::string sentence;
  WireReader reader(frame.body);
  if (frame.type != kVerdict || !reader.Get(&code) || !reader.Get(&sentence)) {
    return Error(tcInternalError, "rank 0 sent a message of type %u where its verdict was due", frame.type);
  }
  return Status(code, std::move(sentence));
}

std::string NameRanks(const std::vector<int>& ranks) {
  std::string names = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < ranks.size(); ++i) {
    if (i > 0) names += i + 1 == ranks.size() ? " and " : ", ";
    names += std::to_string(ranks[i]);
  }
  return names;
}

Status GatherRanks(const Bootstrap::Options& options, std::vector<std::unique_ptr<Channel>>* peers) {
  const Deadline end = After(options.timeout);
  SocketAddress address;
  TC_RETURN_IF_ERROR(SocketAddress::Make(options.id, options.directory, &address));
  Listener listener(address);
  bool taken = false;
  const Status opened = listener.Open(&taken);
  if (opened.ok()) return Gathering(options, &listener, end).Run(peers);
  if (!taken) return opened;

  // Tell the other rank 0 that there are two, so that it and its ranks need not wait out their time.
  std::unique_ptr<Channel> unused;
  const Status verdict = DialUntil(options, address, std::min(end, After(kLinger)), &unused);
  return verdict.code() == tcInvalidUsage ? verdict : opened;
}

Status JoinRankZero(const Bootstrap::Options& options, std::unique_ptr<Channel>* rank_zero) {
  const Deadline end = After(options.timeout);
  SocketAddress address;
  TC_RETURN_IF_ERROR(SocketAddress::Make(options.id, options.directory, &address));
  return DialUntil(options, address, end, rank_zero);
}

}  // namespace tc
