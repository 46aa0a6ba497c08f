// How the protocol touches memory: a policy class, so that one source runs on CPU threads and on devices.
//
// A policy provides, for 32- and 64-bit unsigned words:
//
//   LoadRelaxed, StoreRelaxed          no ordering
//   LoadAcquireSys, StoreReleaseSys    system scope: between ranks
//   LoadAcquireGpu, StoreReleaseGpu    device scope: inside one rank
//   AddRelaxedGpu, AddAcquireGpu,      device scope; return the value before
//   AddReleaseGpu, AddAcqRelGpu
//   kHotPolls                          polls before a waiter looks at the clock for the first time
//   Backoff(spins)                     what it does between two polls from then on
//   NowNs()                            a clock that only grows
//   kCheckNs                           how often a waiter looks for aborts and at its time limit
//
// and may provide, where plain C++ accesses do not do:
//
//   Read, Write                        plain data, which a signal orders
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

// Plain data, which a signal orders. The explorer's policy must see it; all others leave it to the compiler.
template <class Memory, class T>
TC_HOST_DEVICE void WriteData(T* to, const T& value) {
  if constexpr (requires { Memory::Write(to, value); }) {
    Memory::Write(to, value);
  } else {
    *to = value;
  }
}
template <class Memory, class T>
TC_HOST_DEVICE T ReadData(const T* from) {
  if constexpr (requires { Memory::Read(from); }) {
    return Memory::Read(from);
  } else {
    return *from;
  }
}

}  // namespace tc
