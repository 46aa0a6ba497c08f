// Starts the ranks of a run without MPI, hears from them, and lets none of them outlive it.
//
// The parent never touches the library beyond ids and versions. Ranks are its child processes, one each, or the threads
// of one child process: either way a rank that hangs or dies takes nothing but itself along.
#ifndef TC_PERF_RANKS_H_
#define TC_PERF_RANKS_H_

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "meeting.h"

namespace tc::perf {

// One rank, seen from inside.
class Rank {
 public:
  Rank(int index, int count, bool threads, int channel, Meeting& meeting)
      : index_(index), count_(count), threads_(threads), channel_(channel), meeting_(&meeting) {}

  int Index() const { return index_; }
  int Count() const { return count_; }

  // Waits on the host until every rank is here.
  void Meet() { meeting_->Meet(); }
  // To the parent.
  void Send(const nlohmann::json& message);
  // Reports the reason and stops here for good; the parent ends all ranks. Nothing is unwound: buffers may be in use.
  [[noreturn]] void Fail(const std::string& reason);
  // Reports that this rank has nothing more to do.
  void Finish();

 private:
  void SendFrame(char kind, const std::string& payload);

  int index_;
  int count_;
  bool threads_;
  int channel_;  // the write end of a pipe
  Meeting* meeting_;
};

class RankGroup {
 public:
  using Body = std::function<void(Rank&)>;
  using Clock = std::chrono::steady_clock;
  using OnMessage = std::function<void(int rank, const nlohmann::json& message)>;

  // Starts `count` ranks that run `body`; each process calls `prepare` before. Call with one thread in this process.
  // Throws Failure.
  RankGroup(
      int count, bool threads, const Body& body, const std::function<void()>& prepare = [] {});
  // Ends and reaps every rank that is still there.
  ~RankGroup();
  RankGroup(const RankGroup&) = delete;
  RankGroup& operator=(const RankGroup&) = delete;

  // The process that rank `rank` runs in.
  pid_t Pid(int rank) const { return processes_[threads_ ? 0 : static_cast<size_t>(rank)].pid; }

  // Hands each message of the ranks to `on_message` until all have finished. Throws Failure with one sentence for each
  // rank that failed or died, or that was not done at `deadline`.
  void Wait(const OnMessage& on_message, Clock::time_point deadline);

 private:
  struct Process {
    pid_t pid = -1;
    bool reaped = false;
    int status = 0;
  };
  struct Channel {
    int descriptor = -1;  // the read end; -1 once it is closed
    std::string received;
    bool finished = false;
    bool failed = false;
  };

  void StartProcess(const std::vector<int>& write_ends, int first_rank, int n_ranks, const Body& body,
                    const std::function<void()>& prepare);
  bool AllClosed() const;
  void Receive(int rank, const OnMessage& on_message);
  void TakeFrames(int rank, const OnMessage& on_message);
  void NoteClosed(int rank);
  void NoteUnfinished();
  void CheckExits(Clock::time_point deadline);
  Process& ProcessOf(int rank) { return processes_[threads_ ? 0 : static_cast<size_t>(rank)]; }
  static bool Reap(Process& process, Clock::time_point until);
  void EndAll();
  [[noreturn]] void ThrowReasons() const;

  int count_;
  bool threads_;
  Meeting meeting_;
  std::vector<Process> processes_;
  std::vector<Channel> channels_;
  std::vector<std::string> deaths_;    // what the parent saw: the causes, told first
  std::vector<std::string> failures_;  // what ranks reported
};

}  // namespace tc::perf

#endif  // TC_PERF_RANKS_H_
