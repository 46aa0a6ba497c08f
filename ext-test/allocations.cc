#include "allocations.h"

#include <dlfcn.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <map>

namespace {

struct Count {
  bool on;
  size_t made;
  void* callers[1024];  // return addresses of the first ones
};
thread_local Count count;

void Note(void* caller) {
  if (!count.on) return;
  if (count.made < std::size(count.callers)) count.callers[count.made] = caller;
  ++count.made;
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

void StartCountingAllocations() {
  count.made = 0;
  count.on = true;
}

size_t StopCountingAllocations(std::string* callers) {
  count.on = false;
  std::map<std::string, size_t> by_object;
  const size_t known = std::min(count.made, std::size(count.callers));
  for (size_t i = 0; i < known; ++i) {
    Dl_info object{};
    ++by_object[dladdr(count.callers[i], &object) != 0 ? object.dli_fname : "an unknown object"];
  }
  size_t made = count.made;
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
