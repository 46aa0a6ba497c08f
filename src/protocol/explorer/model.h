// The weak memory: what an operation may do to a state. See docs/PROTOCOL.md for the model in plain words.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol/explorer/view.h"
#include "protocol/explorer/world.h"

namespace tc::explorer {

// A value in a location's history.
struct Message {
  uint64_t value = 0;
  uint32_t released = 0;  // what whoever acquires it comes to know
  int16_t rank = -1;      // whose thread wrote it
  bool sys = false;       // its scope; false: only threads of that rank synchronise with it
  bool added = false;     // by an atomic, from the message before it: nothing comes between

  bool operator==(const Message&) const = default;
  size_t Hash() const { return ((value * 1000003 + released) * 31 + rank) * 4 + sys * 2 + added; }
};

// Messages behind the initial value, in the order in which all threads agree to see them.
struct History {
  std::vector<uint32_t> messages;
  bool operator==(const History&) const = default;
  size_t Hash() const {
    size_t hash = messages.size();
    for (const uint32_t message : messages) hash = hash * 1000003 + message;
    return hash;
  }
};

// An access to plain data: event number `count` of a component of views.
struct Access {
  uint32_t component = 0;
  uint16_t count = 0;  // 0: none
  bool operator==(const Access&) const = default;
};

struct Datum {
  uint64_t value = 0;
  Access write;
  std::vector<Access> reads;  // since that write
  bool operator==(const Datum&) const = default;
  size_t Hash() const {
    size_t hash = value * 1000003 + write.component * 4099 + write.count;
    for (const Access& read : reads) hash = hash * 1000003 + read.component * 4099 + read.count;
    return hash;
  }
};

struct ThreadState {
  uint32_t node = 0;
  uint32_t now = 0;          // Knowledge: its own
  uint32_t fence = 0;        // at its last fence: what its relaxed stores release
  uint32_t pending = 0;      // what its relaxed loads would have acquired
  uint32_t proxy = 0;        // what its async proxy is ordered after
  uint32_t outstanding = 0;  // writes of its async proxy that are not waited for
};

struct BarrierState {
  uint32_t arrived = 0;  // over all rounds
  uint32_t gathered = 0;
  uint32_t handed_out = 0;  // of the last round that all have come to
};

struct State {
  std::vector<ThreadState> threads;
  std::vector<BarrierState> barriers;
  std::vector<uint32_t> places;  // History or Datum of each location; those behind the end are untouched
  uint32_t sc = 0;               // Knowledge of the last fence.sc
};

// How a step commutes with steps of other threads, and so where they must be able to come between.
enum class Mover : uint8_t {
  kBoth,   // private, or without choice
  kRight,  // it only looks: whoever comes later does not mind
  kLeft,   // it only adds: whoever came before could not tell
  kNone,
};

class Model {
 public:
  explicit Model(World& world) : world_(world) {}

  State Initial() const;
  const Op& NextOp(const State& state, int thread) const;
  // The steps open to a thread: choices 0 ... n - 1. 0: it must wait, or has ended.
  int Choices(const State& state, int thread);
  Mover MoverOf(const State& state, int thread) const;
  // Threads, a bit each, with whose steps a thread's next one does not commute, if it is kRight or kNone.
  uint64_t RivalsOf(const State& state, int thread) const;
  // Takes one. A sentence when it breaks a property.
  std::optional<std::string> Step(State& state, int thread, int choice);
  // "rank 0 cta 1: store.release.sys rank 1 watermark[0].chunk[0] = 7", of a step not taken yet.
  std::string Describe(const State& state, int thread, int choice);

  // Whether a thread's poll has failed, in a wait.
  bool IsFailedPoll(const State& state, int thread) const;
  // What it leaves behind: the thread waits, and has perhaps seen more.
  void EndFailedPoll(State& state, int thread);
  // Whether a thread waits: its code has polled in vain, and nothing has let it go on.
  bool IsWaiting(const State& state, int thread) const;
  uint64_t LastValue(const State& state, int location) const;
  // Somebody has accessed what was taken to be others' alone: what was explored must be explored again.
  bool TakeRestart() { return std::exchange(restart_, false); }
  // Drops what can make no difference any more, so that states which differ in nothing else become one: messages that
  // nobody can read, accesses that everybody is ordered after.
  void Simplify(State& state);
  // A state as bytes.
  void Encode(const State& state, std::string& bytes) const;
  World& world() { return world_; }

 private:
  using Failure = std::optional<std::string>;
  const History& HistoryOf(const State& state, int location) const;
  const Message& MessageAt(const State& state, int location, size_t index) const;  // 1 ...
  uint64_t ValueAt(const State& state, int location, size_t index) const;          // 0 ...
  size_t Newest(const State& state, int location) const { return HistoryOf(state, location).messages.size(); }
  const Datum& DatumOf(const State& state, int location) const;
  size_t FirstReadable(const State& state, int thread, const Op& op) const;
  std::vector<size_t> StorePlaces(const State& state, int thread, const Op& op) const;
  Knowledge Released(const State& state, int thread, const Op& op, int home) const;

  bool IsPolling(const State& state, int thread) const;
  void BeginWait(State& state, int thread);
  bool MayFail(State state, int thread);
  uint64_t Load(State& state, int thread, const Op& op, size_t index);
  Failure Store(State& state, int thread, const Op& op, size_t index);
  Failure Add(State& state, int thread, const Op& op);
  void Fence(State& state, int thread, bool sc);
  Failure Read(State& state, int thread, const Op& op);
  Failure Write(State& state, int thread, const Op& op);
  void Arrive(State& state, int thread, const Op& op);
  void Depart(State& state, int thread, const Op& op);

  void Acquire(State& state, int thread, const Op& op, const Message& message);
  void Insert(State& state, int location, size_t index, const Message& message);
  void MakeRoom(State& state, int location, size_t index);
  void Know(State& state, int thread, size_t component, size_t count, bool async);
  void Join(uint32_t& to, uint32_t from);
  size_t OldestAlive(const State& state, size_t place) const;
  bool AllKnow(const State& state, const Access& access) const;
  template <class Renumbered>
  void Renumber(State& state, const std::vector<size_t>& alive, const Renumbered& renumbered);
  bool HasEnded(const State& state, int thread) const { return NextOp(state, thread).kind == OpKind::kDone; }
  void NoteRead(int thread, Location& location);
  void NoteWrite(int thread, Location& location);
  void Advance(State& state, int thread, uint64_t observed);
  int RankOf(int thread) const { return world_.threads()[thread].rank; }

  World& world_;
  bool restart_ = false;
  Interner<Knowledge> knowledge_;
  Interner<Message> messages_;
  Interner<History> histories_;
  Interner<Datum> data_;
  std::vector<std::vector<uint16_t>> events_;  // of Simplify, kept for its memory
};

}  // namespace tc::explorer
