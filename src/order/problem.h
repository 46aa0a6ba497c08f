// What an operator is asked to do, with every default resolved: the call's arguments on their way to a kernel.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "base/data_type.h"
#include "order/shards.h"
#include "tc.h"

namespace tc {

// Every rank's `bytes` become block r of everybody's `recv`.
struct AllGatherProblem {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t bytes = 0;
};

// Every rank's block goes to the same place of everybody's `recv`: blocks of uneven sizes, or one rank's alone, which
// is a broadcast.
struct AllGatherVProblem {
  const void* send = nullptr;
  void* recv = nullptr;
  Shards blocks = {};              // in bytes, one behind the other
  uint64_t place[kMaxRanks] = {};  // where each block starts in this rank's recv, in bytes
  bool packed = true;              // place is blocks.begin
};

// Every rank has a partial of every block; rank r's `recv` becomes the reduction of block r.
struct ReduceScatterProblem {
  const void* send = nullptr;
  void* recv = nullptr;
  Shards blocks = {};  // in elements
  tcDataType_t type = tcFloat32;
  tcRedOp_t op = tcSum;
};

// Everybody's `recv` becomes the reduction of all `send`.
struct AllReduceProblem {
  const void* send = nullptr;
  void* recv = nullptr;
  size_t count = 0;
  tcDataType_t type = tcFloat32;
  tcRedOp_t op = tcSum;
  bool one_shot = false;  // everybody reduces everything, else each its slice
};

// An all-gather as one of blocks.
inline AllGatherVProblem EvenBlocks(const AllGatherProblem& problem, int n_ranks) {
  AllGatherVProblem blocks{
      .send = problem.send, .recv = problem.recv, .blocks = EvenShards(problem.bytes * n_ranks, n_ranks)};
  std::copy_n(blocks.blocks.begin, n_ranks, blocks.place);
  return blocks;
}

// The slices of an all-reduce in two shots: each rank reduces its own, then all gather them.
struct Slices {
  ReduceScatterProblem reduce;  // in elements
  AllGatherVProblem gather;     // in bytes
};

inline Slices CutSlices(const AllReduceProblem& problem, int rank, int n_ranks) {
  const size_t element = ElementBytes(problem.type);
  Slices slices{.reduce = {.send = problem.send,
                           .blocks = EvenShards(problem.count, n_ranks),
                           .type = problem.type,
                           .op = problem.op},
                .gather = {.recv = problem.recv}};
  slices.gather.blocks = InUnits(slices.reduce.blocks, element);
  std::copy_n(slices.gather.blocks.begin, n_ranks, slices.gather.place);
  slices.reduce.recv = static_cast<std::byte*>(problem.recv) + slices.gather.place[rank];
  slices.gather.send = slices.reduce.recv;
  return slices;
}

struct AllToAllProblem {
  const void* send = nullptr;
  void* recv = nullptr;
  ExchangedBlocks blocks = {};
  uint64_t send_place[kMaxRanks] = {};
  size_t element_bytes = 1;
  bool uneven = false;  // no rank knows the others' blocks, so they tell each other first
};

// Parts of a fused operator. Users run all of them; tests run one alone and look at what it left.
enum Stage : uint32_t {
  kStageMove = 1,     // rows go to the peers, and into gatheredA
  kStageCompute = 2,  // tiles; without kStageMove of what lies in the workspace already, nobody waits for it
};
inline constexpr uint32_t kAllStages = kStageMove | kStageCompute;

struct AllGatherGemmProblem {
  const void* a = nullptr;  // this rank's rows
  const void* b = nullptr;
  void* c = nullptr;
  void* gathered = nullptr;  // NULL: not wanted
  Shards shards;             // of the rows of a and c
  size_t n = 0;
  size_t k = 0;
  size_t lda = 0;
  size_t ldb = 0;
  size_t ldc = 0;
  tcDataType_t type = tcFloat32;
  tcDataType_t out_type = tcFloat32;
  tcBLayout_t b_layout = tcBLayoutNK;
  float alpha = 1.0f;
  uint32_t stages = kAllStages;
};

// Bytes from one staged row to the next: rows start on 16 bytes, whatever the caller's did, so that they can be loaded
// in 16-byte words.
constexpr size_t StagedPitch(size_t row_bytes) { return (row_bytes + 15) / 16 * 16; }

}  // namespace tc
