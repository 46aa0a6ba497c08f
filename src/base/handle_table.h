// Live handles: what a caller holds is a number that was never used before, so a destroyed or foreign handle, or one
// used after fork, is recognised instead of followed.
#pragma once

#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

#include "base/status.h"

namespace tc {

// Unique over all tables. The value is no address a program can own: following it faults at once.
inline uintptr_t NewHandleValue() {
  static std::atomic<uintptr_t> last{0};
  return uintptr_t{0x7C1E} << 48 | (++last << 4);
}

// Handle is a pointer to an incomplete type. `what` names it in messages.
template <class Handle, class Object>
class HandleTable {
 public:
  explicit HandleTable(const char* what) : what_(what) {}

  Handle Add(std::shared_ptr<Object> object) {
    std::unique_lock lock(mutex_);
    const auto handle = reinterpret_cast<Handle>(NewHandleValue());
    objects_.emplace(handle, Entry{std::move(object), ::getpid()});
    return handle;
  }

  Status Find(Handle handle, std::shared_ptr<Object>* object) const {
    if (handle == nullptr) return Error(tcInvalidArgument, "the %s is NULL", what_);
    std::shared_lock lock(mutex_);
    const auto found = objects_.find(handle);
    if (found == objects_.end()) {
      return Error(tcInvalidArgument, "%p is not a live %s: it was destroyed, or never was one",
                   static_cast<const void*>(handle), what_);
    }
    if (found->second.process != ::getpid()) {
      return Error(tcInvalidUsage, "the %s belongs to process %d; a child made by fork cannot use it, make a new one",
                   what_, static_cast<int>(found->second.process));
    }
    *object = found->second.object;
    return {};
  }

  Status Remove(Handle handle, std::shared_ptr<Object>* object) {
    TC_RETURN_IF_ERROR(Find(handle, object));
    std::unique_lock lock(mutex_);
    if (objects_.erase(handle) == 0) return Error(tcInvalidUsage, "the %s is being destroyed by another thread", what_);
    return {};
  }

  template <class Predicate>
  void RemoveIf(Predicate predicate) {
    std::unique_lock lock(mutex_);
    std::erase_if(objects_, [&](const auto& entry) { return predicate(*entry.second.object); });
  }

 private:
  struct Entry {
    std::shared_ptr<Object> object;
    pid_t process;
  };
  const char* what_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<Handle, Entry> objects_;
};

}  // namespace tc
