#include "allocations.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstddef>
#include <iterator>
#include <map>

namespace {

struct Count {
  std::atomic<bool> on;
  std::atomic<size_t> made;
  std::atomic<void*> callers[1024];  // return addresses of the first ones

  void Start() {
    made = 0;
    on = true;
  }
  void Note(void* caller) {
    if (!on.load(std::memory_order_relaxed)) return;
    const size_t number = made++;
    if (number < std::size(callers)) callers[number] = caller;
  }
};
thread_local Count of_this_thread;
Count of_all_threads;

void Note(void* caller) {
  of_this_thread.Note(caller);
  of_all_threads.Note(caller);
}

}  // namespace

extern "C" {

void* __libc_malloc(size_t);
void* __libc_calloc(size_t, size_t);
void* __libc_realloc(void*, size_t);
void* __libc_memalign(size_t, size_t);

#define TC_INTERPOSED __attribute__((visibility("default")))

TC_INTERPOSED void* malloc(size_t bytes) {
  Note(__builtin_return_address(0));
  return __libc_malloc(bytes);
}
TC_INTERPOSED void* calloc(size_t count_of, size_t bytes) {
  Note(__builtin_return_address(0));
  return __libc_calloc(count_of, bytes);
}
TC_INTERPOSED void* realloc(void* memory, size_t bytes) {
  Note(__builtin_return_address(0));
  return __libc_realloc(memory, bytes);
}
TC_INTERPOSED void* memalign(size_t alignment, size_t bytes) {
  Note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
TC_INTERPOSED void* aligned_alloc(size_t alignment, size_t bytes) {
  Note(__builtin_return_address(0));
  return __libc_memalign(alignment, bytes);
}
TC_INTERPOSED int posix_memalign(void** memory, size_t alignment, size_t bytes) {
  Note(__builtin_return_address(0));
  *memory = __libc_memalign(alignment, bytes);
  return *memory != nullptr ? 0 : ENOMEM;
}

}  // extern "C"

namespace tc::test {

void StartCountingAllocations(Threads whose) { (whose == Threads::kAll ? of_all_threads : of_this_thread).Start(); }

size_t StopCountingAllocations(std::string* callers) {
  Count& count = of_all_threads.on ? of_all_threads : of_this_thread;
  count.on = false;
  std::map<std::string, size_t> by_object;
  size_t made = count.made;
  for (size_t i = 0; i < std::min(made, std::size(count.callers)); ++i) {
    Dl_info object{};
    ++by_object[dladdr(count.callers[i], &object) != 0 ? object.dli_fname : "an unknown object"];
  }
  callers->clear();
  for (const auto& [object, times] : by_object) {
    if (object.find("libcuda.so") != std::string::npos) {
      made -= times;
    } else {
      *callers += object + " " + std::to_string(times) + " times; ";
    }
  }
  return made;
}

}  // namespace tc::test
