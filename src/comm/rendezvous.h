// How the ranks of one id find each other: rank 0 gathers, every other rank joins.
//
//   joiner -> rank 0   kHello    magic, protocol version, joiner_secret
//   rank 0 -> joiner   kHello    magic, protocol version, root_secret, the time that rank 0 has left
//   joiner -> rank 0   kRank     rank, n_ranks, fingerprint
//   rank 0 -> joiner   kVerdict  code, sentence: the same for all, once all have joined or one thing is wrong
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "base/status.h"
#include "comm/bootstrap.h"
#include "comm/channel.h"

namespace tc {

enum FrameType : uint32_t { kHello = 1, kRank, kVerdict, kCall, kArrived, kOutcome };

// Its layout stays as it is in every version, so that any two versions can tell each other which they are.
struct Hello {
  static constexpr uint32_t kVersion = 1;
  std::array<char, 8> magic = {'t', 'i', 'l', 'e', 'c', 'o', 'm', 'm'};
  uint32_t version = kVersion;
  uint32_t left_ms = 0;
  std::array<uint8_t, 32> secret{};
};

std::string VerdictBody(const Status& verdict);
Status VerdictOf(const Frame& frame);  // tcInternalError when it is no verdict

// "rank 2", "ranks 2 and 5", "ranks 1, 2 and 5"
std::string NameRanks(const std::vector<int>& ranks);

// Rank 0's part: (*peers)[r] leads to rank r, [0] is empty. Every rank that joined gets the same verdict.
Status GatherRanks(const Bootstrap::Options& options, std::vector<std::unique_ptr<Channel>>* peers);

// The part of every other rank.
Status JoinRankZero(const Bootstrap::Options& options, std::unique_ptr<Channel>* rank_zero);

// How much longer than rank 0's own limit a rank waits for what rank 0 says when that limit has passed.
inline constexpr std::chrono::milliseconds kVerdictGrace{1000};

}  // namespace tc
