// For tests of operators from inside: ranks as threads of this process, each with a communicator. With
// TC_TEST_BACKEND=cuda all on GPU 0, else on the host backend.
#pragma once

#include <gtest/gtest.h>

#include <barrier>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "comm/communicator.h"
#include "host/backend.h"
#ifdef TC_HAVE_CUDA
#include <cuda_runtime_api.h>

#include "cuda/backend.h"
#endif

namespace tc {

inline constexpr size_t kTestWorkspace = size_t{4} << 20;

inline bool OnGpu() {
  const char* backend = std::getenv("TC_TEST_BACKEND");
  return backend != nullptr && std::strcmp(backend, "cuda") == 0;
}

// TC_P2P_DISABLE=1: the ranks reach no peer's memory.
inline bool HostStaged() {
  const char* disable = std::getenv("TC_P2P_DISABLE");
  return disable != nullptr && std::strcmp(disable, "1") == 0;
}

// Called first. False: there is nothing to run on.
inline bool HasTestDevice() {
  if (!OnGpu()) return true;
  ::setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 0);
#ifdef TC_HAVE_CUDA
  Status why;
  return cuda::IsAvailable(&why);
#else
  return false;
#endif
}

// Memory of the ranks' device, and copies between it and the host.
#ifdef TC_HAVE_CUDA
inline void* DeviceAlloc(size_t bytes) {
  if (!OnGpu()) return std::malloc(bytes);
  void* pointer = nullptr;
  EXPECT_EQ(cudaMalloc(&pointer, bytes), cudaSuccess);
  return pointer;
}
inline void DeviceFree(void* pointer) {
  if (!OnGpu()) return std::free(pointer);
  EXPECT_EQ(cudaFree(pointer), cudaSuccess);
}
inline void CopyAny(void* to, const void* from, size_t bytes) {
  if (!OnGpu()) return static_cast<void>(std::memcpy(to, from, bytes));
  EXPECT_EQ(cudaMemcpy(to, from, bytes, cudaMemcpyDefault), cudaSuccess);
}
#else
inline void* DeviceAlloc(size_t bytes) { return std::malloc(bytes); }
inline void DeviceFree(void* pointer) { std::free(pointer); }
inline void CopyAny(void* to, const void* from, size_t bytes) { std::memcpy(to, from, bytes); }
#endif

inline Status MakeTestBackend(int host_threads, std::unique_ptr<Backend>* backend) {
#ifdef TC_HAVE_CUDA
  if (OnGpu()) return cuda::CudaBackend::Create(0, /*vmm_disable=*/false, backend);
#endif
  *backend = std::make_unique<host::HostBackend>(0, host_threads);
  return {};
}

// Calls body(communicator, barrier of all ranks) in a thread of each rank. What a body allocates it frees when it ends;
// all bodies end before any communicator does.
template <class Body>
void RunRanks(int n_ranks, int host_threads, const Body& body) {
  UniqueId id;
  ASSERT_TRUE(MakeUniqueId(&id).ok());
  CommSettings settings;
  settings.workspace_bytes = kTestWorkspace;
  if (HostStaged()) settings.plane = tcPlaneHostStaged;
  settings.timeout = settings.entry_timeout = std::chrono::seconds(20);
  settings.init_timeout = std::chrono::seconds(20);
  std::barrier<> meet(n_ranks);
  std::vector<std::thread> threads;
  for (int rank = 0; rank < n_ranks; ++rank) {
    threads.emplace_back([&, rank] {
      std::unique_ptr<Backend> backend;
      std::shared_ptr<Communicator> comm;
      ASSERT_TRUE(MakeTestBackend(host_threads, &backend).ok());
      const Status made = Communicator::Create(id, n_ranks, rank, settings, std::move(backend), &comm);
      ASSERT_TRUE(made.ok()) << made.sentence();
      body(*comm, meet);
      meet.arrive_and_wait();
    });
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace tc
