#include "ranks.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "failure.h"

namespace tc::perf {
namespace {

using std::chrono::milliseconds;

// A frame on a channel: its kind, the length of its payload, the payload.
constexpr char kMessage = 'm';
constexpr char kFailure = 'f';
constexpr char kFinished = 'd';
constexpr size_t kFrameHead = 1 + sizeof(uint32_t);

// After the first sign of trouble the other ranks have this long to say what they saw.
constexpr milliseconds kGrace(1000);
// A rank that has finished must be gone this soon.
constexpr milliseconds kExitTime(60000);

std::string RankName(int rank) { return "rank " + std::to_string(rank); }

std::string DescribeEnd(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int number = WTERMSIG(status);
  return "was ended by signal " + std::to_string(number) + " (" + strsignal(number) + ")";
}

// One rank from its start to its end; never lets an exception out.
void RunRank(const RankGroup::Body& body, Rank rank) {
  try {
    body(rank);
  } catch (const std::exception& error) {
    rank.Fail(error.what());
  }
  rank.Finish();
}

void RunThreads(const std::vector<Rank>& ranks, const RankGroup::Body& body) {
  std::vector<std::thread> threads;
  for (const Rank& rank : ranks) threads.emplace_back([&body, rank] { RunRank(body, rank); });
  for (std::thread& thread : threads) thread.join();
}

// In a fresh child: dies with its parent, even if that died before this line.
void DieWithParent(pid_t parent) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
}

}  // namespace

void Rank::SendFrame(char kind, const std::string& payload) {
  const auto length = static_cast<uint32_t>(payload.size());
  std::string frame(1, kind);
  frame.append(reinterpret_cast<const char*>(&length), sizeof(length));
  frame += payload;
  for (size_t sent = 0; sent < frame.size();) {
    const ssize_t written = write(channel_, frame.data() + sent, frame.size() - sent);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) _exit(1);  // the parent is gone
    sent += static_cast<size_t>(written);
  }
}

void Rank::Send(const nlohmann::json& message) { SendFrame(kMessage, message.dump()); }

void Rank::Fail(const std::string& reason) {
  SendFrame(kFailure, reason);
  if (!threads_) _exit(1);
  // Ending the process would cut off what other ranks, its other threads, have to say. The parent ends it soon.
  for (;;) pause();
}

void Rank::Finish() {
  SendFrame(kFinished, "");
  close(channel_);
}

RankGroup::RankGroup(int count, bool threads, const Body& body, const std::function<void()>& prepare)
    : count_(count), threads_(threads), meeting_(count), channels_(static_cast<size_t>(count)) {
  std::fflush(nullptr);  // else each child would print again what is still in the buffers
  std::vector<int> write_ends;
  for (Channel& channel : channels_) {
    int ends[2];
    if (pipe2(ends, O_CLOEXEC) != 0) throw Failure(std::string("no pipe to a rank: ") + std::strerror(errno) + ".");
    channel.descriptor = ends[0];
    write_ends.push_back(ends[1]);
  }
  if (threads_) {
    StartProcess(write_ends, 0, count_, body, prepare);
  } else {
    for (int rank = 0; rank < count_; ++rank) StartProcess(write_ends, rank, 1, body, prepare);
  }
  for (const int end : write_ends) close(end);
}

RankGroup::~RankGroup() {
  EndAll();
  for (const Channel& channel : channels_) {
    if (channel.descriptor >= 0) close(channel.descriptor);
  }
}

void RankGroup::StartProcess(const std::vector<int>& write_ends, int first_rank, int n_ranks, const Body& body,
                             const std::function<void()>& prepare) {
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    const std::string reason = std::strerror(errno);
    EndAll();
    throw Failure("cannot start " + RankName(first_rank) + ": " + reason + ".");
  }
  if (pid > 0) {
    processes_.push_back({pid});
    return;
  }
  DieWithParent(parent);
  // A channel ends when its rank does: no other process may hold its write end.
  for (const Channel& channel : channels_) close(channel.descriptor);
  std::vector<Rank> ranks;
  for (int rank = 0; rank < count_; ++rank) {
    const int end = write_ends[static_cast<size_t>(rank)];
    if (rank >= first_rank && rank < first_rank + n_ranks) {
      ranks.emplace_back(rank, count_, threads_, end, meeting_);
    } else {
      close(end);
    }
  }
  prepare();
  if (threads_) {
    RunThreads(ranks, body);
  } else {
    RunRank(body, ranks[0]);
  }
  std::exit(0);  // and not _exit: sanitizers report at exit
}

void RankGroup::Wait(const OnMessage& on_message, Clock::time_point deadline) {
  bool in_grace = false;
  while (!AllClosed()) {
    const bool trouble = !deaths_.empty() || !failures_.empty();
    if (trouble && !in_grace) {
      deadline = std::min(deadline, Clock::now() + kGrace);
      in_grace = true;
    }
    const auto left = std::chrono::ceil<milliseconds>(deadline - Clock::now());
    if (left.count() <= 0) {
      if (!in_grace) NoteUnfinished();
      ThrowReasons();
    }
    std::vector<pollfd> polls;
    for (const Channel& channel : channels_) polls.push_back({channel.descriptor, POLLIN, 0});
    const int ready = poll(polls.data(), polls.size(), static_cast<int>(std::min<int64_t>(left.count(), 1000)));
    if (ready < 0 && errno != EINTR)
      throw Failure(std::string("cannot wait for the ranks: ") + std::strerror(errno) + ".");
    for (int rank = 0; ready > 0 && rank < count_; ++rank) {
      if (polls[static_cast<size_t>(rank)].revents != 0) Receive(rank, on_message);
    }
  }
  CheckExits(deadline);
  if (!deaths_.empty() || !failures_.empty()) ThrowReasons();
}

