// Closures of any size, first in, first out, in blocks of memory that are kept and used again: a queue allocates only
// when it grows beyond what it has held before.
#pragma once

#include <cstddef>
#include <memory>
#include <new>
#include <utility>
#include <vector>

namespace tc::host {

class TaskQueue {
  struct Block;

 public:
  class Task {
   public:
    // Once. Lets go of what the closure holds, too.
    void Run() { run_(this); }

   private:
    friend TaskQueue;
    void (*run_)(Task* task) = nullptr;
    Task* next_ = nullptr;
    Block* block_ = nullptr;
  };

  TaskQueue() = default;
  TaskQueue(const TaskQueue&) = delete;
  TaskQueue& operator=(const TaskQueue&) = delete;

  bool empty() const { return first_ == nullptr; }
  // The oldest task stays where it is until it is popped, which must not be before it has run.
  Task& front() { return *first_; }

  // std::bad_alloc leaves the queue as it was.
  template <class Act>
  void Push(Act act) {
    static_assert(sizeof(Holder<Act>) <= sizeof(Block::memory) && alignof(Holder<Act>) <= kAlignment);
    auto* task = new (Reserve(sizeof(Holder<Act>), alignof(Holder<Act>))) Holder<Act>(std::move(act));
    task->run_ = [](Task* of) { static_cast<Holder<Act>*>(of)->Run(); };
    task->block_ = filling_;
    ++filling_->tasks;
    (empty() ? first_ : last_->next_) = task;
    last_ = task;
  }

  void Pop() {
    Block* const block = first_->block_;
    first_ = first_->next_;
    if (--block->tasks > 0) return;
    block->used = 0;
    if (block != filling_) free_.push_back(block);
  }

  // Of memory that the queue keeps.
  size_t bytes() const { return blocks_.size() * sizeof(Block); }

 private:
  static constexpr size_t kAlignment = 128;

  struct Block {
    size_t used = 0;   // bytes of memory
    size_t tasks = 0;  // that have not been popped
    alignas(kAlignment) std::byte memory[size_t{16} << 10];
  };

  template <class Act>
  struct Holder : Task {
    explicit Holder(Act from) : act(std::move(from)) {}
    ~Holder() {}
    void Run() {
      act();
      act.~Act();
    }
    union {
      Act act;
    };
  };

  void* Reserve(size_t bytes, size_t alignment) {
    size_t place = filling_ == nullptr ? sizeof(Block::memory) : (filling_->used + alignment - 1) & ~(alignment - 1);
    if (place + bytes > sizeof(Block::memory)) {
      filling_ = TakeBlock();
      place = 0;
    }
    filling_->used = place + bytes;
    return filling_->memory + place;
  }

  Block* TakeBlock() {
    if (free_.empty()) {
      free_.reserve(blocks_.size() + 1);  // of all blocks, so that none is allocated when they come back
      blocks_.push_back(std::make_unique_for_overwrite<Block>());
      return blocks_.back().get();
    }
    Block* const block = free_.back();
    free_.pop_back();
    return block;
  }

  Task* first_ = nullptr;
  Task* last_ = nullptr;  // of a queue that is not empty
  Block* filling_ = nullptr;
  std::vector<Block*> free_;
  std::vector<std::unique_ptr<Block>> blocks_;
};

}  // namespace tc::host
