// Tells when a peer's connection closes: a process that dies cannot say so itself.
#pragma once

#include <functional>
#include <memory>
#include <thread>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace tc {

class DeathWatch {
 public:
  struct Connection {
    int rank;
    int fd;  // stays open as long as the watch
  };

  // Calls closed(rank), from a thread of its own, once for each connection that the other end closes, or whose process
  // at the other end dies: a child that it forked may still hold the connection open. The same thread calls look() a
  // few times a second, for what can only be looked at.
  static Status Start(std::vector<Connection> connections, std::function<void(int rank)> closed,
                      std::function<void()> look, std::unique_ptr<DeathWatch>* watch);
  ~DeathWatch();

 private:
  DeathWatch(std::vector<Connection> connections, std::function<void(int rank)> closed, std::function<void()> look,
             UniqueFd stop);
  void Run();

  std::vector<Connection> connections_;
  std::vector<UniqueFd> processes_;  // of each connection; invalid where it cannot be had
  std::function<void(int rank)> closed_;
  std::function<void()> look_;
  UniqueFd stop_;  // an eventfd
  std::thread thread_;
};

}  // namespace tc
