#include "protocol/explorer/explorer.h"

#include <algorithm>
#include <chrono>
#include <random>
#include <sstream>
#include <unordered_set>

#include "protocol/explorer/model.h"

namespace tc::explorer {
namespace {

struct StepTaken {
  int thread;
  int choice;
};

// A state reached by one thread's next transaction: steps between which nobody else needs to come.
struct Transaction {
  State state;
  std::vector<StepTaken> steps;
  std::optional<std::string> failure;
  uint32_t known_before = 0;  // by the thread
  bool saw_newest = true;     // wherever it looked
  bool by_limit = false;      // a wait's time limit has passed
};

struct Fingerprint {
  uint64_t a;
  uint64_t b;
  bool operator==(const Fingerprint&) const = default;
};
struct HashOfFingerprint {
  size_t operator()(const Fingerprint& fingerprint) const { return fingerprint.a; }
};

Fingerprint FingerprintOf(const std::string& bytes) {
  uint64_t digest = 0xcbf29ce484222325;
  for (const char byte : bytes) digest = (digest ^ static_cast<unsigned char>(byte)) * 0x100000001b3;
  return {std::hash<std::string>()(bytes), digest};
}

// "0*5 1.2 0": thread 0 takes five steps with choice 0, thread 1 one with choice 2, ...
std::string ToText(const std::vector<StepTaken>& steps) {
  std::ostringstream text;
  for (size_t i = 0; i < steps.size();) {
    size_t same = i;
    while (same < steps.size() && steps[same].thread == steps[i].thread && steps[same].choice == steps[i].choice)
      ++same;
    text << (i > 0 ? " " : "") << steps[i].thread;
    if (steps[i].choice != 0) text << "." << steps[i].choice;
    if (same > i + 1) text << "*" << same - i;
    i = same;
  }
  return text.str();
}

std::vector<StepTaken> FromText(const std::string& text) {
  std::vector<StepTaken> steps;
  std::istringstream words(text);
  std::string word;
  while (words >> word) {
    StepTaken step{std::stoi(word), 0};
    int times = 1;
    if (const size_t dot = word.find('.'); dot != std::string::npos) step.choice = std::stoi(word.substr(dot + 1));
    if (const size_t star = word.find('*'); star != std::string::npos) times = std::stoi(word.substr(star + 1));
    steps.insert(steps.end(), times, step);
  }
  return steps;
}

class Explorer {
 public:
  explicit Explorer(const Scenario& scenario) : world_(scenario()), model_(world_), start_(Clock::now()) {}

  Result Exhaust(const Budget& budget);
  Result Wander(uint64_t first_seed, uint64_t walks, double seconds);
  Result Replay(const std::string& choices);

 private:
  using Clock = std::chrono::steady_clock;
  enum class Verdict { kGoOn, kEnded, kFailed };

  std::vector<Transaction> TransactionsFrom(const State& state);
  // What a thread may do next, and with whom that does not commute.
  struct Moves {
    std::vector<Transaction> found;
    uint64_t rivals = 0;
  };
  Moves Begin(const State& state, int thread) {
    Moves moves;
    Extend({.state = state, .steps = {}, .failure = {}, .known_before = state.threads[thread].now}, thread, false,
           moves);
    return moves;
  }
  void Extend(Transaction at, int thread, bool adding, Moves& moves);
  static uint64_t Closure(const std::vector<Moves>& of, uint64_t set);
  static size_t CountMoves(const std::vector<Moves>& of, uint64_t set);
  bool IsRestless(const State& state, int thread);
  Verdict Judge(const State& state, const std::vector<Transaction>& next);
  std::string StuckIn(const State& state);
  void Report(std::string failure, const std::vector<StepTaken>& steps);
  bool SearchOnce(const Budget& budget);
  Verdict WalkOnce(uint64_t seed);
  double Seconds() const { return std::chrono::duration<double>(Clock::now() - start_).count(); }
  void Trace(const std::vector<StepTaken>& steps, std::optional<std::string>* failure, State* end);

