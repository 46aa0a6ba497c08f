// Cases of the plain collectives: what each rank's buffers hold before the operator and must hold after it, as pictures
// from which any element can be computed by itself, on host or device.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "elements.h"

namespace tc::test {

inline bool Reduces(tcOp_t op) { return op == tcOpReduceScatter || op == tcOpReduceScatterV || op == tcOpAllReduce; }
inline bool MayBeInPlace(tcOp_t op) { return op != tcOpAllToAll && op != tcOpAllToAllV; }
// `count` is not a block's, of which each rank has one, but the operator's.
inline bool CountIsWhole(tcOp_t op) { return op == tcOpAllReduce || op == tcOpBroadcast; }

constexpr size_t kGuardBytes = 256;  // before and behind each buffer
constexpr int kSend = 0, kRecv = 1;  // the two buffers of a rank

enum class Where { kPlain, kRegistered, kMixed };  // kMixed: registered on even ranks, plain on odd ones

inline bool IsRegistered(Where where, int rank) {
  return where == Where::kRegistered || (where == Where::kMixed && rank % 2 == 0);
}

// One call, the same on every rank.
struct Case {
  tcOp_t op = tcOpAllReduce;
  tcDataType_t type = tcFloat32;
  tcRedOp_t reduction = tcSum;
  int root = 0;
  size_t count = 0;  // elements, as the operator takes them; V: of the largest block
  uint64_t seed = 0;
  bool in_place = false;
  bool misaligned = false;  // each rank's buffers begin at addresses of their own, none a multiple of 16
  Where where = Where::kPlain;
};

inline std::string Describe(const Case& which) {
  constexpr const char* kOps[] = {"",          "barrier",    "all-gather",   "reduce-scatter",   "all-reduce",
                                  "broadcast", "all-to-all", "all-gather-v", "reduce-scatter-v", "all-to-all-v"};
  constexpr const char* kTypes[] = {"int8", "uint8", "int32", "uint32", "int64", "uint64",
                                    "fp16", "fp32",  "fp64",  "bf16",   "e4m3",  "e5m2"};
  constexpr const char* kReductions[] = {"sum", "prod", "max", "min", "avg"};
  constexpr const char* kWheres[] = {"plain", "registered", "registered on even ranks"};
  std::string text = std::string(kOps[which.op]) + " of " + kTypes[which.type];
  if (Reduces(which.op)) text += std::string(", ") + kReductions[which.reduction];
  if (which.op == tcOpBroadcast) text += ", root " + std::to_string(which.root);
  return text + ", count " + std::to_string(which.count) + (which.in_place ? ", in place" : ", out of place") +
         (which.misaligned ? ", misaligned, " : ", aligned, ") + kWheres[static_cast<int>(which.where)] + ", seed " +
         std::to_string(which.seed);
}

// What the elements of a case are computed from.
struct Values {
  tcDataType_t type;
  tcRedOp_t reduction;
  int n_ranks;
  uint64_t seed;
  const uint64_t* round;  // added to the seed, for graphs; NULL: 0
};

// `count` elements from `place` on: those of rank `source` from number `first` on, or their reduction over all ranks.
constexpr int kAllRanks = -1;
struct Block {
  uint64_t place, count, first;
  int source;
};

// A buffer as cells of one element's size: a guard zone, cells that misalign, the elements, a guard zone. What is in no
// block is poison.
struct Picture {
  uint64_t cells = 0;
  uint64_t origin = 0;  // the cell of element 0
  int n_blocks = 0;
  Block blocks[TC_MAX_RANKS] = {};

  void Add(const Block& block) { blocks[n_blocks++] = block; }
};

TC_HOST_DEVICE inline uint64_t BitsAt(const Values& values, const Picture& picture, uint64_t cell) {
  const uint64_t seed = values.seed + (values.round != nullptr ? *values.round : 0);
  const uint64_t element = cell - picture.origin;  // wraps before the origin, to where no block is
  for (int b = 0; b < picture.n_blocks; ++b) {
    const Block& block = picture.blocks[b];
    if (element - block.place >= block.count) continue;
    const uint64_t index = block.first + (element - block.place);
    if (block.source != kAllRanks) return ElementBits(values.type, seed, block.source, index);
    return ReducedBits(values.type, values.reduction, values.n_ranks,
                       [&](int rank) { return ElementBits(values.type, seed, rank, index); });
  }
  return 0xA5A5'A5A5'A5A5'A5A5;
}

// Both buffers of a rank as they must be at one moment. A cell has its number among those of both.
struct Buffers {
  Values values;
  unsigned char* memory[2];
  Picture pictures[2];

  TC_HOST_DEVICE uint64_t cells() const { return pictures[kSend].cells + pictures[kRecv].cells; }
  TC_HOST_DEVICE void Fill(uint64_t cell) const {
    At(cell, [](auto& held, auto bits) {
      held = bits;
      return true;
    });
  }
  TC_HOST_DEVICE bool IsRight(uint64_t cell) const {
    return At(cell, [](const auto& held, auto bits) { return held == bits; });
  }

