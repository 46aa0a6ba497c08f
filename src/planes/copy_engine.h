// The copy-engine plane: a pull of which a copy engine does the loads, so that no SM is busy while bytes cross the
// link.
//
// A copy in a stream or graph runs whatever the kernels around it have found, and between addresses that the host knows
// when it launches. So it only ever writes this rank's own workspace, which does no harm when the operator was refused
// or the communicator has ended; and it reads what peers have staged in theirs, whatever buffers they were called with.
// An exchange is three parts in one stream: a kernel that enters the epoch, stages, and waits until all peers have
// staged; copies; a kernel that resumes the epoch, brings what was fetched to where it belongs, and leaves.
#pragma once

#include "order/exchange.h"

namespace tc {

// Bytes [from, from + bytes) of the producer's workspace go to `to` in this rank's.
struct Fetch {
  int producer;
  uint64_t from;
  uint64_t to;
  uint64_t bytes;
};

struct FetchedExchange {
  Exchange opening;
  Exchange closing;
  int fetches = 0;
  Fetch fetch[kMaxRanks] = {};
};

// The workspace has two halves: what this rank stages for its peers, and what it fetches from them.
constexpr uint64_t FetchedHalf(uint64_t workspace_bytes) { return workspace_bytes / 32 * 16; }

// `whole` as pulls do it, with all bytes staged, and `workspace` this rank's own. What goes in rounds waits for room
// between two of them, which copies cannot: the closing kernel does all of it, by loads.
inline FetchedExchange InThreeParts(const Exchange& whole, std::byte* workspace, uint64_t workspace_bytes, int rank,
                                    int n_ranks) {
  FetchedExchange parts{.opening = whole, .closing = whole};
  parts.opening.reduces = parts.opening.in_units = false;
  parts.opening.rounds = 1;
  parts.opening.pair[rank].to = {};
  parts.closing.shared = parts.closing.in_units = false;
  uint64_t fetched = FetchedHalf(workspace_bytes);
  for (int peer = 0; peer < n_ranks; ++peer) {
    if (peer == rank) continue;
    const ExchangePair& pair = whole.pair[peer];
    ExchangePair& opening = parts.opening.pair[peer];
    ExchangePair& closing = parts.closing.pair[peer];
    if (pair.to.in_rounds()) {
      opening.to = {};
    } else {
      closing.to = {};
    }
    if (pair.from.in_rounds()) {
      opening.from = {};
      continue;
    }
    opening.recv = workspace + fetched;
    opening.fetched = closing.fetched = opening.recv;  // in the opening kernel it is where it belongs
    if (pair.from.bytes == 0) continue;
    parts.fetch[parts.fetches++] = {peer, pair.staged_from, fetched, pair.from.bytes};
    fetched += StagedBytes(pair.from.bytes);
  }
  return parts;
}

}  // namespace tc
