#include "comm/death_watch.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace tc {
namespace {

constexpr int kLookEveryMs = 250;

// A descriptor that becomes readable when the process at the other end dies. Invalid for this process itself, for one
// in a pid namespace that cannot be seen from here, and on kernels before 5.3.
UniqueFd ProcessBehind(int socket) {
  ucred peer{};
  socklen_t length = sizeof(peer);
  if (::getsockopt(socket, SOL_SOCKET, SO_PEERCRED, &peer, &length) != 0 || peer.pid <= 0 || peer.pid == ::getpid()) {
    return UniqueFd();
  }
  return UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, peer.pid, 0)));
}

}  // namespace

Status DeathWatch::Start(std::vector<Connection> connections, std::function<void(int rank)> closed,
                         std::function<void()> look, std::unique_ptr<DeathWatch>* watch) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return SystemError(errno, "eventfd failed");
  watch->reset(new DeathWatch(std::move(connections), std::move(closed), std::move(look), std::move(stop)));
  return {};
}

DeathWatch::DeathWatch(std::vector<Connection> connections, std::function<void(int rank)> closed,
                       std::function<void()> look, UniqueFd stop)
    : connections_(std::move(connections)), closed_(std::move(closed)), look_(std::move(look)), stop_(std::move(stop)) {
  for (const Connection& connection : connections_) processes_.push_back(ProcessBehind(connection.fd));
  thread_ = std::thread([this] { Run(); });
}

DeathWatch::~DeathWatch() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void DeathWatch::Run() {
  // [0]: stop; then two of each connection: its socket, the process behind it.
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (size_t i = 0; i < connections_.size(); ++i) {
    polled.push_back({connections_[i].fd, POLLRDHUP, 0});
    polled.push_back({processes_[i].get(), POLLIN, 0});  // -1 is passed over
  }
  while (true) {
    const int events = ::poll(polled.data(), polled.size(), kLookEveryMs);
    if (events < 0) {
      if (errno == EINTR) continue;
      return;
    }
    if (events == 0) look_();
    if (polled[0].revents != 0) return;
    for (size_t i = 0; i < connections_.size(); ++i) {
      pollfd& socket = polled[1 + 2 * i];
      pollfd& process = polled[2 + 2 * i];
      if (socket.revents == 0 && process.revents == 0) continue;
      socket.fd = process.fd = -1;  // once is enough
      closed_(connections_[i].rank);
    }
  }
}

}  // namespace tc
