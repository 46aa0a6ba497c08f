#include "comm/death_watch.h"

#include <poll.h>
#include <sys/eventfd.h>

#include <cerrno>
#include <utility>

namespace tc {

Status DeathWatch::Start(std::vector<Connection> connections, std::function<void(int rank)> closed,
                         std::unique_ptr<DeathWatch>* watch) {
  UniqueFd stop(::eventfd(0, EFD_CLOEXEC));
  if (!stop.valid()) return SystemError(errno, "eventfd failed");
  watch->reset(new DeathWatch(std::move(connections), std::move(closed), std::move(stop)));
  return {};
}

DeathWatch::DeathWatch(std::vector<Connection> connections, std::function<void(int rank)> closed, UniqueFd stop)
    : connections_(std::move(connections)),
      closed_(std::move(closed)),
      stop_(std::move(stop)),
      thread_([this] { Run(); }) {}

DeathWatch::~DeathWatch() {
  ::eventfd_write(stop_.get(), 1);
  thread_.join();
}

void DeathWatch::Run() {
  std::vector<pollfd> polled = {{stop_.get(), POLLIN, 0}};
  for (const Connection& connection : connections_) polled.push_back({connection.fd, POLLRDHUP, 0});
  while (true) {
    if (::poll(polled.data(), polled.size(), -1) < 0 && errno != EINTR) return;
    if (polled[0].revents != 0) return;
    for (size_t i = 1; i < polled.size(); ++i) {
      if ((polled[i].revents & (POLLRDHUP | POLLHUP | POLLERR | POLLNVAL)) == 0) continue;
      polled[i].fd = -1;  // poll passes over it from now on
      polled[i].revents = 0;
      closed_(connections_[i - 1].rank);
    }
  }
}

}  // namespace tc
