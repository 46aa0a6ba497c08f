#include "cuda/ipc_descriptor.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <string>

namespace tc::cuda {
namespace {

cudaIpcMemHandle_t SomeHandle() {
  cudaIpcMemHandle_t handle;
  for (size_t i = 0; i < sizeof(handle.reserved); ++i) handle.reserved[i] = static_cast<char>(3 * i - 100);
  return handle;
}

UniqueFd SomeDescriptor() {
  UniqueFd fd;
  EXPECT_TRUE(MakeIpcDescriptor(SomeHandle(), &fd).ok());
  return fd;
}

UniqueFd Duplicate(const UniqueFd& fd) { return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, 0)); }

// The file's bytes in a memfd of another kind.
UniqueFd MemfdOf(const std::string& bytes, int seals) {
  UniqueFd fd(::memfd_create("ipc_descriptor_test", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  EXPECT_EQ(::pwrite(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
  EXPECT_EQ(::fcntl(fd.get(), F_ADD_SEALS, seals), 0);
  return fd;
}

TEST(IpcDescriptor, GivesBackTheHandle) {
  const UniqueFd fd = SomeDescriptor();
  for (int reads = 0; reads < 2; ++reads) {
    const auto handle = ReadIpcDescriptor(Duplicate(fd));
    ASSERT_TRUE(handle.has_value());
    EXPECT_EQ(std::memcmp(handle->reserved, SomeHandle().reserved, sizeof(handle->reserved)), 0);
  }
}

TEST(IpcDescriptor, CannotBeChanged) {
  const UniqueFd fd = SomeDescriptor();
  EXPECT_EQ(::pwrite(fd.get(), "x", 1, 0), -1);
  EXPECT_EQ(::ftruncate(fd.get(), 0), -1);
  EXPECT_TRUE(ReadIpcDescriptor(fd).has_value());
}

TEST(IpcDescriptor, NothingElseIsTakenForOne) {
  constexpr int kAll = F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
  const UniqueFd fd = SomeDescriptor();
  std::string bytes(4096, '\0');
  bytes.resize(static_cast<size_t>(::pread(fd.get(), bytes.data(), bytes.size(), 0)));
  ASSERT_TRUE(ReadIpcDescriptor(MemfdOf(bytes, kAll)).has_value());

  EXPECT_FALSE(ReadIpcDescriptor(UniqueFd()).has_value());
  EXPECT_FALSE(ReadIpcDescriptor(UniqueFd(::open("/dev/zero", O_RDWR | O_CLOEXEC))).has_value());
  EXPECT_FALSE(ReadIpcDescriptor(MemfdOf("", kAll)).has_value());
  EXPECT_FALSE(ReadIpcDescriptor(MemfdOf(bytes, F_SEAL_SHRINK)).has_value()) << "not sealed";
  EXPECT_FALSE(ReadIpcDescriptor(MemfdOf(bytes + '\0', kAll)).has_value()) << "too long";
  EXPECT_FALSE(ReadIpcDescriptor(MemfdOf(bytes.substr(1), kAll)).has_value()) << "too short";
  bytes[0] ^= 1;
  EXPECT_FALSE(ReadIpcDescriptor(MemfdOf(bytes, kAll)).has_value()) << "another magic";
  int ends[2];
  ASSERT_EQ(::pipe2(ends, O_CLOEXEC), 0);
  const UniqueFd reader(ends[0]), writer(ends[1]);
  EXPECT_FALSE(ReadIpcDescriptor(reader).has_value());
}

TEST(IpcDescriptor, IsRetiredOnceNobodyHoldsIt) {
  const UniqueFd owner = SomeDescriptor();
  const UniqueFd received = Duplicate(owner);
  UniqueFd first, second;
  ASSERT_TRUE(HoldIpcDescriptor(received, &first).ok());
  ASSERT_TRUE(HoldIpcDescriptor(received, &second).ok());
  EXPECT_FALSE(RetireIpcDescriptor(owner.get()));
  first.Reset();
  EXPECT_FALSE(RetireIpcDescriptor(owner.get()));
  second.Reset();
  EXPECT_TRUE(RetireIpcDescriptor(owner.get()));
  EXPECT_TRUE(RetireIpcDescriptor(owner.get()));

  UniqueFd late;
  const Status gone = HoldIpcDescriptor(received, &late);
  EXPECT_EQ(gone.code(), tcRemoteError);
  EXPECT_NE(gone.sentence().find("is gone"), std::string::npos) << gone.sentence();
}

TEST(IpcDescriptor, AProcessThatDiesLetsGo) {
  const UniqueFd owner = SomeDescriptor();
  int ready[2];
  int ended[2];
  ASSERT_EQ(::pipe2(ready, O_CLOEXEC), 0);
  ASSERT_EQ(::pipe2(ended, O_CLOEXEC), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    UniqueFd hold;
    char word = HoldIpcDescriptor(owner, &hold).ok() ? 'y' : 'n';
    (void)!::write(ready[1], &word, 1);
    (void)!::read(ended[0], &word, 1);  // until it is killed
    ::_exit(0);
  }
  char word = 0;
  ASSERT_EQ(::read(ready[0], &word, 1), 1);
  EXPECT_EQ(word, 'y');
  EXPECT_FALSE(RetireIpcDescriptor(owner.get()));
  ::kill(child, SIGKILL);
  ::waitpid(child, nullptr, 0);
  EXPECT_TRUE(RetireIpcDescriptor(owner.get()));
  for (const int end : {ready[0], ready[1], ended[0], ended[1]}) ::close(end);
}

}  // namespace
}  // namespace tc::cuda
