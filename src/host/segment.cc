#include "host/segment.h"

#include <linux/mempolicy.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/log.h"

namespace tc::host {
namespace {

class MappedSegment final : public Segment {
 public:
  MappedSegment(std::byte* base, size_t bytes, UniqueFd fd) : Segment(base, bytes, std::move(fd)) {}
  ~MappedSegment() override { ::munmap(base(), bytes()); }
  size_t reserved_bytes() const override {
    const auto page = static_cast<size_t>(::sysconf(_SC_PAGESIZE));
    return (bytes() + page - 1) / page * page;
  }
};

Status Map(int flags, int fd, size_t bytes, UniqueFd keep, std::shared_ptr<Segment>* segment) {
  void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, flags | MAP_NORESERVE, fd, 0);
  if (base == MAP_FAILED) return SystemError(errno, "mapping %zu bytes of memory failed", bytes);
  *segment = std::make_shared<MappedSegment>(static_cast<std::byte*>(base), bytes, std::move(keep));
  return {};
}

}  // namespace

Status AllocateShared(size_t bytes, std::shared_ptr<Segment>* segment) {
  UniqueFd fd(::memfd_create("tilecomm", MFD_CLOEXEC));
  if (!fd.valid()) return SystemError(errno, "memfd_create failed");
  if (bytes > static_cast<size_t>(INT64_MAX) || ::ftruncate(fd.get(), static_cast<off_t>(bytes)) != 0) {
    return SystemError(bytes > static_cast<size_t>(INT64_MAX) ? ENOMEM : errno,
                       "no room for %zu bytes of shared memory", bytes);
  }
  const int raw = fd.get();
  return Map(MAP_SHARED, raw, bytes, std::move(fd), segment);
}

Status AllocatePrivate(size_t bytes, std::shared_ptr<Segment>* segment) {
  return Map(MAP_PRIVATE | MAP_ANONYMOUS, -1, bytes, UniqueFd(), segment);
}

void PreferNode(const Segment& segment, int node) {
  constexpr int kBits = 8 * sizeof(unsigned long);
  constexpr int kMostNodes = 1024;
  if (node < 0 || node >= kMostNodes) return;
  unsigned long mask[kMostNodes / kBits] = {};
  mask[node / kBits] = 1ul << node % kBits;
  // One more than there are bits: the kernel takes that for the number.
  if (::syscall(SYS_mbind, segment.base(), segment.bytes(), MPOL_PREFERRED, mask, kMostNodes + 1, 0) != 0) {
    Log(tcLogTrace, "%zu bytes of memory are not bound to NUMA node %d (%s)", segment.bytes(), node,
        std::strerror(errno));
  }
}

Status MapShared(const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment) {
  // A peer's descriptor is believed only as far as it goes: reading past a short file would be a bus error.
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) return SystemError(errno, "a peer's shared memory cannot be examined");
  if (static_cast<uint64_t>(info.st_size) < ticket.bytes) {
    return Error(tcInternalError, "a peer offers %llu bytes of shared memory, its descriptor holds %llu",
                 static_cast<unsigned long long>(ticket.bytes), static_cast<unsigned long long>(info.st_size));
  }
  return Map(MAP_SHARED, fd.get(), ticket.bytes, UniqueFd(), segment);
}

}  // namespace tc::host
