// The explorer's memory policy: every access becomes an operation of the simulated thread.
#pragma once

#include <cstring>
#include <string>

#include "protocol/explorer/world.h"

namespace tc::explorer {

class ModelMemory {
 public:
  static constexpr unsigned kHotPolls = 1;
  static constexpr uint64_t kCheckNs = 0;

  template <class Word>
  static Word LoadRelaxed(const Word* word) {
    return Load(word, Order::kRelaxed, Scope::kSys);
  }
  template <class Word>
  static void StoreRelaxed(Word* word, Word value) {
    Store(word, value, Order::kRelaxed, Scope::kSys);
  }
  template <class Word>
  static Word LoadAcquireSys(const Word* word) {
    return Load(word, Order::kAcquire, Scope::kSys);
  }
  template <class Word>
  static void StoreReleaseSys(Word* word, Word value) {
    Store(word, value, Order::kRelease, Scope::kSys);
  }
  template <class Word>
  static Word LoadAcquireGpu(const Word* word) {
    return Load(word, Order::kAcquire, Scope::kGpu);
  }
  template <class Word>
  static void StoreReleaseGpu(Word* word, Word value) {
    Store(word, value, Order::kRelease, Scope::kGpu);
  }
  template <class Word>
  static Word AddRelaxedGpu(Word* word, Word value) {
    return Add(word, value, Order::kRelaxed);
  }
  template <class Word>
  static Word AddAcquireGpu(Word* word, Word value) {
    return Add(word, value, Order::kAcquire);
  }
  template <class Word>
  static Word AddReleaseGpu(Word* word, Word value) {
    return Add(word, value, Order::kRelease);
  }
  template <class Word>
  static Word AddAcqRelGpu(Word* word, Word value) {
    return Add(word, value, Order::kAcqRel);
  }
  static void FenceAcqRelSys() { Run::Current().Perform({.kind = OpKind::kFence}); }
  static void FenceScSys() { Run::Current().Perform({.kind = OpKind::kFenceSc}); }
  static void Backoff(unsigned) { Run::Current().Perform({.kind = OpKind::kBackoff}); }
  static uint64_t NowNs() { return Run::Current().NowNs(); }

  template <class T>
  static T Read(const T* from) {
    return ReadAs(OpKind::kReadData, from);
  }
  template <class T>
  static void Write(T* to, const T& value) {
    WriteAs(OpKind::kWriteData, to, value);
  }

  // The async proxy (TMA, bulk copies) of the calling thread.
  template <class Word>
  static Word AsyncLoad(const Word* word) {
    CurrentWorld().set_uses_async_proxy();
    return static_cast<Word>(Perform(OpKind::kAsyncLoad, word, 0, {}, Scope::kSys));
  }
  template <class Word>
  static void AsyncStore(Word* word, Word value) {
    Perform(OpKind::kAsyncStore, word, value, {}, Scope::kSys);
  }
  template <class T>
  static T AsyncRead(const T* from) {
    CurrentWorld().set_uses_async_proxy();
    return ReadAs(OpKind::kAsyncRead, from);
  }
  template <class T>
  static void AsyncWrite(T* to, const T& value) {
    WriteAs(OpKind::kAsyncWrite, to, value);
  }
  static void AsyncWaitGroup() { Run::Current().Perform({.kind = OpKind::kAsyncWait}); }
  static void AsyncWaitGroupRead() {}  // the source may be used again; nothing is known of the writes
  static void ProxyFence() { Run::Current().Perform({.kind = OpKind::kProxyFence}); }

  // __syncthreads of the CTA that owns `barrier`.
  static void SyncThreads(int barrier) {
    const uint64_t round = Run::Current().Perform({.kind = OpKind::kArrive, .location = barrier});
    Run::Current().Perform({.kind = OpKind::kDepart, .location = barrier, .value = round});
  }

  // Says that a bounded wait starts, for `what`. Its polls must leave no trace in the code when they fail.
  static void BeginWait(const std::string& what) { Run::Current().Perform({.kind = OpKind::kBeginWait, .text = what}); }
  // Says that what the code does from here on depends on `key` alone, not on how it came here: states that differ in
  // nothing else are then one.
  static void Forget(uint64_t key) { Run::Current().Perform({.kind = OpKind::kForget, .value = key}); }
  [[noreturn]] static void Fail(const std::string& what) {
    Run::Current().Perform({.kind = OpKind::kFail, .text = what});
    std::abort();  // never: a failure is never observed
  }

 private:
  static uint64_t Perform(OpKind kind, const auto* at, uint64_t value, Order order, Scope scope, bool is_data = false) {
    if (!Run::Current().IsNext()) return Run::Current().Perform({.kind = kind});
    const int location = CurrentWorld().LocationOf(at, sizeof(*at), is_data);
    return Run::Current().Perform({.kind = kind, .order = order, .scope = scope, .location = location, .value = value});
  }
  template <class Word>
  static Word Load(const Word* word, Order order, Scope scope) {
    return static_cast<Word>(Perform(OpKind::kLoad, word, 0, order, scope));
  }
  template <class Word>
  static void Store(Word* word, Word value, Order order, Scope scope) {
    Perform(OpKind::kStore, word, value, order, scope);
  }
  template <class Word>
  static Word Add(Word* word, Word value, Order order) {
    return static_cast<Word>(Perform(OpKind::kAdd, word, value, order, Scope::kGpu));
  }
  template <class T>
  static T ReadAs(OpKind kind, const T* from) {
    const uint64_t seen = Perform(kind, from, 0, {}, Scope::kSys, true);
    T value{};
    if constexpr (sizeof(T) <= sizeof(uint64_t)) {
      std::memcpy(&value, &seen, sizeof(T));
    } else if (seen == 0) {
      std::memset(static_cast<void*>(&value), 0, sizeof(T));
    } else {
      std::memcpy(&value, CurrentWorld().BytesOf(seen).data(), sizeof(T));
    }
    return value;
  }
  template <class T>
  static void WriteAs(OpKind kind, T* to, const T& value) {
    uint64_t content = 0;
    if constexpr (sizeof(T) <= sizeof(uint64_t)) {
      std::memcpy(&content, &value, sizeof(T));
    } else {
      content = CurrentWorld().NumberOf({reinterpret_cast<const char*>(&value), sizeof(T)});
    }
    Perform(kind, to, content, {}, Scope::kSys, true);
  }
};

}  // namespace tc::explorer