 private:
  // Visits a cell as a word, with the bits that belong there.
  template <class Visit>
  TC_HOST_DEVICE bool At(uint64_t cell, const Visit& visit) const {
    const int buffer = cell < pictures[kSend].cells ? kSend : kRecv;
    if (buffer == kRecv) cell -= pictures[kSend].cells;
    const uint64_t bits = BitsAt(values, pictures[buffer], cell);
    unsigned char* const first = memory[buffer];
    switch (ElementSize(values.type)) {
      case 1:
        return visit(first[cell], static_cast<uint8_t>(bits));
      case 2:
        return visit(reinterpret_cast<uint16_t*>(first)[cell], static_cast<uint16_t>(bits));
      case 4:
        return visit(reinterpret_cast<uint32_t*>(first)[cell], static_cast<uint32_t>(bits));
      default:
        return visit(reinterpret_cast<uint64_t*>(first)[cell], bits);
    }
  }
};

// A case as one rank sees it.
class Plan {
 public:
  // `memory`: the two buffers' rooms, at multiples of 16 bytes. `round`: see Values.
  Plan(const Case& which, int rank, int n_ranks, unsigned char* const (&memory)[2], const uint64_t* round = nullptr)
      : case_(which), rank_(rank), n_ranks_(n_ranks) {
    before_.values = {which.type, which.reduction, n_ranks, which.seed, round};
    before_.memory[kSend] = memory[kSend];
    before_.memory[kRecv] = memory[kRecv];
    for (Picture& picture : before_.pictures) picture.cells = 2 * kGuardBytes / size();
    after_ = before_;
    switch (which.op) {
      case tcOpAllGather:
      case tcOpAllGatherV:
        Gather();
        break;
      case tcOpReduceScatter:
      case tcOpReduceScatterV:
        Scatter();
        break;
      case tcOpAllReduce:
        AllReduce();
        break;
      case tcOpBroadcast:
        Broadcast();
        break;
      default:
        AllToAll();
    }
  }

  const Buffers& before() const { return before_; }
  const Buffers& after() const { return after_; }
  size_t size() const { return ElementSize(case_.type); }
  // Bytes of the larger buffer.
  size_t Room() const { return std::max(before_.pictures[kSend].cells, before_.pictures[kRecv].cells) * size(); }

  tcResult_t Call(tcComm_t comm, tcStream_t stream) const {
    const Case& c = case_;
    switch (c.op) {
      case tcOpAllGather:
        return tcAllGather(send_, recv_, c.count, c.type, comm, stream);
      case tcOpReduceScatter:
        return tcReduceScatter(send_, recv_, c.count, c.type, c.reduction, comm, stream);
      case tcOpAllReduce:
        return tcAllReduce(send_, recv_, c.count, c.type, c.reduction, comm, stream);
      case tcOpBroadcast:
        return tcBroadcast(send_, recv_, c.count, c.type, c.root, comm, stream);
      case tcOpAllToAll:
        return tcAllToAll(send_, recv_, c.count, c.type, comm, stream);
      case tcOpAllGatherV:
        return tcAllGatherV(send_, recv_, recv_counts_, may_omit_ ? nullptr : recv_places_, c.type, comm, stream);
      case tcOpReduceScatterV:
        return tcReduceScatterV(send_, recv_, recv_counts_, c.type, c.reduction, comm, stream);
      default:
        return tcAllToAllV(send_, send_counts_, may_omit_ ? nullptr : send_places_, recv_, recv_counts_,
                           may_omit_ ? nullptr : recv_places_, c.type, comm, stream);
    }
  }

 private:
  // Element i of an all-to-all's block for rank `to` is number to * kApart + i of its source.
  static constexpr uint64_t kApart = uint64_t{1} << 32;

  // Blocks of uneven sizes, some empty, the largest of the case's count.
  size_t Uneven(int rank) const {
    const size_t n = case_.count;
    const size_t of[] = {n, 0, n / 2, std::min<size_t>(n, 3), n - n / 3};
    return of[(static_cast<uint64_t>(rank) + case_.seed) % 5];
  }
  size_t CountOfPair(int from, int to) const {
    if (case_.op == tcOpAllToAll) return case_.count;
    const uint64_t random = Mix(case_.seed * 977 + static_cast<uint64_t>(from * n_ranks_ + to));
    return random % 3 == 0 ? 0 : random % 3 == 1 ? case_.count : random % (case_.count + 1);
  }
  // Decides where blocks lie: packed, or the last one first and with gaps between. Ranks may differ.
  void ChoosePlaces(bool packed) {
    packed_ = packed;
    may_omit_ = packed && case_.seed % 4 < 2;
  }
  // Fills in the places and returns the elements from the first to behind the last block.
  size_t Place(const size_t* counts, size_t* places) const {
    size_t end = 0;
    for (int i = 0; i < n_ranks_; ++i) {
      const int block = packed_ ? i : n_ranks_ - 1 - i;
      places[block] = end;
      end += counts[block] + (packed_ ? 0 : 1 + (static_cast<uint64_t>(block) + case_.seed) % 3);
    }
    return end;
  }
  // Makes room for `elements` in a buffer and returns the address of the first one.
  unsigned char* MakeRoom(int buffer, size_t elements) {
    const size_t guard = kGuardBytes / size();
    // Odd, so that no element size makes a multiple of 16 bytes of it.
    const size_t shift = case_.misaligned ? 1 + 2 * static_cast<size_t>((rank_ + 3 * buffer) % 8) : 0;
    for (Buffers* each : {&before_, &after_}) {
      each->pictures[buffer].origin = guard + shift;
      each->pictures[buffer].cells = guard + shift + elements + guard;
    }
    return before_.memory[buffer] + (guard + shift) * size();
  }
  void Before(int buffer, const Block& block) { before_.pictures[buffer].Add(block); }
  void After(int buffer, const Block& block) { after_.pictures[buffer].Add(block); }
  void Always(int buffer, const Block& block) {
    Before(buffer, block);
    After(buffer, block);
  }

