// A place where the ranks of a run wait for each other on the host.
#ifndef TC_PERF_MEETING_H_
#define TC_PERF_MEETING_H_

#include <atomic>
#include <cstdint>

#include "shared_memory.h"

namespace tc::perf {

// Make it before the ranks start: they inherit it, as threads or as processes.
class Meeting {
 public:
  // Throws Failure when there is no memory.
  explicit Meeting(int count);

  // Returns once all `count` ranks have called it as often as this one. Not bounded: when a rank does not come, the
  // parent ends this one.
  void Meet();

 private:
  uint64_t count_;
  SharedMemory memory_;
  std::atomic<uint64_t>* arrivals_;  // in memory_
};

}  // namespace tc::perf

#endif  // TC_PERF_MEETING_H_
