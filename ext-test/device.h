// Where the ranks of a test run. TC_TEST_BACKEND=cuda puts them on GPUs (rank r on GPU r modulo their number), anything
// else on the host backend. A test that forks must not have touched CUDA before, so GPUs are counted by their device
// files.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <string>

#include "tc.h"
#ifdef TC_TEST_CUDA
#include <cuda_runtime_api.h>
#endif

namespace tc::test {

inline bool OnGpu() {
  const char* backend = std::getenv("TC_TEST_BACKEND");
  return backend != nullptr && std::strcmp(backend, "cuda") == 0;
}

inline int GpuCount() {
  int count = 0;
  while (::access(("/dev/nvidia" + std::to_string(count)).c_str(), F_OK) == 0) ++count;
  return count;
}

// The stream of the calling rank: NULL on the host backend, one of its own on a GPU that ranks may share.
inline tcStream_t& TestStream() {
  thread_local tcStream_t stream = nullptr;
  return stream;
}

// Memory that the calling rank's operators can use, initialised from host memory. On the host backend it is that host
// memory itself. Never registered.
class OnDevice {
 public:
  OnDevice(tcComm_t comm, void* host, size_t bytes) : comm_(comm), host_(host), bytes_(bytes), device_(host) {
#ifdef TC_TEST_CUDA
    if (!OnGpu() || bytes == 0) return;
    EXPECT_EQ(cudaMalloc(&device_, bytes), cudaSuccess);
    Upload();
#endif
  }
  OnDevice(tcComm_t comm, const void* host, size_t bytes) : OnDevice(comm, const_cast<void*>(host), bytes) {}
  ~OnDevice() {
#ifdef TC_TEST_CUDA
    if (device_ != host_) {
      EXPECT_EQ(cudaFree(device_), cudaSuccess);
    }
#endif
  }
  OnDevice(const OnDevice&) = delete;
  OnDevice& operator=(const OnDevice&) = delete;

  void* get() const { return device_; }
  void Upload() { Copy(device_, host_); }
  void Fetch() { Copy(host_, device_); }

 private:
  void Copy(void* to, const void* from) {
    if (to == from) return;
    EXPECT_EQ(tcMemcpyAsync(comm_, to, from, bytes_, TestStream()), tcSuccess);
    EXPECT_EQ(tcStreamSynchronize(comm_, TestStream()), tcSuccess);
  }

  tcComm_t comm_;
  void* host_;
  size_t bytes_;
  void* device_;
};

// Copies between host memory and a test's window, which is memory of tcMemAlloc.
inline void CopyWindow(tcComm_t comm, void* to, const void* from, size_t bytes) {
  EXPECT_EQ(tcMemcpyAsync(comm, to, from, bytes, TestStream()), tcSuccess);
  EXPECT_EQ(tcStreamSynchronize(comm, TestStream()), tcSuccess);
}

}  // namespace tc::test