  void Gather() {
    const bool uneven = case_.op == tcOpAllGatherV;
    for (int peer = 0; peer < n_ranks_; ++peer) recv_counts_[peer] = uneven ? Uneven(peer) : case_.count;
    ChoosePlaces(!uneven || (case_.seed + static_cast<uint64_t>(rank_)) % 2 == 0);
    recv_ = MakeRoom(kRecv, Place(recv_counts_, recv_places_));
    const size_t own = recv_counts_[rank_];
    if (case_.in_place) {
      send_ = recv_ + recv_places_[rank_] * size();
      Before(kRecv, {recv_places_[rank_], own, 0, rank_});
    } else {
      send_ = MakeRoom(kSend, own);
      Always(kSend, {0, own, 0, rank_});
    }
    for (int peer = 0; peer < n_ranks_; ++peer) After(kRecv, {recv_places_[peer], recv_counts_[peer], 0, peer});
  }

  void Scatter() {
    for (int peer = 0; peer < n_ranks_; ++peer) {
      recv_counts_[peer] = case_.op == tcOpReduceScatterV ? Uneven(peer) : case_.count;
    }
    ChoosePlaces(true);
    const size_t total = Place(recv_counts_, recv_places_);
    const size_t first = recv_places_[rank_];
    const size_t own = recv_counts_[rank_];
    send_ = MakeRoom(kSend, total);
    Before(kSend, {0, total, 0, rank_});
    if (case_.in_place) {
      recv_ = send_ + first * size();
      After(kSend, {first, own, first, kAllRanks});
    } else {
      recv_ = MakeRoom(kRecv, own);
      After(kRecv, {0, own, first, kAllRanks});
    }
    After(kSend, {0, total, 0, rank_});  // behind the result, which goes before it where both are
  }

  void AllReduce() {
    recv_ = MakeRoom(kRecv, case_.count);
    const Block own = {0, case_.count, 0, rank_};
    if (case_.in_place) {
      send_ = recv_;
      Before(kRecv, own);
    } else {
      send_ = MakeRoom(kSend, case_.count);
      Always(kSend, own);
    }
    After(kRecv, {0, case_.count, 0, kAllRanks});
  }

  void Broadcast() {
    recv_ = MakeRoom(kRecv, case_.count);
    const Block data = {0, case_.count, 0, case_.root};
    if (case_.in_place) send_ = recv_;
    if (rank_ == case_.root) {
      if (case_.in_place) {
        Before(kRecv, data);
      } else {
        send_ = MakeRoom(kSend, case_.count);
        Always(kSend, data);
      }
    }
    After(kRecv, data);
  }

  void AllToAll() {
    for (int peer = 0; peer < n_ranks_; ++peer) {
      send_counts_[peer] = CountOfPair(rank_, peer);
      recv_counts_[peer] = CountOfPair(peer, rank_);
    }
    ChoosePlaces(case_.op == tcOpAllToAll || (case_.seed + static_cast<uint64_t>(rank_)) % 2 == 0);
    send_ = MakeRoom(kSend, Place(send_counts_, send_places_));
    recv_ = MakeRoom(kRecv, Place(recv_counts_, recv_places_));
    for (int peer = 0; peer < n_ranks_; ++peer) {
      Always(kSend, {send_places_[peer], send_counts_[peer], static_cast<uint64_t>(peer) * kApart, rank_});
      After(kRecv, {recv_places_[peer], recv_counts_[peer], static_cast<uint64_t>(rank_) * kApart, peer});
    }
  }

  const Case case_;
  const int rank_, n_ranks_;
  Buffers before_{}, after_{};
  unsigned char* send_ = nullptr;
  unsigned char* recv_ = nullptr;
  size_t send_counts_[TC_MAX_RANKS] = {}, send_places_[TC_MAX_RANKS] = {};
  size_t recv_counts_[TC_MAX_RANKS] = {}, recv_places_[TC_MAX_RANKS] = {};
  bool packed_ = true, may_omit_ = true;
};

}  // namespace tc::test
