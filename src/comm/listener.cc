#include "comm/listener.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <thread>

namespace tc {
namespace {

int Bind(int fd, const SocketAddress& at) {
  return ::bind(fd, reinterpret_cast<const sockaddr*>(&at.address), at.bytes) == 0 ? 0 : errno;
}

// Keeps two rank 0s from seeing each other between bind and listen, where a live socket looks like one that a killed
// process left behind. An invalid fd when it is not to be had: then no file is taken for stale.
UniqueFd LockDirectory(const std::string& directory) {
  UniqueFd fd(::open(directory.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  for (int tries = 0; fd.valid() && tries < 100; ++tries) {
    if (::flock(fd.get(), LOCK_EX | LOCK_NB) == 0) return fd;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return UniqueFd();
}

}  // namespace

Status SocketAddress::Make(const UniqueId& id, const std::string& directory, SocketAddress* made) {
  *made = SocketAddress();
  made->address.sun_family = AF_UNIX;
  made->directory = directory;
  const size_t header = offsetof(sockaddr_un, sun_path);
  if (directory.empty()) {
    const std::string name = Format("tilecomm-%u-%s", static_cast<unsigned>(::geteuid()), NameInHex(id).c_str());
    std::memcpy(made->address.sun_path + 1, name.data(), name.size());  // the leading zero makes it abstract
    made->bytes = static_cast<socklen_t>(header + 1 + name.size());
    made->text = "@" + name;
    return Status();
  }
  struct stat info {};
  if (::stat(directory.c_str(), &info) != 0 || !S_ISDIR(info.st_mode)) {
    return Error(tcInvalidArgument, "TC_BOOTSTRAP_DIR is '%s', which is not a directory that this process can reach",
                 directory.c_str());
  }
  made->path = directory + "/tilecomm-" + NameInHex(id) + ".sock";
  if (made->path.size() >= sizeof(made->address.sun_path)) {
    return Error(tcInvalidArgument,
                 "TC_BOOTSTRAP_DIR is '%s', too long by %zu bytes for the address of a Unix socket; name a shorter one",
                 directory.c_str(), made->path.size() + 1 - sizeof(made->address.sun_path));
  }
  std::memcpy(made->address.sun_path, made->path.c_str(), made->path.size() + 1);
  made->bytes = static_cast<socklen_t>(header + made->path.size() + 1);
  made->text = made->path;
  return Status();
}

Status Listener::Open(bool* taken) {
  *taken = false;
  fd_.Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd_.valid()) return SystemError(errno, "rank 0 could not open a Unix socket");

  const UniqueFd lock = address_.path.empty() ? UniqueFd() : LockDirectory(address_.directory);
  int error = Bind(fd_.get(), address_);
  UniqueFd probe;
  if (error == EADDRINUSE && lock.valid() && Dial(address_, &probe) == ECONNREFUSED) {
    ::unlink(address_.path.c_str());  // left by a rank 0 that was killed
    error = Bind(fd_.get(), address_);
  }
  if (error == EADDRINUSE) {
    *taken = true;
    return Error(tcInvalidUsage,
                 "another rank 0 listens on %s: two processes were started as rank 0, or the id is stale or was given "
                 "to a second communicator",
                 address_.text.c_str());
  }
  if (error != 0 && !address_.path.empty()) {
    return SystemError(error, "rank 0 could not make its socket in TC_BOOTSTRAP_DIR '%s'", address_.directory.c_str());
  }
  if (error != 0) return SystemError(error, "rank 0 could not take the socket address %s", address_.text.c_str());
  bound_ = true;
  if (::listen(fd_.get(), SOMAXCONN) != 0) {
    return SystemError(errno, "rank 0 could not listen on %s", address_.text.c_str());
  }
  return Status();
}

// The file goes first: while this socket listens, no other rank 0 can have put its own file there.
void Listener::Close() {
  if (bound_ && !address_.path.empty()) ::unlink(address_.path.c_str());
  bound_ = false;
  fd_.Reset();
}

UniqueFd Listener::Accept(int* error) {
  while (true) {
    UniqueFd guest(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    *error = guest.valid() ? 0 : errno;
    if (*error != EINTR && *error != ECONNABORTED) return guest;
  }
}

int Dial(const SocketAddress& to, UniqueFd* fd) {
  fd->Reset(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd->valid()) return errno;
  while (::connect(fd->get(), reinterpret_cast<const sockaddr*>(&to.address), to.bytes) != 0) {
    if (errno == EINTR) continue;
    const int error = errno;
    fd->Reset();
    return error;
  }
  return 0;
}

bool IsOwnUser(int fd, pid_t* pid) {
  ucred peer{};
  socklen_t bytes = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &bytes) != 0) return false;
  *pid = peer.pid;
  return peer.uid == ::geteuid();
}

}  // namespace tc
