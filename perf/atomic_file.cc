#include "atomic_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>

#include "failure.h"

namespace tc::perf {
namespace {

// A file beside its later place. It is gone at the end of its life unless Commit() moved it there.
class TemporaryFile {
 public:
  explicit TemporaryFile(const std::string& path) : target_(Resolved(path)) {
    temporary_ = target_ + ".tmp" + std::to_string(getpid());
    descriptor_ = open(temporary_.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
    if (descriptor_ < 0) Throw(errno);
  }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) close(descriptor_);
    if (!committed_) unlink(temporary_.c_str());
  }

  void Write(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t written = write(descriptor_, bytes.data(), bytes.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) Throw(errno);
      bytes.remove_prefix(static_cast<size_t>(written));
    }
  }

  void Commit() {
    const int closed = close(descriptor_);
    descriptor_ = -1;
    if (closed != 0 || std::rename(temporary_.c_str(), target_.c_str()) != 0) Throw(errno);
    committed_ = true;
  }

 private:
  // A link is followed, so that renaming replaces the file and not the link. A device or a pipe must not be replaced.
  static std::string Resolved(const std::string& path) {
    struct stat status;
    if (stat(path.c_str(), &status) != 0) return path;
    if (!S_ISREG(status.st_mode)) throw Failure("cannot write " + path + ": it is not a regular file.");
    std::error_code error;
    const std::filesystem::path real = std::filesystem::canonical(path, error);
    return error ? path : real.string();
  }

  [[noreturn]] void Throw(int error) const {
    throw Failure("cannot write " + target_ + ": " + std::strerror(error) + ".");
  }

  std::string target_;
  std::string temporary_;
  int descriptor_ = -1;
  bool committed_ = false;
};

}  // namespace

void RequireWritable(const std::string& option, const std::string& path) {
  try {
    TemporaryFile probe(path);
  } catch (const Failure& failure) {
    throw Failure(option + ": " + failure.what());
  }
}

void WriteFileAtomically(const std::string& path, const std::vector<std::string_view>& parts) {
  TemporaryFile file(path);
  for (const std::string_view part : parts) file.Write(part);
  file.Commit();
}

}  // namespace tc::perf