bool RankGroup::AllClosed() const {
  return std::all_of(channels_.begin(), channels_.end(), [](const Channel& channel) { return channel.descriptor < 0; });
}

void RankGroup::Receive(int rank, const OnMessage& on_message) {
  Channel& channel = channels_[static_cast<size_t>(rank)];
  char buffer[1 << 16];
  const ssize_t got = read(channel.descriptor, buffer, sizeof(buffer));
  if (got < 0 && errno == EINTR) return;
  if (got > 0) {
    channel.received.append(buffer, static_cast<size_t>(got));
    TakeFrames(rank, on_message);
    return;
  }
  close(channel.descriptor);
  channel.descriptor = -1;
  NoteClosed(rank);
}

void RankGroup::TakeFrames(int rank, const OnMessage& on_message) {
  Channel& channel = channels_[static_cast<size_t>(rank)];
  for (;;) {
    uint32_t length;
    if (channel.received.size() < kFrameHead) return;
    std::memcpy(&length, channel.received.data() + 1, sizeof(length));
    if (channel.received.size() - kFrameHead < length) return;
    const char kind = channel.received[0];
    const std::string payload = channel.received.substr(kFrameHead, length);
    channel.received.erase(0, kFrameHead + length);
    if (kind == kFinished) channel.finished = true;
    if (kind == kFailure) {
      channel.failed = true;
      failures_.push_back(RankName(rank) + " (pid " + std::to_string(Pid(rank)) + "): " + payload);
    }
    if (kind == kMessage) on_message(rank, nlohmann::json::parse(payload));
  }
}

// The other end of the rank's channel is gone. That is its death, unless it said something last.
void RankGroup::NoteClosed(int rank) {
  const Channel& channel = channels_[static_cast<size_t>(rank)];
  if (channel.finished || channel.failed) return;
  Process& process = ProcessOf(rank);
  const bool known = process.reaped;
  if (!Reap(process, Clock::now() + kGrace)) {
    deaths_.push_back(RankName(rank) + " (pid " + std::to_string(process.pid) + ") closed its channel.");
  } else if (!threads_) {
    deaths_.push_back(RankName(rank) + " (pid " + std::to_string(process.pid) + ") " + DescribeEnd(process.status) +
                      ".");
  } else if (!known) {
    deaths_.push_back("the process of all ranks (pid " + std::to_string(process.pid) + ") " +
                      DescribeEnd(process.status) + ".");
  }
}

void RankGroup::NoteUnfinished() {
  for (int rank = 0; rank < count_; ++rank) {
    if (channels_[static_cast<size_t>(rank)].descriptor < 0) continue;
    deaths_.push_back(RankName(rank) + " (pid " + std::to_string(Pid(rank)) +
                      ") was not done within the time limit (-T).");
  }
}

// Every rank has reported its end: now its process must go as well, and go well.
void RankGroup::CheckExits(Clock::time_point deadline) {
  const Clock::time_point until = std::min(deadline, Clock::now() + kExitTime);
  for (Process& process : processes_) {
    const std::string name = "the process " + std::to_string(process.pid) + " of " +
                             (threads_ ? "all ranks" : RankName(static_cast<int>(&process - processes_.data()))) + " ";
    if (process.reaped || std::any_of(channels_.begin(), channels_.end(), [](const Channel& c) { return c.failed; }))
      continue;
    if (!Reap(process, until)) {
      deaths_.push_back(name + "does not end after its last case.");
    } else if (process.status != 0) {
      deaths_.push_back(name + DescribeEnd(process.status) + " after its last case.");
    }
  }
}

bool RankGroup::Reap(Process& process, Clock::time_point until) {
  while (!process.reaped) {
    const pid_t pid = waitpid(process.pid, &process.status, WNOHANG);
    process.reaped = pid == process.pid;
    if (process.reaped) break;
    if (Clock::now() >= until) return false;
    std::this_thread::sleep_for(milliseconds(1));
  }
  return true;
}

// A process that is not reaped yet still owns its pid, so nobody else's process can be hit.
void RankGroup::EndAll() {
  for (const Process& process : processes_) {
    if (!process.reaped) kill(process.pid, SIGKILL);
  }
  for (Process& process : processes_) {
    while (!process.reaped) process.reaped = waitpid(process.pid, &process.status, 0) == process.pid || errno != EINTR;
  }
}

void RankGroup::ThrowReasons() const {
  std::string text;
  for (const std::vector<std::string>* reasons : {&deaths_, &failures_}) {
    for (const std::string& reason : *reasons) text += (text.empty() ? "" : "\n") + reason;
  }
  throw Failure(text);
}

}  // namespace tc::perf
