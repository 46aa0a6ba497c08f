// Operator shapes as ranks compare them and as messages print them.
#pragma once

#include <cstdint>
#include <string>

#include "base/data_type.h"
#include "base/status.h"
#include "order/shards.h"
#include "protocol/layout.h"

namespace tc {

// FNV-1a over a few words.
constexpr uint64_t Digest(uint64_t digest, uint64_t word) {
  for (int byte = 0; byte < 8; ++byte) digest = (digest ^ (word >> (8 * byte) & 0xff)) * 0x100000001b3;
  return digest;
}
inline constexpr uint64_t kEmptyDigest = 0xcbf29ce484222325;

inline uint64_t ShardDigest(const Shards& shards) {
  uint64_t digest = kEmptyDigest;
  for (int rank = 0; rank < shards.n_ranks; ++rank) digest = Digest(digest, shards.rows(rank));
  return digest;
}

inline std::string DescribeShape(const OperatorShape& shape) {
  const auto text = [](uint64_t value) { return std::to_string(value); };
  std::string words = OpName(shape.op);
  if (shape.op == tcOpBarrier) return words;
  words += "(";
  if (shape.op >= tcOpAllGatherGemm) {
    words += "m=" + text(shape.m) + ", n=" + text(shape.n) + ", k=" + text(shape.k);
  } else if (shape.op != tcOpAllToAllV) {  // whose counts are each pair's own
    words += "count=" + text(shape.m);
  }
  if (words.back() != '(') words += ", ";
  words += TypeName(shape.type);
  if (IsReduction(shape.op)) words += std::string(", ") + ReductionName(static_cast<tcRedOp_t>(shape.n));
  if (shape.op == tcOpBroadcast) words += ", root=" + text(shape.n);
  return words + ")";
}

// What a rank enters an operator with when it wants no data: it only meets, or staged data is all there is.
inline EntryRecord EntryOfShape(const OperatorShape& shape) {
  EntryRecord entry{};
  entry.shape = shape;
  return entry;
}

// The same for a call that was refused. A sentence that is too long is cut.
inline EntryRecord EntryOfRefusal(const OperatorShape& shape, const Status& why) {
  EntryRecord entry = EntryOfShape(shape);
  entry.rejected = why.code();
  why.sentence().copy(entry.sentence, sizeof(entry.sentence) - 1);
  return entry;
}

// What a wait for a rank's entry waits for: in later epochs of an operator the rank is inside it already.
inline const char* EntryVerb(bool first) { return first ? "enter" : "go on"; }

// `peer` refused its call.
inline Status RefusalError(const OperatorShape& shape, int peer, tcResult_t code, const char* sentence) {
  return Error(code, "rank %d refused its call of %s: %s", peer, OpName(shape.op), sentence);
}

// Two ranks called tcAllToAllV with counts, in elements, that are not each other's.
inline Status PairMismatch(int from, int to, uint64_t sent, uint64_t expected) {
  return Error(
      tcInvalidUsage,
      "rank %d called tcAllToAllV with sendcounts[%d] = %llu, rank %d with recvcounts[%d] = %llu; they must be "
      "equal",
      from, to, static_cast<unsigned long long>(sent), to, from, static_cast<unsigned long long>(expected));
}

// Rank 0 and `peer` entered epoch `number` with different shapes.
inline Status ShapeMismatch(const OperatorShape& first, int peer, const OperatorShape& other, Sequence number) {
  std::string here = DescribeShape(first);
  const std::string there = DescribeShape(other);
  if (here == there)
    here += first.op >= tcOpAllGatherGemm ? " with other rowsPerRank or options" : " with other counts";
  return Error(tcInvalidUsage,
               "rank 0 called %s, rank %d called %s (epoch %llu); operators of a communicator must be the same, in the "
               "same order, on all ranks",
               here.c_str(), peer, there.c_str(), static_cast<unsigned long long>(number));
}

}  // namespace tc
