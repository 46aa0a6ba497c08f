// How the protocol touches memory: a policy class, so that one source runs on CPU threads and on devices.
//
// A policy provides, for 32- and 64-bit unsigned words:
//   LoadRelaxed, StoreRelaxed              no ordering
//   LoadAcquireSys, StoreReleaseSys        system scope: between ranks
//   FenceSys + StorePublished              one fence, then a store to each of many peers, each as good as a release
//   store LoadAcquireGpu, AddReleaseGpu,         device scope: inside one rank; Add... return the value before
//   AddAcqRelGpu, AddRelaxedGpu
//   Backoff(spins)                         what a waiter does between two polls
//   NowNs()                                a clock that only grows
#pragma once

#ifdef __CUDACC__
#define TC_HOST_DEVICE __host__ __device__
#else
#define TC_HOST_DEVICE
#endif

#include <cstdint>

namespace tc {

// Sequence numbers only grow and are compared with >=: 64 bits never wrap (P2).
using Sequence = uint64_t;

}  // namespace tc
