#include "handles.h"

#include <algorithm>
#include <exception>
#include <string>

namespace tc::perf {

void Require(Rank& rank, tcResult_t result, const char* call, tcComm_t comm) {
  if (result == tcSuccess) return;
  std::string sentence = tcGetLastError(comm);
  if (sentence.empty() && comm != nullptr) sentence = tcGetLastError(nullptr);
  rank.Fail(std::string(call) + ": " + tcGetErrorString(result) + ": " + sentence);
}

Communicator::Communicator(Rank& rank, const tcUniqueId& id, const Placement& placement)
    : rank_(rank), on_gpu_(placement.OnGpus()) {
  tcConfig_t config;
  Require(rank_, TC_CONFIG_INIT(&config), "tcConfigInit");
  config.backend = placement.backend;
  config.device = placement.DeviceOf(rank.Index());
  Require(rank_, tcInitComm(&comm_, rank.Count(), &id, rank.Index(), &config), "tcInitComm");
  Require(rank_, tcStreamCreate(comm_, &stream_), "tcStreamCreate", comm_);
}

Communicator::~Communicator() {
  if (std::uncaught_exceptions() > 0) {
    // This rank is failing. Finalizing would wait for peers that wait for it.
    tcCommAbort(comm_);
    return;
  }
  Require(rank_, tcStreamDestroy(comm_, stream_), "tcStreamDestroy", comm_);
  Require(rank_, tcCommFinalize(comm_), "tcCommFinalize", comm_);
  Require(rank_, tcCommDestroy(comm_), "tcCommDestroy");
}

void Communicator::Synchronize() { Require(rank_, tcStreamSynchronize(comm_, stream_), "tcStreamSynchronize", comm_); }

void Communicator::Barrier() {
  Require(rank_, tcBarrier(comm_, stream_), "tcBarrier", comm_);
  Synchronize();
}

void Communicator::Copy(void* target, const void* source, size_t bytes) {
  Require(rank_, tcMemcpyAsync(comm_, target, source, bytes, stream_), "tcMemcpyAsync", comm_);
  Synchronize();
}

Buffer::Buffer(Communicator& communicator, size_t bytes, bool registered) : communicator_(communicator), bytes_(bytes) {
  Rank& rank = communicator_.Owner();
  void* memory = nullptr;
  Require(rank, tcMemAlloc(&memory, TotalBytes()), "tcMemAlloc");
  memory_ = static_cast<std::byte*>(memory);
  if (!registered) return;
  const tcComm_t comm = communicator_.Comm();
  Require(rank, tcCommRegister(comm, memory_, TotalBytes(), &window_), "tcCommRegister", comm);
}

Buffer::~Buffer() {
  if (std::uncaught_exceptions() > 0) return;  // peers may still write to it; the process ends soon
  Rank& rank = communicator_.Owner();
  const tcComm_t comm = communicator_.Comm();
  if (window_ != nullptr) Require(rank, tcCommDeregister(comm, window_), "tcCommDeregister", comm);
  Require(rank, tcMemFree(memory_), "tcMemFree");
}

void Buffer::Poison() {
  host_.assign(TotalBytes(), std::byte{0xff});
  communicator_.Copy(memory_, host_.data(), TotalBytes());
}

const std::byte* Buffer::CopyOut(size_t* spoiled) {
  host_.resize(TotalBytes());
  communicator_.Copy(host_.data(), memory_, TotalBytes());
  const auto written = [](std::byte byte) { return byte != std::byte{0xff}; };
  const auto data = host_.begin() + kGuardBytes;
  const auto end = data + static_cast<std::ptrdiff_t>(bytes_);
  *spoiled =
      static_cast<size_t>(std::count_if(host_.begin(), data, written) + std::count_if(end, host_.end(), written));
  return host_.data() + kGuardBytes;
}

}  // namespace tc::perf
