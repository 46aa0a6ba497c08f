// What is explored: ranks with their memory, and threads with their code. A scenario builds one.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "protocol/explorer/program.h"
#include "protocol/layout.h"

namespace tc::explorer {

// When the time limit of a bounded wait may pass.
enum class Limits : uint8_t {
  kNever,
  kWhenStuck,  // only when nobody can go on: limits are long
  kAnytime,    // also when a peer is merely slow
};

// Among the readers of a location: whoever looks at its last value when all threads have ended.
inline constexpr uint64_t kOutcomeReader = uint64_t{1} << 63;

// An aligned word of synchronisation, or a piece of plain data; known from its first access on.
struct Location {
  std::string name;
  int home = 0;  // the rank whose memory it lies in
  size_t bytes = 0;
  bool is_data = false;
  size_t component = 0;  // of a View: how far its history is known
  uint64_t initial = 0;
  uint64_t readers = 0;  // threads, a bit each
  uint64_t writers = 0;
};

struct SimulatedThread {
  std::string name;
  int rank;
  Program program;
};

class World {
 public:
  explicit World(int n_ranks, Limits limits = Limits::kNever) : n_ranks_(n_ranks), limits_(limits) {}
  World(World&&) = default;

  // `count` values of memory at home on `rank`, named "rank 1 name[3]".
  template <class T>
  T* NewArray(int rank, const std::string& name, size_t count, T initial = T{}) {
    auto array = std::shared_ptr<T[]>(new T[count]);
    std::fill_n(array.get(), count, initial);
    AddRegion(array.get(), count * sizeof(T), rank, [name, count](size_t offset) {
      return count == 1 ? name : name + "[" + std::to_string(offset / sizeof(T)) + "]";
    });
    owned_.push_back(array);
    return array.get();
  }
  // A rank's ControlBlock, LocalBlock and AbortBlock; all ranks have left `epoch`.
  void AddControl(int rank, Sequence epoch);
  RankView view(int rank) const;

  void AddThread(int rank, const std::string& name, std::function<uint64_t()> code);
  // Threads of one CTA meet at a barrier of their own.
  int AddBarrier(int participants);
  // The last value of `word` belongs to the outcome.
  template <class Word>
  void Watch(const Word* word) {
    watched_.push_back(LocationOf(word, sizeof(Word), false));
    locations_[watched_.back()].readers |= kOutcomeReader;
  }
  // Whether a release to one rank also covers stores to others, as the letter of the CUDA model has it. Off: only what
  // PCIe gives.
  void set_cumulative_everywhere() { cumulative_everywhere_ = true; }

  // Set when a thread reads by its async proxy for the first time.
  bool uses_async_proxy() const { return uses_async_proxy_; }
  void set_uses_async_proxy() { uses_async_proxy_ = true; }

  // The location at an address; made known on its first access.
  int LocationOf(const void* address, size_t bytes, bool is_data);

  int n_ranks() const { return n_ranks_; }
  Limits limits() const { return limits_; }
  bool cumulative_everywhere() const { return cumulative_everywhere_; }
  std::vector<SimulatedThread>& threads() { return threads_; }
  const std::vector<SimulatedThread>& threads() const { return threads_; }
  std::vector<Location>& locations() { return locations_; }
  const std::vector<Location>& locations() const { return locations_; }
  const std::vector<int>& barriers() const { return barriers_; }
  const std::vector<int>& watched() const { return watched_; }
  // Components of views: accesses of a thread, or of its async proxy, to data at home on a rank.
  size_t AccessComponent(int thread, bool async, int home);
  int HomeOf(size_t component) const { return component_home_[component]; }
  size_t component_count() const { return component_home_.size(); }
  int LocationOfComponent(size_t component) const { return component_location_[component]; }  // -1: accesses to data
  int ThreadOf(size_t component) const { return component_thread_[component]; }
  // Data of more than 8 bytes, by number; 0: all bytes are 0.
  uint64_t NumberOf(std::string_view bytes);
  const std::string& BytesOf(uint64_t number) const { return contents_[number]; }

 private:
  struct Region {
    const std::byte* begin;
    size_t bytes;
    int home;
    std::function<std::string(size_t)> name;
  };
  void AddRegion(const void* begin, size_t bytes, int home, std::function<std::string(size_t)> name);

  int n_ranks_;
  Limits limits_;
  bool cumulative_everywhere_ = false;
  bool uses_async_proxy_ = false;
  std::vector<std::shared_ptr<void>> owned_;
  std::map<const std::byte*, Region> regions_;
  std::map<const void*, int> location_at_;
  std::vector<Location> locations_;
  std::vector<SimulatedThread> threads_;
  std::vector<int> component_home_;
  std::vector<int> component_location_;
  std::vector<int> component_thread_;  // -1: of a location
  std::map<size_t, size_t> access_component_;
  std::vector<std::string> contents_{{}};
  std::map<std::string, uint64_t, std::less<>> content_number_;
  std::vector<int> barriers_;
  std::vector<int> watched_;
  ControlBlock* control_[kMaxRanks] = {};
  LocalBlock* local_[kMaxRanks] = {};
  AbortBlock* abort_[kMaxRanks] = {};
};

// The world whose code runs, for the policy.
World& CurrentWorld();
class WorldScope {
 public:
  explicit WorldScope(World& world);
  ~WorldScope();
  WorldScope(const WorldScope&) = delete;

 private:
  World* before_;
};

}  // namespace tc::explorer
