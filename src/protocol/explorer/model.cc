#include "protocol/explorer/model.h"

#include <algorithm>
#include <limits>
#include <stdexcept>

namespace tc::explorer {
namespace {

// Instead of the number of a write: no need to know it, everybody does.
constexpr uint16_t kKnownToAll = std::numeric_limits<uint16_t>::max();
constexpr uint64_t kLongPast = uint64_t{1} << 63;

// Whether nothing about earlier accesses matters any more.
bool IsSettled(const Datum& datum) {
  return datum.reads.empty() && (datum.write.count == 0 || datum.write.count == kKnownToAll);
}

uint64_t Bit(int thread) { return uint64_t{1} << thread; }

bool IsAsync(OpKind kind) {
  return kind == OpKind::kAsyncLoad || kind == OpKind::kAsyncStore || kind == OpKind::kAsyncRead ||
         kind == OpKind::kAsyncWrite;
}

const char* Verb(OpKind kind) {
  switch (kind) {
    case OpKind::kDone:
      return "ends";
    case OpKind::kFail:
      return "finds:";
    case OpKind::kLoad:
      return "load";
    case OpKind::kStore:
      return "store";
    case OpKind::kAdd:
      return "add";
    case OpKind::kFence:
      return "fence.acq_rel.sys";
    case OpKind::kFenceSc:
      return "fence.sc.sys";
    case OpKind::kReadData:
      return "read";
    case OpKind::kWriteData:
      return "write";
    case OpKind::kAsyncLoad:
      return "async load";
    case OpKind::kAsyncStore:
      return "async store";
    case OpKind::kAsyncRead:
      return "async read";
    case OpKind::kAsyncWrite:
      return "async write";
    case OpKind::kAsyncWait:
      return "wait_group 0";
    case OpKind::kProxyFence:
      return "fence.proxy.async";
    case OpKind::kArrive:
      return "arrives at barrier";
    case OpKind::kDepart:
      return "leaves barrier";
    case OpKind::kBeginWait:
      return "waits for";
    case OpKind::kBackoff:
      return "polls";
    case OpKind::kExpire:
      return "looks at its time limit";
    case OpKind::kForget:
      return "goes on";
  }
  return "";
}

std::string Suffix(const Op& op) {
  if (op.kind != OpKind::kLoad && op.kind != OpKind::kStore && op.kind != OpKind::kAdd) return "";
  constexpr const char* kOrders[] = {".relaxed", ".acquire", ".release", ".acq_rel"};
  return std::string(kOrders[static_cast<int>(op.order)]) + (op.scope == Scope::kSys ? ".sys" : ".gpu");
}

}  // namespace

State Model::Initial() const {
  State state;
  state.threads.resize(world_.threads().size());
  state.barriers.resize(world_.barriers().size());
  return state;
}

const Op& Model::NextOp(const State& state, int thread) const {
  return world_.threads()[thread].program[static_cast<int>(state.threads[thread].node)].op;
}

const History& Model::HistoryOf(const State& state, int location) const {
  const auto at = static_cast<size_t>(location);
  return histories_[at < state.places.size() ? state.places[at] : 0];
}

const Message& Model::MessageAt(const State& state, int location, size_t index) const {
  return messages_[HistoryOf(state, location).messages[index - 1]];
}

uint64_t Model::ValueAt(const State& state, int location, size_t index) const {
  return index == 0 ? world_.locations()[location].initial : MessageAt(state, location, index).value;
}

const Datum& Model::DatumOf(const State& state, int location) const {
  const auto at = static_cast<size_t>(location);
  return data_[at < state.places.size() ? state.places[at] : 0];
}

uint64_t Model::LastValue(const State& state, int location) const {
  return ValueAt(state, location, Newest(state, location));
}

// A load may read any message that is not older than what its thread already knows.
size_t Model::FirstReadable(const State& state, int thread, const Op& op) const {
  const ThreadState& self = state.threads[thread];
  return knowledge_[op.kind == OpKind::kAsyncLoad ? self.proxy : self.now].seen.At(
      world_.locations()[op.location].component);
}

// Where in the history a store may come: behind what its thread knows; never between an atomic and what it read.
std::vector<size_t> Model::StorePlaces(const State& state, int thread, const Op& op) const {
  const Location& location = world_.locations()[op.location];
  const size_t newest = Newest(state, op.location);
  std::vector<size_t> places = {newest + 1};
  if (location.readers == 0) return places;
  const size_t known = knowledge_[state.threads[thread].now].seen.At(location.component);
  for (size_t index = newest; index > known; --index) {
    if (!MessageAt(state, op.location, index).added) places.push_back(index);
  }
  return places;
}

int Model::Choices(const State& state, int thread) {
  const Op& op = NextOp(state, thread);
  switch (op.kind) {
    case OpKind::kDone:
      return 0;
    case OpKind::kLoad:
    case OpKind::kAsyncLoad:
      return static_cast<int>(Newest(state, op.location) - FirstReadable(state, thread, op)) + 1;
    case OpKind::kStore:
    case OpKind::kAsyncStore:
      return static_cast<int>(StorePlaces(state, thread, op).size());
    case OpKind::kDepart:
      return state.barriers[op.location].arrived / world_.barriers()[op.location] > op.value;
    case OpKind::kBackoff:
      return !IsFailedPoll(state, thread);
    case OpKind::kExpire:
      return 2;
    default:
      return 1;
  }
}

bool Model::IsPolling(const State& state, int thread) const {
  return world_.threads()[thread].program[static_cast<int>(state.threads[thread].node)].looping;
}

bool Model::IsFailedPoll(const State& state, int thread) const {
  return NextOp(state, thread).kind == OpKind::kBackoff && IsPolling(state, thread);
}

void Model::EndFailedPoll(State& state, int thread) {
  uint32_t& node = state.threads[thread].node;
  const Program& program = world_.threads()[thread].program;
  node = static_cast<uint32_t>(program[program[static_cast<int>(node)].wait].loop);
}

bool Model::IsWaiting(const State& state, int thread) const {
  return NextOp(state, thread).kind == OpKind::kBackoff && !IsFailedPoll(state, thread);
}

// Atomics and data races apart, a load can be put off and a store be done early without anybody's noticing: a load may
// still read what it could, and loads of others may still read what was there before the store.
Mover Model::MoverOf(const State& state, int thread) const {
  const Op& op = NextOp(state, thread);
  if (op.kind == OpKind::kFenceSc) return Mover::kNone;
  if (op.kind == OpKind::kArrive) return Mover::kLeft;
  if (op.kind == OpKind::kDepart || op.kind == OpKind::kBeginWait || op.kind == OpKind::kBackoff ||
      op.kind == OpKind::kExpire) {
    return Mover::kRight;
  }
  const bool loads = op.kind == OpKind::kLoad || op.kind == OpKind::kAsyncLoad;
  const bool stores = op.kind == OpKind::kStore || op.kind == OpKind::kAsyncStore;
  if (!loads && !stores && op.kind != OpKind::kAdd) return Mover::kBoth;

  const Location& location = world_.locations()[op.location];
  const bool others_write = (location.writers & ~Bit(thread)) != 0;
  const bool others_read = (location.readers & ~Bit(thread)) != 0;
  if (stores && location.readers == 0) return Mover::kBoth;
  if (others_write) return loads ? Mover::kRight : Mover::kNone;
  if (op.kind == OpKind::kAdd && others_read) return Mover::kNone;
  return stores && others_read ? Mover::kLeft : Mover::kBoth;
}

uint64_t Model::RivalsOf(const State& state, int thread) const {
  const Op& op = NextOp(state, thread);
  if (op.kind == OpKind::kDepart) {
    uint64_t same_rank = 0;
    for (size_t other = 0; other < state.threads.size(); ++other) {
      if (RankOf(static_cast<int>(other)) == RankOf(thread)) same_rank |= Bit(static_cast<int>(other));
    }
    return same_rank;
  }
  if (op.kind == OpKind::kFenceSc) return ~kOutcomeReader;
  if (op.location < 0 || op.kind == OpKind::kArrive) return 0;
  const Location& location = world_.locations()[op.location];
  if (location.is_data) return 0;
  const bool loads = op.kind == OpKind::kLoad || op.kind == OpKind::kAsyncLoad;
  return (loads ? location.writers : location.writers | location.readers) & ~kOutcomeReader;
}

void Model::NoteRead(int thread, Location& location) {
  restart_ = restart_ || (location.readers & Bit(thread)) == 0;
  location.readers |= Bit(thread);
}

void Model::NoteWrite(int thread, Location& location) {
  restart_ = restart_ || (location.writers & Bit(thread)) == 0;
  location.writers |= Bit(thread);
}

void Model::Join(uint32_t& to, uint32_t from) {
  if (from == 0 || to == from) return;
  Knowledge joined = knowledge_[to];
  joined.Join(knowledge_[from]);
  to = knowledge_.Intern(joined);
}

void Model::Know(State& state, int thread, size_t component, size_t count, bool async) {
  if (count >= kKnownToAll) throw std::logic_error("too many events");
  ThreadState& self = state.threads[thread];
  uint32_t& place = async ? self.outstanding : self.now;
  Knowledge known = knowledge_[place];
  known.seen.Raise(component, static_cast<uint16_t>(count));
  if (world_.HomeOf(component) == RankOf(thread)) known.complete.Raise(component, static_cast<uint16_t>(count));
  place = knowledge_.Intern(known);
}

void Model::Advance(State& state, int thread, uint64_t observed) {
  uint32_t& node = state.threads[thread].node;
  node = static_cast<uint32_t>(world_.threads()[thread].program.After(static_cast<int>(node), observed));
}

std::optional<std::string> Model::Step(State& state, int thread, int choice) {
  WorldScope scope(world_);
  const Op op = NextOp(state, thread);  // a copy: nodes move
  ThreadState& self = state.threads[thread];
  uint64_t observed = 0;
  Failure failure;
  switch (op.kind) {
    case OpKind::kDone:
      return {};
    case OpKind::kFail:
      return world_.threads()[thread].name + ": " + op.text;
    case OpKind::kLoad:
      if (world_.locations()[op.location].home != RankOf(thread) && IsPolling(state, thread)) {
        return world_.threads()[thread].name + " polls " + world_.locations()[op.location].name +
               ": only local memory is polled";
      }
      [[fallthrough]];
    case OpKind::kAsyncLoad:
      observed = Load(state, thread, op, Newest(state, op.location) - choice);
      break;
    case OpKind::kStore:
    case OpKind::kAsyncStore:
      failure = Store(state, thread, op, StorePlaces(state, thread, op)[choice]);
      break;
    case OpKind::kAdd:
      observed = ValueAt(state, op.location, Newest(state, op.location));
      failure = Add(state, thread, op);
      break;
    case OpKind::kFence:
    case OpKind::kFenceSc:
      Fence(state, thread, op.kind == OpKind::kFenceSc);
      break;
    case OpKind::kReadData:
    case OpKind::kAsyncRead: {
      const Datum& datum = DatumOf(state, op.location);
      observed = datum.write.count == 0 ? world_.locations()[op.location].initial : datum.value;
      failure = Read(state, thread, op);
      break;
    }
    case OpKind::kWriteData:
    case OpKind::kAsyncWrite:
      failure = Write(state, thread, op);
      break;
    case OpKind::kAsyncWait:
      Join(self.now, std::exchange(self.outstanding, 0));
      break;
    case OpKind::kProxyFence:
      self.proxy = self.now;
      break;
    case OpKind::kArrive:
      observed = state.barriers[op.location].arrived / world_.barriers()[op.location];
      Arrive(state, thread, op);
      break;
    case OpKind::kDepart:
      Depart(state, thread, op);
      break;
    case OpKind::kBeginWait:
      BeginWait(state, thread);
      return {};
    case OpKind::kExpire:
      observed = choice == 0 ? 0 : kLongPast;
      break;
    case OpKind::kBackoff:
    case OpKind::kForget:
      break;
  }
  if (failure) return failure;
  Advance(state, thread, observed);
  if (HasEnded(state, thread)) self = {.node = self.node};
  return {};
}

// If the first poll of a wait may fail, the thread waits, at one place whatever the poll saw: a failed poll leaves no
// trace in the code.
void Model::BeginWait(State& state, int thread) {
  const int wait = static_cast<int>(state.threads[thread].node);
  State polling = state;
  Advance(polling, thread, 0);
  if (MayFail(polling, thread)) {
    state.threads[thread].node = static_cast<uint32_t>(world_.threads()[thread].program[wait].loop);
  } else {
    state = std::move(polling);
  }
}

bool Model::MayFail(State state, int thread) {
  const Op& op = NextOp(state, thread);
  Program& program = world_.threads()[thread].program;
  const int at = static_cast<int>(state.threads[thread].node);
  if (op.kind == OpKind::kBackoff) {
    const int wait = program[at].wait;
    if (program[wait].loop < 0) program.SetLoop(wait, at);
    return true;
  }
  if (op.kind != OpKind::kLoad) return false;
  for (int choice = Choices(state, thread); choice-- > 0;) {
    State next = state;
    Step(next, thread, choice);
    if (MayFail(next, thread)) return true;
  }
  return false;
}

uint64_t Model::Load(State& state, int thread, const Op& op, size_t index) {
  Location& location = world_.locations()[op.location];
  NoteRead(thread, location);
  if (op.kind == OpKind::kLoad) Know(state, thread, location.component, index, false);
  if (index > 0) Acquire(state, thread, op, MessageAt(state, op.location, index));
  return ValueAt(state, op.location, index);
}

void Model::Acquire(State& state, int thread, const Op& op, const Message& message) {
  const bool in_scope = message.rank == RankOf(thread) || (message.sys && op.scope == Scope::kSys);
  if (!in_scope || op.kind == OpKind::kAsyncLoad) return;
  ThreadState& self = state.threads[thread];
  Join(op.acquires() ? self.now : self.pending, message.released);
}

// What a store lets its readers know. To a peer: what is complete anywhere, and this rank's stores to that same peer,
// which take the same path in order; nothing of stores to other peers, which may still be under way.
Knowledge Model::Released(const State& state, int thread, const Op& op, int home) const {
  if (IsAsync(op.kind)) return {};
  const ThreadState& self = state.threads[thread];
  const Knowledge& known = knowledge_[op.releases() ? self.now : self.fence];
  if (home == RankOf(thread) || world_.cumulative_everywhere()) return known;
  View arrived = known.complete;
  for (size_t component = 0; component < known.seen.size(); ++component) {
    if (world_.HomeOf(component) == home) arrived.Raise(component, known.seen.At(component));
  }
  return {arrived, arrived};
}

std::optional<std::string> Model::Store(State& state, int thread, const Op& op, size_t index) {
  Location& location = world_.locations()[op.location];
  NoteWrite(thread, location);
  const int rank = RankOf(thread);
  for (const uint32_t id : HistoryOf(state, op.location).messages) {
    const int other = messages_[id].rank;
    if (location.home == rank || other == rank || other == location.home) continue;
    return world_.threads()[thread].name + " stores to " + location.name + ", and so has rank " +
           std::to_string(other) + ": a slot has one writer";
  }
  const Message message{op.value, knowledge_.Intern(Released(state, thread, op, location.home)),
                        static_cast<int16_t>(rank), op.scope == Scope::kSys, false};
  Insert(state, op.location, index, message);
  Know(state, thread, location.component, index, op.kind == OpKind::kAsyncStore);
  return {};
}

std::optional<std::string> Model::Add(State& state, int thread, const Op& op) {
  Location& location = world_.locations()[op.location];
  NoteRead(thread, location);
  NoteWrite(thread, location);
  if (location.home != RankOf(thread)) {
    return world_.threads()[thread].name + ": atomic on " + location.name + ": PCIe loses remote atomics";
  }
  const size_t newest = Newest(state, op.location);
  Knowledge before;
  if (newest > 0) {
    const Message& message = MessageAt(state, op.location, newest);
    before = knowledge_[message.released];
    Acquire(state, thread, op, message);
  }
  Knowledge released = Released(state, thread, op, location.home);
  released.Join(before);
  uint64_t value = ValueAt(state, op.location, newest) + op.value;
  if (location.bytes < sizeof(value)) value &= (uint64_t{1} << 8 * location.bytes) - 1;
  Insert(state, op.location, newest + 1,
         {value, knowledge_.Intern(released), static_cast<int16_t>(RankOf(thread)), op.scope == Scope::kSys, true});
  Know(state, thread, location.component, newest + 1, false);
  return {};
}

void Model::Insert(State& state, int location, size_t index, const Message& message) {
  if (index <= Newest(state, location)) MakeRoom(state, location, index);
  if (state.places.size() <= static_cast<size_t>(location)) state.places.resize(location + 1);
  History history = HistoryOf(state, location);
  history.messages.insert(history.messages.begin() + static_cast<ptrdiff_t>(index) - 1, messages_.Intern(message));
  state.places[location] = histories_.Intern(history);
}

// Numbers the messages from `index` on one higher, wherever they are known.
void Model::MakeRoom(State& state, int location, size_t index) {
  const size_t component = world_.locations()[location].component;
  const auto shift_view = [&](View& view) {
    if (view.At(component) >= index) view.Raise(component, static_cast<uint16_t>(view.At(component) + 1));
  };
  const auto shift = [&](uint32_t& id) {
    Knowledge known = knowledge_[id];
    shift_view(known.seen);
    shift_view(known.complete);
    id = knowledge_.Intern(known);
  };
  for (ThreadState& thread : state.threads) {
    for (uint32_t* id : {&thread.now, &thread.fence, &thread.pending, &thread.proxy, &thread.outstanding}) shift(*id);
  }
  for (BarrierState& barrier : state.barriers) {
    shift(barrier.gathered);
    shift(barrier.handed_out);
  }
  shift(state.sc);
  for (size_t place = 0; place < state.places.size(); ++place) {
    if (world_.locations()[place].is_data || state.places[place] == 0) continue;
    History history = histories_[state.places[place]];
    for (uint32_t& id : history.messages) {
      Message message = messages_[id];
      shift(message.released);
      id = messages_.Intern(message);
    }
    state.places[place] = histories_.Intern(history);
  }
}

void Model::Fence(State& state, int thread, bool sc) {
  ThreadState& self = state.threads[thread];
  Join(self.now, std::exchange(self.pending, 0));
  if (sc) {
    Join(self.now, state.sc);
    Join(state.sc, self.now);
  }
  self.fence = self.now;
}

std::optional<std::string> Model::Read(State& state, int thread, const Op& op) {
  const Location& location = world_.locations()[op.location];
  Datum datum = DatumOf(state, op.location);
  const ThreadState& self = state.threads[thread];
  const View& known = knowledge_[op.kind == OpKind::kAsyncRead ? self.proxy : self.now].seen;
  if (datum.write.count != kKnownToAll && known.At(datum.write.component) < datum.write.count) {
    return world_.threads()[thread].name + " reads " + location.name + " without being ordered after the write of " +
           world_.threads()[world_.ThreadOf(datum.write.component)].name;
  }
  const auto component = static_cast<uint32_t>(world_.AccessComponent(thread, false, RankOf(thread)));
  const auto count = static_cast<uint16_t>(knowledge_[self.now].seen.At(component) + 1);
  Know(state, thread, component, count, false);
  std::erase_if(datum.reads, [&](const Access& read) { return read.component == component; });
  const auto before = [](const Access& a, const Access& b) { return a.component < b.component; };
  const Access read{component, count};
  datum.reads.insert(std::upper_bound(datum.reads.begin(), datum.reads.end(), read, before), read);
  if (state.places.size() <= static_cast<size_t>(op.location)) state.places.resize(op.location + 1);
  state.places[op.location] = data_.Intern(datum);
  return {};
}

std::optional<std::string> Model::Write(State& state, int thread, const Op& op) {
  const Location& location = world_.locations()[op.location];
  const Datum& before = DatumOf(state, op.location);
  const ThreadState& self = state.threads[thread];
  const View& known = knowledge_[self.now].seen;
  const auto who = [&](const Access& access) { return world_.threads()[world_.ThreadOf(access.component)].name; };
  if (before.write.count != kKnownToAll && known.At(before.write.component) < before.write.count) {
    return world_.threads()[thread].name + " writes " + location.name + " without being ordered after the write of " +
           who(before.write);
  }
  for (const Access& read : before.reads) {
    if (known.At(read.component) < read.count) {
      return world_.threads()[thread].name + " overwrites " + location.name + " before the last read, of " + who(read);
    }
  }
  const bool async = op.kind == OpKind::kAsyncWrite;
  const size_t component = world_.AccessComponent(thread, async, location.home);
  const int count = std::max(known.At(component), knowledge_[self.outstanding].seen.At(component)) + 1;
  Know(state, thread, component, static_cast<size_t>(count), async);
  if (state.places.size() <= static_cast<size_t>(op.location)) state.places.resize(op.location + 1);
  state.places[op.location] =
      data_.Intern({op.value, {static_cast<uint32_t>(component), static_cast<uint16_t>(count)}, {}});
  return {};
}

void Model::Arrive(State& state, int thread, const Op& op) {
  BarrierState& barrier = state.barriers[op.location];
  Join(barrier.gathered, state.threads[thread].now);
  if (++barrier.arrived % world_.barriers()[op.location] == 0) barrier.handed_out = std::exchange(barrier.gathered, 0);
}

void Model::Depart(State& state, int thread, const Op& op) {
  Join(state.threads[thread].now, state.barriers[op.location].handed_out);
}

std::string Model::Describe(const State& state, int thread, int choice) {
  const Op& op = NextOp(state, thread);
  std::string line = world_.threads()[thread].name + ": " + Verb(op.kind) + Suffix(op);
  if (op.kind == OpKind::kArrive || op.kind == OpKind::kDepart) return line + " " + std::to_string(op.location);
  if (op.kind == OpKind::kExpire) return line + (choice == 0 ? ": not yet" : ": passed");
  if (op.kind == OpKind::kBeginWait || op.kind == OpKind::kFail) return line + " " + op.text;
  if (op.location < 0) return line;
  line += " " + world_.locations()[op.location].name;
  switch (op.kind) {
    case OpKind::kLoad:
    case OpKind::kAsyncLoad:
      line += " = " + std::to_string(ValueAt(state, op.location, Newest(state, op.location) - choice));
      return choice == 0 ? line : line + " (old: " + std::to_string(choice) + " newer)";
    case OpKind::kAdd:
      return line + " + " + std::to_string(op.value) + ", was " +
             std::to_string(ValueAt(state, op.location, Newest(state, op.location)));
    case OpKind::kReadData:
    case OpKind::kAsyncRead: {
      const Datum& datum = DatumOf(state, op.location);
      return line + " = " +
             std::to_string(datum.write.count == 0 ? world_.locations()[op.location].initial : datum.value);
    }
    default:
      return line + " = " + std::to_string(op.value);
  }
}

// The oldest message of a location that a thread may still read, or put its own behind.
size_t Model::OldestAlive(const State& state, size_t place) const {
  const Location& location = world_.locations()[place];
  size_t alive = HistoryOf(state, static_cast<int>(place)).messages.size();
  for (size_t i = 0; i < state.threads.size(); ++i) {
    const int thread = static_cast<int>(i);
    const ThreadState& self = state.threads[i];
    if (HasEnded(state, thread) || ((location.readers | location.writers) & Bit(thread)) == 0) continue;
    alive = std::min<size_t>(alive, knowledge_[self.now].seen.At(location.component));
    if (world_.uses_async_proxy()) alive = std::min<size_t>(alive, knowledge_[self.proxy].seen.At(location.component));
  }
  return alive;
}

// Whether every thread that has not ended is ordered after an access.
bool Model::AllKnow(const State& state, const Access& access) const {
  for (size_t i = 0; i < state.threads.size(); ++i) {
    const ThreadState& self = state.threads[i];
    if (HasEnded(state, static_cast<int>(i))) continue;
    if (knowledge_[self.now].seen.At(access.component) < access.count) return false;
    if (world_.uses_async_proxy() && knowledge_[self.proxy].seen.At(access.component) < access.count) return false;
  }
  return true;
}

void Model::Simplify(State& state) {
  const size_t places = state.places.size();
  std::vector<size_t> alive(places, 0);                  // of words
  std::vector<std::vector<uint16_t>>& events = events_;  // of data, those that still matter
  events.resize(world_.component_count());
  for (std::vector<uint16_t>& counts : events) counts.clear();
  for (size_t place = 0; place < places; ++place) {
    if (!world_.locations()[place].is_data) {
      alive[place] = OldestAlive(state, place);
      continue;
    }
    if (IsSettled(data_[state.places[place]])) continue;
    Datum datum = data_[state.places[place]];
    if (AllKnow(state, datum.write)) datum.write = {0, datum.write.count == 0 ? uint16_t{0} : kKnownToAll};
    std::erase_if(datum.reads, [&](const Access& read) { return AllKnow(state, read); });
    if (datum.write.count != kKnownToAll) events[datum.write.component].push_back(datum.write.count);
    for (const Access& read : datum.reads) events[read.component].push_back(read.count);
    state.places[place] = data_.Intern(datum);
  }
  for (std::vector<uint16_t>& counts : events) {
    std::erase(counts, 0);
    std::sort(counts.begin(), counts.end());
    counts.erase(std::unique(counts.begin(), counts.end()), counts.end());
  }
  const auto renumbered = [&](size_t component, uint16_t count) {
    const int location = world_.LocationOfComponent(component);
    if (location >= 0) return static_cast<size_t>(location) < places && count < alive[location] ? uint16_t{0} : count;
    const std::vector<uint16_t>& counts = events[component];
    return static_cast<uint16_t>(std::upper_bound(counts.begin(), counts.end(), count) - counts.begin());
  };
  Renumber(state, alive, renumbered);
}

template <class Renumbered>
void Model::Renumber(State& state, const std::vector<size_t>& alive, const Renumbered& renumbered) {
  std::vector<std::pair<uint32_t, uint32_t>> done;
  const auto renumber = [&](uint32_t& id) {
    if (id == 0) return;
    for (const auto& [before, after] : done) {
      if (before != id) continue;
      id = after;
      return;
    }
    Knowledge known;
    for (size_t i = 0; i < knowledge_[id].seen.size(); ++i)
      known.seen.Raise(i, renumbered(i, knowledge_[id].seen.At(i)));
    for (size_t i = 0; i < knowledge_[id].complete.size(); ++i) {
      known.complete.Raise(i, renumbered(i, knowledge_[id].complete.At(i)));
    }
    done.emplace_back(id, knowledge_.Intern(known));
    id = done.back().second;
  };
  for (ThreadState& thread : state.threads) {
    for (uint32_t* id : {&thread.now, &thread.fence, &thread.pending, &thread.proxy, &thread.outstanding})
      renumber(*id);
  }
  for (BarrierState& barrier : state.barriers) {
    renumber(barrier.gathered);
    renumber(barrier.handed_out);
  }
  renumber(state.sc);
  for (size_t place = 0; place < state.places.size(); ++place) {
    if (state.places[place] == 0) continue;
    if (world_.locations()[place].is_data) {
      if (IsSettled(data_[state.places[place]])) continue;
      Datum datum = data_[state.places[place]];
      if (datum.write.count != kKnownToAll) datum.write.count = renumbered(datum.write.component, datum.write.count);
      for (Access& read : datum.reads) read.count = renumbered(read.component, read.count);
      state.places[place] = data_.Intern(datum);
      continue;
    }
    History history = histories_[state.places[place]];
    bool changed = false;
    for (size_t i = 0; i < history.messages.size(); ++i) {
      const bool dead = i + 1 < alive[place];
      Message message = messages_[history.messages[i]];
      if (dead) message = {.rank = message.rank};
      renumber(message.released);
      if (message == messages_[history.messages[i]]) continue;
      history.messages[i] = messages_.Intern(message);
      changed = true;
    }
    if (changed) state.places[place] = histories_.Intern(history);
  }
}

void Model::Encode(const State& state, std::string& bytes) const {
  bytes.clear();
  const auto append = [&](const auto* from, size_t count) {
    bytes.append(reinterpret_cast<const char*>(from), count * sizeof(*from));
  };
  append(state.threads.data(), state.threads.size());
  append(state.barriers.data(), state.barriers.size());
  append(&state.sc, 1);
  size_t places = state.places.size();
  while (places > 0 && state.places[places - 1] == 0) --places;
  append(state.places.data(), places);
}

}  // namespace tc::explorer
