// The Unix socket under which rank 0 can be found: its address, the listening end and the dialling end.
#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <string>

#include "base/status.h"
#include "base/unique_fd.h"
#include "comm/unique_id.h"

namespace tc {

struct SocketAddress {
  // In the abstract namespace (nothing in the file system, gone with its process), or in a file below `directory`.
  // tcInvalidArgument that names TC_BOOTSTRAP_DIR when no socket can be there.
  static Status Make(const UniqueId& id, const std::string& directory, SocketAddress* address);

  sockaddr_un address{};
  socklen_t bytes = 0;
  std::string directory;  // empty: abstract
  std::string path;       // empty: abstract
  std::string text;       // for sentences
};

// Listens from Open to Close; the socket's file lives as long.
class Listener {
 public:
  explicit Listener(const SocketAddress& address) : address_(address) {}
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;
  ~Listener() { Close(); }

  // *taken: the error is that somebody listens there already.
  Status Open(bool* taken);
  void Close();
  int fd() const { return fd_.get(); }

  // The next connection, non-blocking, or an invalid fd and in *error why there is none (EAGAIN: none is waiting).
  UniqueFd Accept(int* error);

 private:
  const SocketAddress address_;
  UniqueFd fd_;
  bool bound_ = false;
};

// One try. 0, or the errno value: ECONNREFUSED or ENOENT when nobody listens, EAGAIN when too many are waiting there.
int Dial(const SocketAddress& address, UniqueFd* fd);

// Who is at the other end, as the kernel knows it.
bool IsOwnUser(int fd, pid_t* pid);

}  // namespace tc