  World world_;
  Model model_;
  Clock::time_point start_;
  bool reduce_ = true;
  Result result_;
};

// Whether the thread's next step commutes with everything that others may do before it: it is then taken first, alone.
bool Explorer::IsRestless(const State& state, int thread) {
  if (!reduce_ || model_.Choices(state, thread) == 0) return false;
  const Mover mover = model_.MoverOf(state, thread);
  return mover == Mover::kLeft || mover == Mover::kBoth;
}

// The threads' transactions that must be tried: those of a set of threads that contains, with a thread, all rivals of
// its next steps (a persistent set). The smallest such set that can go on.
std::vector<Transaction> Explorer::TransactionsFrom(const State& state) {
  const int threads = static_cast<int>(state.threads.size());
  for (int thread = 0; thread < threads; ++thread) {
    if (IsRestless(state, thread)) return std::move(Begin(state, thread).found);
  }
  std::vector<Moves> of(threads);
  for (int thread = 0; thread < threads; ++thread) of[thread] = Begin(state, thread);
  uint64_t best = Closure(of, ~uint64_t{0});
  for (int thread = 0; reduce_ && thread < threads; ++thread) {
    const uint64_t set = Closure(of, uint64_t{1} << thread);
    const size_t moves = CountMoves(of, set);
    if (moves > 0 && moves < CountMoves(of, best)) best = set;
  }
  std::vector<Transaction> found;
  for (int thread = 0; thread < threads; ++thread) {
    if ((best >> thread & 1) == 0) continue;
    for (Transaction& transaction : of[thread].found) found.push_back(std::move(transaction));
  }
  if (world_.limits() == Limits::kWhenStuck) {
    const bool stuck = std::all_of(found.begin(), found.end(), [](const Transaction& t) { return t.by_limit; });
    if (!stuck) std::erase_if(found, [](const Transaction& t) { return t.by_limit; });
  }
  return found;
}

uint64_t Explorer::Closure(const std::vector<Moves>& of, uint64_t set) {
  for (uint64_t before = 0; before != set;) {
    before = set;
    for (size_t thread = 0; thread < of.size(); ++thread) {
      if ((set >> thread & 1) != 0) set |= of[thread].rivals;
    }
  }
  return set;
}

size_t Explorer::CountMoves(const std::vector<Moves>& of, uint64_t set) {
  size_t moves = 0;
  for (size_t thread = 0; thread < of.size(); ++thread) {
    if ((set >> thread & 1) == 0) continue;
    for (const Transaction& transaction : of[thread].found) moves += !transaction.by_limit;
  }
  return moves;
}

// Steps that only look, then one that does not commute, then steps that only add (Lipton's reduction). A wait starts a
// transaction of its own.
void Explorer::Extend(Transaction at, int thread, bool adding, Moves& moves) {
  for (;;) {
    if (model_.IsFailedPoll(at.state, thread)) {
      // It matters only where seeing the newest keeps the thread from ever seeing what it waits for.
      model_.EndFailedPoll(at.state, thread);
      const bool learned = at.saw_newest && at.state.threads[thread].now != at.known_before;
      if (!reduce_ || learned) moves.found.push_back(std::move(at));
      return;
    }
    const bool fresh = at.steps.empty();
    const int choices = model_.Choices(at.state, thread);
    const Mover mover = model_.MoverOf(at.state, thread);
    const bool at_seam = (adding && (mover == Mover::kRight || mover == Mover::kNone)) ||
                         model_.IsWaiting(at.state, thread) || choices == 0 || !reduce_;
    if (at_seam && !fresh) {
      moves.found.push_back(std::move(at));
      return;
    }
    if (mover == Mover::kRight || mover == Mover::kNone) moves.rivals |= model_.RivalsOf(at.state, thread);
    if (choices == 0) return;
    adding = adding || mover == Mover::kLeft || mover == Mover::kNone;
    const OpKind kind = model_.NextOp(at.state, thread).kind;
    for (int choice = choices; choice-- > 0;) {
      Transaction next = choice > 0 ? at : std::move(at);
      next.steps.push_back({thread, choice});
      next.by_limit = next.by_limit || (kind == OpKind::kExpire && choice == 1);
      next.saw_newest = next.saw_newest && (kind != OpKind::kLoad || choice == 0);
      next.failure = model_.Step(next.state, thread, choice);
      if (next.failure) {
        moves.found.push_back(std::move(next));
        if (choice == 0) return;
      } else if (choice > 0) {
        Extend(std::move(next), thread, adding, moves);
      } else {
        at = std::move(next);
      }
    }
  }
}

std::string Explorer::StuckIn(const State& state) {
  std::string waiting;
  for (size_t i = 0; i < state.threads.size(); ++i) {
    const int thread = static_cast<int>(i);
    const Op& op = model_.NextOp(state, thread);
    if (op.kind == OpKind::kDone) continue;
    waiting += waiting.empty() ? "a wait never ends: " : "; ";
    waiting += world_.threads()[i].name;
    const Program& program = world_.threads()[i].program;
    const int wait = program[static_cast<int>(state.threads[i].node)].wait;
    waiting += model_.IsWaiting(state, thread) ? " waits for " + program[wait].op.text
                                               : " waits at barrier " + std::to_string(op.location);
  }
  return waiting;
}

Explorer::Verdict Explorer::Judge(const State& state, const std::vector<Transaction>& next) {
  if (!next.empty()) return Verdict::kGoOn;
  if (!StuckIn(state).empty()) return Verdict::kFailed;
  std::vector<uint64_t> outcome;
  for (size_t thread = 0; thread < state.threads.size(); ++thread) {
    outcome.push_back(model_.NextOp(state, static_cast<int>(thread)).value);
  }
  for (const int location : world_.watched()) outcome.push_back(model_.LastValue(state, location));
  result_.outcomes.insert(outcome);
  return Verdict::kEnded;
}

void Explorer::Trace(const std::vector<StepTaken>& steps, std::optional<std::string>* failure, State* end) {
  State state = model_.Initial();
  std::ostringstream lines;
  for (const StepTaken& step : steps) {
    if (step.choice >= model_.Choices(state, step.thread)) {
      *failure = "these choices are of another scenario";
      return;
    }
    lines << model_.Describe(state, step.thread, step.choice) << "\n";
    *failure = model_.Step(state, step.thread, step.choice);
    if (*failure) break;
    if (model_.IsFailedPoll(state, step.thread)) model_.EndFailedPoll(state, step.thread);
  }
  result_.trace = lines.str();
  *end = state;
}

void Explorer::Report(std::string failure, const std::vector<StepTaken>& steps) {
  std::optional<std::string> again;
  State end;
  Trace(steps, &again, &end);
  result_.failure = std::move(failure);
  result_.choices = ToText(steps);
}

// True: done, one way or the other. False: a step was thought to commute and does not.
bool Explorer::SearchOnce(const Budget& budget) {
  struct Frame {
    std::vector<Transaction> next;
    size_t taken = 0;
  };
  std::unordered_set<Fingerprint, HashOfFingerprint> visited;
  std::vector<Frame> path;
  std::string bytes;
  const auto steps_to_here = [&] {
    std::vector<StepTaken> steps;
    for (const Frame& frame : path) {
      if (frame.taken == 0) continue;
      const std::vector<StepTaken>& more = frame.next[frame.taken - 1].steps;
      steps.insert(steps.end(), more.begin(), more.end());
    }
    return steps;
  };
  const auto enter = [&](const State& state) {
    model_.Encode(state, bytes);
    if (!visited.insert(FingerprintOf(bytes)).second) return Verdict::kEnded;
    Frame frame{.next = TransactionsFrom(state)};
    const Verdict verdict = Judge(state, frame.next);
    if (verdict == Verdict::kFailed) Report(StuckIn(state), steps_to_here());
    if (verdict == Verdict::kGoOn) path.push_back(std::move(frame));
    return verdict;
  };

  result_.outcomes.clear();
  Verdict verdict = enter(model_.Initial());
  while (verdict != Verdict::kFailed && !path.empty()) {
    result_.states = visited.size();
    if (model_.TakeRestart()) return false;
    if (visited.size() > budget.states || (visited.size() % 256 == 0 && Seconds() > budget.seconds)) return true;
    Frame& frame = path.back();
    if (frame.taken == frame.next.size()) {
      path.pop_back();
      continue;
    }
    const Transaction& next = frame.next[frame.taken++];
    if (next.failure) {
      Report(*next.failure, steps_to_here());
      return true;
    }
    State state = next.state;
    if (reduce_) model_.Simplify(state);
    verdict = enter(state);
  }
  if (model_.TakeRestart()) return false;
  result_.complete = !result_.failure;
  return true;
}

Result Explorer::Exhaust(const Budget& budget) {
  reduce_ = budget.reduce;
  // Walks tell early who accesses what, which decides what commutes; and they find the plain mistakes.
  const uint64_t first_walks = reduce_ ? 20 : 0;
  for (uint64_t seed = 1; seed <= first_walks && !result_.failure; ++seed) WalkOnce(seed);
  model_.TakeRestart();
  while (!result_.failure && !SearchOnce(budget)) {
  }
  result_.seconds = Seconds();
  return result_;
}

Explorer::Verdict Explorer::WalkOnce(uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<StepTaken> steps;
  State state = model_.Initial();
  for (;;) {
    std::vector<Transaction> next = TransactionsFrom(state);
    const Verdict verdict = Judge(state, next);
    if (verdict == Verdict::kFailed) Report(StuckIn(state), steps);
    if (verdict != Verdict::kGoOn) return verdict;
    Transaction& taken = next[random() % next.size()];
    steps.insert(steps.end(), taken.steps.begin(), taken.steps.end());
    if (taken.failure) {
      Report(*taken.failure, steps);
      return Verdict::kFailed;
    }
    state = std::move(taken.state);
  }
}

Result Explorer::Wander(uint64_t first_seed, uint64_t walks, double seconds) {
  for (uint64_t walk = 0; walk < walks && !result_.failure && Seconds() < seconds; ++walk) {
    WalkOnce(first_seed + walk);
    ++result_.walks;
  }
  result_.seconds = Seconds();
  return result_;
}

Result Explorer::Replay(const std::string& choices) {
  std::optional<std::string> failure;
  State end = model_.Initial();
  Trace(FromText(choices), &failure, &end);
  if (!failure && TransactionsFrom(end).empty() && !StuckIn(end).empty()) failure = StuckIn(end);
  result_.failure = failure;
  result_.choices = choices;
  return result_;
}

}  // namespace

Result Explore(const Scenario& scenario, const Budget& budget) { return Explorer(scenario).Exhaust(budget); }

Result Wander(const Scenario& scenario, uint64_t first_seed, uint64_t walks, double seconds) {
  return Explorer(scenario).Wander(first_seed, walks, seconds);
}

Result Replay(const Scenario& scenario, const std::string& choices) { return Explorer(scenario).Replay(choices); }

}  // namespace tc::explorer
