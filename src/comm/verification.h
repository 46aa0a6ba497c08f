// Whether ranks reach each other's memory and get the bytes that were sent, found out before any operator relies on it.
// It can be wrong in silence: posted writes that ACS or an IOMMU drops, copy engines that are right where stores are
// lost, success codes over wrong data.
//
// All ranks go through the same steps together and meet after each. A step moves a pattern one way, or compares what
// has come of it; who compares says which peers' data was wrong.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "base/status.h"
#include "protocol/layout.h"

namespace tc {

enum class PeerCheck : int {
  kStores,      // by SMs, into a peer's memory
  kBulkStores,  // the same from shared memory, by the async proxy
  kLoads,       // by SMs, from a peer's memory
  kCopies,      // by a copy engine, from a peer's memory
  kFlags,       // data and then its flag, by several blocks of which an elected one signals
};
inline constexpr int kPeerChecks = 5;
// "stores", "bulk_stores", ...
const char* CheckName(PeerCheck check);

struct CheckStep {
  PeerCheck check;
  bool compares;
  uint64_t bytes;  // from each rank to each other, a multiple of 16
  uint64_t seed;   // grows from step to step
};
// Of a whole verification, in order.
const std::vector<CheckStep>& CheckSteps();

// What a rank shares for it: a place for each producer's data, one for its own that peers fetch, places to fetch to,
// flags, and words that it alone uses.
struct CheckArea {
  static constexpr uint64_t kBytes = uint64_t{256} << 10;  // of a place
  static constexpr int kFlagRounds = 64;

  int rank = 0;
  int n_ranks = 1;
  std::byte* base[kMaxRanks] = {};

  static constexpr uint64_t TotalBytes(int n_ranks) {
    return (2 * n_ranks + 1) * kBytes + (kMaxRanks + 1) * kWriterStride;
  }
  TC_HOST_DEVICE std::byte* Received(int owner, int producer) const { return base[owner] + producer * kBytes; }
  TC_HOST_DEVICE std::byte* Offered(int owner) const { return base[owner] + n_ranks * kBytes; }
  TC_HOST_DEVICE std::byte* Fetched(int producer) const { return base[rank] + (n_ranks + 1 + producer) * kBytes; }
  TC_HOST_DEVICE Sequence* Flag(int owner, int producer) const {
    return reinterpret_cast<Sequence*>(base[owner] + (2 * n_ranks + 1) * kBytes + producer * kWriterStride);
  }
  // Zero: whose data was wrong, and for each peer an election.
  TC_HOST_DEVICE uint32_t* Wrong() const { return reinterpret_cast<uint32_t*>(Flag(rank, kMaxRanks)); }
  TC_HOST_DEVICE uint32_t* Election(int peer) const { return Wrong() + 1 + peer; }
};
static_assert((kMaxRanks + 1) * sizeof(uint32_t) <= kWriterStride);

// Word `index` of what `producer` sends in a step: splitmix64's finaliser (Steele, Lea, Flood 2014).
TC_HOST_DEVICE inline uint64_t CheckWord(uint64_t seed, int producer, uint64_t index) {
  uint64_t z = (seed << 40 | static_cast<uint64_t>(producer) << 32 | index) * 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

// Bit r stands for rank r.
using RankSet = uint16_t;
static_assert(kMaxRanks <= 16);

struct PeerVerdicts {
  RankSet wrong[kPeerChecks][kMaxRanks] = {};  // for each rank that compared: whose data was wrong

  void Fail(PeerCheck check, int from, int to) {
    wrong[static_cast<int>(check)][to] |= static_cast<RankSet>(1u << from);
  }
  void Add(const PeerVerdicts& other) {
    for (int check = 0; check < kPeerChecks; ++check) {
      for (int rank = 0; rank < kMaxRanks; ++rank) wrong[check][rank] |= other.wrong[check][rank];
    }
  }
  bool fine() const { return *this == PeerVerdicts{}; }
  bool operator==(const PeerVerdicts& other) const = default;
};

// Why a plane must not be used, with the ranks and the usual cause: "" where it may.
std::string WhyFailed(const PeerVerdicts& verdicts, tcPlane_t plane);

// "stores:0-1,flags:2-0": checks that are to fail, from which rank to which. For tests.
bool ParseCheckFailures(const std::string& text, PeerVerdicts* verdicts);

// What was found right is remembered on disk, a file for each key: all that it depends on, as text. What was wrong is
// not, so that a cure is noticed at once. A file that is somebody else's or makes no sense is none. Where the directory
// cannot be written nothing is remembered.
bool IsRemembered(const std::string& directory, const std::string& key);
void Remember(const std::string& directory, const std::string& key);
// TC_CACHE_DIR, else the user's cache directory (XDG_CACHE_HOME or HOME); "" where there is none.
std::string CacheDirectory(const std::string& asked);

// For the way to the other ranks.
std::string Pack(const PeerVerdicts& verdicts);
bool Unpack(const std::string& packed, PeerVerdicts* verdicts);

}  // namespace tc
