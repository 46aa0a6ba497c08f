#include "cuda/ipc_descriptor.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string>
#include <utility>

namespace tc::cuda {
namespace {

constexpr char kMagic[] = "TileComm cudaIpc";
constexpr int kSeals = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;

struct Record {
  char magic[sizeof(kMagic)];
  cudaIpcMemHandle_t handle;
};

}  // namespace

Status MakeIpcDescriptor(const cudaIpcMemHandle_t& handle, UniqueFd* fd) {
  Record record{};
  std::memcpy(record.magic, kMagic, sizeof(kMagic));
  record.handle = handle;
  UniqueFd made(::memfd_create("tilecomm-ipc", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!made.valid()) return SystemError(errno, "memfd_create failed");
  if (::pwrite(made.get(), &record, sizeof(record), 0) != sizeof(record) ||
      ::fcntl(made.get(), F_ADD_SEALS, kSeals) != 0) {
    return SystemError(errno, "a memfd for a cudaIpc handle could not be written and sealed");
  }
  *fd = std::move(made);
  return {};
}

std::optional<cudaIpcMemHandle_t> ReadIpcDescriptor(const UniqueFd& fd) {
  // Only a memfd has seals: what else the descriptor may be, a device for example, is not read.
  if (::fcntl(fd.get(), F_GET_SEALS) != kSeals) return {};
  struct stat info {};
  Record record;
  if (::fstat(fd.get(), &info) != 0 || info.st_size != sizeof(record)) return {};
  if (::pread(fd.get(), &record, sizeof(record), 0) != sizeof(record)) return {};
  if (std::memcmp(record.magic, kMagic, sizeof(kMagic)) != 0) return {};
  return record.handle;
}

Status HoldIpcDescriptor(const UniqueFd& fd, UniqueFd* hold) {
  // Opened anew: the received descriptor is the owner's own open file, and the lock must not be the owner's.
  const std::string path = "/proc/self/fd/" + std::to_string(fd.get());
  UniqueFd opened(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!opened.valid()) {
    return SystemError(errno, "a peer's cudaIpc memory could not be held, for which /proc must be mounted (%s)",
                       path.c_str());
  }
  if (::flock(opened.get(), LOCK_SH | LOCK_NB) != 0) {
    if (errno == EWOULDBLOCK) return Error(tcRemoteError, "a peer's cudaIpc memory is gone: its call has failed");
    return SystemError(errno, "a peer's cudaIpc memory could not be held");
  }
  *hold = std::move(opened);
  return {};
}

bool RetireIpcDescriptor(int fd) {
  // Another error would not go away by waiting.
  return ::flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

}  // namespace tc::cuda
