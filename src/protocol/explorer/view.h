// What a thread knows: how far it must see in every component of the simulated memory.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tc::explorer {

// For every component (a location's history, a thread's accesses to one rank's data) the newest event known.
class View {
 public:
  uint16_t At(size_t component) const { return component < reach_.size() ? reach_[component] : 0; }
  void Raise(size_t component, uint16_t to) {
    if (to == 0) return;
    if (component >= reach_.size()) reach_.resize(component + 1);
    reach_[component] = std::max(reach_[component], to);
  }
  void Join(const View& other) {
    for (size_t component = 0; component < other.reach_.size(); ++component) Raise(component, other.reach_[component]);
  }
  size_t size() const { return reach_.size(); }
  bool operator==(const View&) const = default;
  size_t Hash() const {
    const auto* bytes = reinterpret_cast<const char*>(reach_.data());
    return std::hash<std::string_view>()({bytes, reach_.size() * sizeof(uint16_t)});
  }

 private:
  std::vector<uint16_t> reach_;  // its last element is not 0
};

// `seen`: what this thread's accesses are ordered after. `complete`, a part of it: what has arrived at its destination,
// so that it may be announced anywhere. A store to a peer is seen by its issuer at once, but complete only when the
// peer itself says so (P6).
struct Knowledge {
  View seen;
  View complete;

  void Join(const Knowledge& other) {
    seen.Join(other.seen);
    complete.Join(other.complete);
  }
  bool operator==(const Knowledge&) const = default;
  size_t Hash() const { return seen.Hash() * 1000003 + complete.Hash(); }
};

// Equal values get equal numbers; the default value is 0. States are made of such numbers.
template <class T>
class Interner {
 public:
  Interner() { Intern(T{}); }
  uint32_t Intern(const T& value) {
    const auto [at, is_new] = ids_.try_emplace(value, static_cast<uint32_t>(values_.size()));
    if (is_new) values_.push_back(&at->first);
    return at->second;
  }
  const T& operator[](uint32_t id) const { return *values_[id]; }

 private:
  struct HashOf {
    size_t operator()(const T& value) const { return value.Hash(); }
  };
  std::unordered_map<T, uint32_t, HashOf> ids_;
  std::vector<const T*> values_;
};

}  // namespace tc::explorer
