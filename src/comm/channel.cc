#include "comm/channel.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace tc {
namespace {

constexpr uint32_t kFrameMagic = 0x31664354;  // "TCf1"
constexpr size_t kReadBytes = 256 * 1024;     // a body grows by this much at a time: a false length reserves nothing

// Takes every descriptor out of the control data, so that none can leak whatever the rest of the message says.
void TakeFds(const msghdr& message, std::vector<UniqueFd>* fds) {
  for (const cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr;
       part = CMSG_NXTHDR(const_cast<msghdr*>(&message), const_cast<cmsghdr*>(part))) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    const size_t count = (part->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (size_t i = 0; i < count; ++i) {
      int fd = -1;
      std::memcpy(&fd, CMSG_DATA(part) + i * sizeof(int), sizeof(int));
      fds->emplace_back(fd);
    }
  }
}

}  // namespace

Deadline After(std::chrono::milliseconds timeout) {
  constexpr std::chrono::milliseconds kYear = std::chrono::hours(24 * 365);  // more would overflow the clock
  return std::chrono::steady_clock::now() + std::min(timeout, kYear);
}

bool PollUntil(std::vector<pollfd>* entries, Deadline deadline) {
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now()).count();
    const int wait_ms = static_cast<int>(std::clamp<int64_t>(left, 0, 3'600'000));
    const int ready = ::poll(entries->data(), entries->size(), wait_ms);
    if (ready > 0) return true;
    if (ready < 0 && errno != EINTR && errno != EAGAIN) return false;
    if (Passed(deadline)) return false;
  }
}

Io Channel::Failed(int error) {
  error_ = error;
  return Io::kFailed;
}

void Channel::Queue(uint32_t type, std::shared_ptr<const std::string> body, std::vector<int> fds) {
  const Header header = {kFrameMagic, type, fds.size(), body->size()};
  queue_.push_back({header, std::move(body), std::move(fds)});
}

Io Channel::SendSome(Outgoing* out) {
  const size_t header_left = sizeof(Header) - std::min(sizeof(Header), out->sent);
  const size_t body_sent = out->sent - (sizeof(Header) - header_left);
  iovec parts[2] = {{reinterpret_cast<char*>(&out->header) + (sizeof(Header) - header_left), header_left},
                    {const_cast<char*>(out->body->data()) + body_sent, out->body->size() - body_sent}};
  msghdr message{};
  message.msg_iov = parts;
  message.msg_iovlen = 2;
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))] = {};
  if (out->sent == 0 && !out->fds.empty()) {  // descriptors travel with a frame's first byte
    const size_t bytes = out->fds.size() * sizeof(int);
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(bytes);
    cmsghdr* part = CMSG_FIRSTHDR(&message);
    part->cmsg_level = SOL_SOCKET;
    part->cmsg_type = SCM_RIGHTS;
    part->cmsg_len = CMSG_LEN(bytes);
    std::memcpy(CMSG_DATA(part), out->fds.data(), bytes);
  }
  while (true) {
    const ssize_t sent = ::sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent >= 0) {
      out->sent += static_cast<size_t>(sent);
      return Io::kDone;
    }
    if (errno == EINTR) continue;
    if (errno == EAGAIN || errno == EWOULDBLOCK) return Io::kWait;
    if (errno == EPIPE || errno == ECONNRESET) return Io::kClosed;
    return Failed(errno);
  }
}

Io Channel::Send() {
  while (!queue_.empty()) {
    Outgoing& out = queue_.front();
    if (const Io io = SendSome(&out); io != Io::kDone) return io;
    if (out.sent == sizeof(Header) + out.body->size()) queue_.pop_front();
  }
  return Io::kDone;
}

Io Channel::ReceiveSome(void* into, size_t bytes, size_t* received) {
  iovec part = {into, bytes};
  alignas(cmsghdr) char control[CMSG_SPACE(kMaxFds * sizeof(int))];
  while (true) {
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = trusted_ ? control : nullptr;  // without room for them the kernel closes descriptors itself
    message.msg_controllen = trusted_ ? sizeof(control) : 0;
    const ssize_t got = ::recvmsg(fd(), &message, MSG_DONTWAIT | MSG_CMSG_CLOEXEC);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return Io::kWait;
    if (got == 0 || (got < 0 && (errno == ECONNRESET || errno == EPIPE))) return Io::kClosed;
    if (got < 0) return Failed(errno);
    if (trusted_) TakeFds(message, &incoming_.fds);
    *received = static_cast<size_t>(got);
    return Io::kDone;
  }
}

// Never reads beyond the end of a frame, so that descriptors always belong to the frame with which they came.
Io Channel::Receive(Frame* frame) {
  size_t received = 0;
  while (header_received_ < sizeof(Header)) {
    char* into = reinterpret_cast<char*>(&header_) + header_received_;
    if (const Io io = ReceiveSome(into, sizeof(Header) - header_received_, &received); io != Io::kDone) return io;
    header_received_ += received;
  }
  if (header_.magic != kFrameMagic) return Failed(EPROTO);
  if (!trusted_ && header_.body_bytes > kMaxStrangerBody) return Failed(EPROTO);

  std::string& body = incoming_.body;
  while (body.size() < header_.body_bytes) {
    const size_t before = body.size();
    body.resize(before + std::min<size_t>(header_.body_bytes - before, kReadBytes));
    const Io io = ReceiveSome(body.data() + before, body.size() - before, &received);
    body.resize(before + (io == Io::kDone ? received : 0));
    if (io != Io::kDone) return io;
  }
  incoming_.type = header_.type;
  incoming_.fds_sent = header_.n_fds;
  header_received_ = 0;
  *frame = std::exchange(incoming_, Frame());
  return Io::kDone;
}

Io Channel::SendBy(Deadline deadline) {
  while (true) {
    if (const Io io = Send(); io != Io::kWait) return io;
    std::vector<pollfd> entry = {{fd(), POLLOUT, 0}};
    if (!PollUntil(&entry, deadline)) return Io::kWait;
  }
}

Io Channel::ReceiveBy(Deadline deadline, Frame* frame) {
  while (true) {
    if (const Io io = Receive(frame); io != Io::kWait) return io;
    std::vector<pollfd> entry = {{fd(), POLLIN, 0}};
    if (!PollUntil(&entry, deadline)) return Io::kWait;
  }
}

}  // namespace tc
