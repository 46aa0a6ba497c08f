#include "protocol/explorer/program.h"

#include <algorithm>

namespace tc::explorer {
namespace {

thread_local Run* current_run = nullptr;

}  // namespace

Run& Run::Current() { return *current_run; }

Op Run::Execute(const std::function<uint64_t()>& code) {
  current_run = this;
  try {
    const uint64_t result = code();
    next_ = {.kind = OpKind::kDone, .value = result};
  } catch (const Unwind&) {
  }
  current_run = nullptr;
  return next_;
}

uint64_t Run::Perform(const Op& op) {
  if (op.kind == OpKind::kBeginWait) polling_ = false;
  if (op.kind == OpKind::kBackoff) polling_ = true;
  if (IsNext()) {
    next_ = op;
    throw Unwind{};
  }
  return observed_[at_++];
}

uint64_t Run::NowNs() {
  if (!limits_ || !polling_) return 0;
  return Perform({.kind = OpKind::kExpire});
}

Program::Program(std::function<uint64_t()> code, bool limits) : code_(std::move(code)), limits_(limits) {
  Expand(-1, 0);
}

int Program::After(int node, uint64_t value) {
  for (const auto& [observed, child] : nodes_[node].next) {
    if (observed == value) return child;
  }
  int child = -1;
  if (nodes_[node].op.kind == OpKind::kForget) {
    const auto [known, is_new] = behind_forget_.try_emplace(nodes_[node].op.value, -1);
    if (is_new) known->second = Expand(node, value);
    child = known->second;
  } else {
    child = Expand(node, value);
  }
  nodes_[node].next.emplace_back(value, child);
  return child;
}

int Program::Expand(int parent, uint64_t observed) {
  Node node{.op = {}, .parent = parent, .observed = observed, .next = {}};
  std::vector<uint64_t> path;
  if (parent >= 0) {
    path.push_back(observed);
    for (int at = parent; nodes_[at].parent >= 0; at = nodes_[at].parent) path.push_back(nodes_[at].observed);
    std::reverse(path.begin(), path.end());
    const Node& before = nodes_[parent];
    node.wait = before.op.kind == OpKind::kBeginWait ? parent : before.wait;
    node.looping = before.op.kind != OpKind::kBeginWait && (before.looping || before.op.kind == OpKind::kBackoff);
  }
  node.op = Run(std::move(path), limits_).Execute(code_);
  nodes_.push_back(std::move(node));
  return static_cast<int>(nodes_.size()) - 1;
}

}  // namespace tc::explorer
