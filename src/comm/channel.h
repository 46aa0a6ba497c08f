// Framed messages, with file descriptors where wanted, over a connected Unix stream socket that never blocks.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include "base/unique_fd.h"

namespace tc {

using Deadline = std::chrono::steady_clock::time_point;
Deadline After(std::chrono::milliseconds timeout);
inline bool Passed(Deadline deadline) { return std::chrono::steady_clock::now() >= deadline; }

// Waits until an entry has something to report (true) or the deadline has passed (false).
bool PollUntil(std::vector<pollfd>* entries, Deadline deadline);

// What a step on a channel came to.
enum class Io {
  kDone,
  kWait,    // nothing more without blocking; from a call with a deadline: it passed
  kClosed,  // the other end is gone
  kFailed,  // not a frame of ours, or an error of the system: Channel::error()
};

struct Frame {
  uint32_t type = 0;
  std::string body;
  std::vector<UniqueFd> fds;
  size_t fds_sent = 0;  // more than fds.size() when this process could not take them: it has too many open files
};

class Channel {
 public:
  static constexpr size_t kMaxFds = 253;           // of one frame: the kernel's limit for SCM_RIGHTS
  static constexpr size_t kMaxStrangerBody = 256;  // bytes that a frame of an untrusted peer may claim

  explicit Channel(UniqueFd fd) : fd_(std::move(fd)) {}  // of a non-blocking socket

  int fd() const { return fd_.get(); }
  int error() const { return error_; }

  // Until then frames are short and descriptors that come along are thrown away: a stranger can cost us nothing.
  void Trust() { trusted_ = true; }

  // Descriptors stay the caller's and must stay open until the frame is sent.
  void Queue(uint32_t type, std::shared_ptr<const std::string> body, std::vector<int> fds = {});
  void Queue(uint32_t type, std::string body) { Queue(type, std::make_shared<const std::string>(std::move(body))); }

  bool has_queued() const { return !queue_.empty(); }
  Io Send();
  Io Receive(Frame* frame);

  Io SendBy(Deadline deadline);
  Io ReceiveBy(Deadline deadline, Frame* frame);

 private:
  struct Header {
    uint32_t magic;
    uint32_t type;
    uint64_t n_fds;
    uint64_t body_bytes;
  };
  struct Outgoing {
    Header header;
    std::shared_ptr<const std::string> body;
    std::vector<int> fds;
    size_t sent = 0;
  };

  Io SendSome(Outgoing* out);
  Io ReceiveSome(void* into, size_t bytes, size_t* received);
  Io Failed(int error);

  UniqueFd fd_;
  bool trusted_ = false;
  int error_ = 0;
  std::deque<Outgoing> queue_;
  Header header_{};
  size_t header_received_ = 0;
  Frame incoming_;
};

}  // namespace tc
