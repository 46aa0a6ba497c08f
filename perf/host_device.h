// Marks functions that run on CPUs and on GPUs: one definition, so that both make and judge the same numbers.
#ifndef TC_PERF_HOST_DEVICE_H_
#define TC_PERF_HOST_DEVICE_H_

#include <cstring>

#ifdef __CUDACC__
#define TC_PERF_HOST_DEVICE __host__ __device__
#else
#define TC_PERF_HOST_DEVICE
#endif

namespace tc::perf {

// std::bit_cast, which nvcc has on the host only.
template <typename To, typename From>
TC_PERF_HOST_DEVICE inline To BitCast(const From& from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

}  // namespace tc::perf

#endif  // TC_PERF_HOST_DEVICE_H_
