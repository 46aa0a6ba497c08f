// A simulated thread: ordinary C++ code whose every access to shared memory goes through the model's policy.
//
// What the code does next is a function of the values it has seen so far. So a thread's local states form a tree: a
// node is a history of observed values, and holds the operation that comes next. A node is found by running the code
// from its start with the observed values and unwinding at the first operation without one. Nothing is ever suspended,
// and local states are small numbers.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tc::explorer {

enum class OpKind : uint8_t {
  kDone,        // value: what the code returned
  kFail,        // the code found something wrong
  kLoad,        // of a word of synchronisation
  kStore,       //
  kAdd,         // atomic
  kFence,       // acquire and release, system scope
  kFenceSc,     // sequentially consistent
  kReadData,    // plain data, which a signal orders
  kWriteData,   //
  kAsyncLoad,   // by the async proxy (TMA): of a word
  kAsyncStore,  //
  kAsyncRead,   // of plain data
  kAsyncWrite,  //
  kAsyncWait,   // wait_group 0: the writes of this thread's async proxy are done
  kProxyFence,  // fence.proxy.async
  kArrive,      // at barrier `location`
  kDepart,      //
  kBeginWait,   // a bounded wait starts
  kBackoff,     // one of its polls has failed
  kExpire,      // whether its time limit has passed
  kForget,      // what the code does from here on is a function of `value` alone
};

enum class Order : uint8_t { kRelaxed, kAcquire, kRelease, kAcqRel };
enum class Scope : uint8_t { kGpu, kSys };

struct Op {
  OpKind kind = OpKind::kDone;
  Order order = Order::kRelaxed;
  Scope scope = Scope::kSys;
  int location = -1;
  uint64_t value = 0;
  std::string text = {};

  bool acquires() const { return order == Order::kAcquire || order == Order::kAcqRel; }
  bool releases() const { return order == Order::kRelease || order == Order::kAcqRel; }
};

// The execution of a thread's code up to its next operation.
class Run {
 public:
  // The run of this OS thread that is under way.
  static Run& Current();

  explicit Run(std::vector<uint64_t> observed, bool limits) : observed_(std::move(observed)), limits_(limits) {}
  // Where the code stops.
  Op Execute(const std::function<uint64_t()>& code);

  // Called by the policy: the value that `op` observed.
  uint64_t Perform(const Op& op);
  // Whether the next operation is the one looked for: it must then be complete.
  bool IsNext() const { return at_ == observed_.size(); }
  // The clock: stands still but for the choice whether a wait's limit has passed.
  uint64_t NowNs();

 private:
  struct Unwind {};
  std::vector<uint64_t> observed_;
  size_t at_ = 0;
  bool limits_;
  bool polling_ = false;  // a poll of the open wait has failed
  Op next_;
};

struct Node {
  Op op;
  int parent = -1;
  uint64_t observed = 0;  // by the parent's operation
  int wait = -1;          // the kBeginWait node of the wait that is open, or was last
  bool looping = false;   // behind that wait's first failed poll
  int loop = -1;          // of a kBeginWait node: where the thread is while it waits
  std::vector<std::pair<uint64_t, int>> next;
};

// One thread's tree of local states; node 0 is its start.
class Program {
 public:
  Program(std::function<uint64_t()> code, bool limits);
  const Node& operator[](int node) const { return nodes_[node]; }
  // Where the thread is once the operation of `node` has observed `value`.
  int After(int node, uint64_t value);
  // A failed poll leaves no trace in the code: all of them, of one wait, lead to one node.
  void SetLoop(int wait, int loop) { nodes_[wait].loop = loop; }

 private:
  int Expand(int parent, uint64_t observed);
  std::function<uint64_t()> code_;
  bool limits_;
  std::vector<Node> nodes_;
  std::map<uint64_t, int> behind_forget_;
};

}  // namespace tc::explorer
