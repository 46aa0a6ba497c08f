// Abort words: a rank tells itself and its peers that nothing more will come. Never taken back.
#pragma once

#include "protocol/layout.h"

namespace tc {

template <class Memory>
TC_HOST_DEVICE void PublishAbort(const RankView& view) {
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    Memory::StoreReleaseSys(&view.abort[peer]->from[view.rank].word, uint32_t{1});
  }
}

// The lowest rank that has aborted; -1 when none has.
template <class Memory>
TC_HOST_DEVICE int AbortedBy(const RankView& view) {
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    if (Memory::LoadAcquireSys(&view.abort[view.rank]->from[peer].word) != 0) return peer;
  }
  return -1;
}

}  // namespace tc
