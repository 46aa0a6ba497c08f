// Abort words: a rank tells itself and its peers that nothing more will come. Never taken back.
#pragma once

#include "protocol/layout.h"

namespace tc {

inline constexpr uint32_t kAbortCalled = 1;   // the writer was told to abort
inline constexpr uint32_t kEnded = 2;         // an error of its own ended the writer
inline constexpr uint32_t kPeerDied = 0x100;  // plus the rank whose death the writer saw

template <class Memory>
TC_HOST_DEVICE void PublishAbort(const RankView& view, uint32_t word = kAbortCalled) {
  for (int peer = 0; peer < view.n_ranks; ++peer) {
    Memory::StoreReleaseSys(&view.abort[peer]->from[view.rank].word, word);
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

// What this rank reports because of what rank `by` wrote.
template <class Memory>
TC_HOST_DEVICE uint32_t AbortWord(const RankView& view, int by) {
  return Memory::LoadAcquireSys(&view.abort[view.rank]->from[by].word);
}
TC_HOST_DEVICE constexpr tcResult_t AbortCode(uint32_t word) {
  return word == kAbortCalled ? tcAborted : tcRemoteError;
}

// Whether `peer` has destroyed its communicator in good order: it will not enter another operator.
template <class Memory>
TC_HOST_DEVICE bool HasLeft(const RankView& view, int peer) {
  return Memory::LoadAcquireSys(&view.abort[view.rank]->from[peer].left) != 0;
}

}  // namespace tc
