// The pull plane: the consumer loads from the producer's memory.
#pragma once

#include "order/exchange.h"
#include "protocol/acknowledgement.h"
#include "protocol/election.h"
#include "protocol/watermark.h"

namespace tc {

// One epoch's data as the threads of a Block move it: see planes/exchange.h.
//
// A watermark goes to the consumer while the data stays here. That is no announcement of somebody else's data (P6): the
// data lies in this rank's own memory when the watermark leaves, and a consumer that has seen it asks here.
template <class Block>
class PullPlane {
 public:
  using Memory = typename Block::Memory;

  TC_HOST_DEVICE PullPlane(const Block& block, const RankView& view, const Exchange& exchange, Sequence epoch)
      : block_(block), view_(view), exchange_(exchange), epoch_(epoch) {}

  static constexpr bool kShares = true;

  TC_HOST_DEVICE void Supply(int consumer, int chunk) const {
    Place(consumer, chunk);
    block_.Sync();  // all threads' stores, then one release that covers them (P4)
    if (block_.lane() == 0) RaiseWatermark<Memory>(view_, consumer, chunk, epoch_);
  }

  TC_HOST_DEVICE void Share(int chunk) const {
    if (view_.n_ranks > 1) Place(ArrivalSource(view_.rank, 0, view_.n_ranks), chunk);  // all pairs stage in one place
    block_.Sync();
    for (int peer = block_.lane(); peer < view_.n_ranks; peer += block_.lanes()) {
      if (peer != view_.rank) RaiseWatermark<Memory>(view_, peer, chunk, epoch_);
    }
  }

  // Puts a chunk where the consumer finds it, and says nothing.
  TC_HOST_DEVICE void Place(int consumer, int chunk) const {
    if (IsRead()) return;
    const ExchangePair& pair = exchange_.pair[consumer];
    const RowRange range = pair.to.range(chunk);
    block_.Copy(view_.workspace[view_.rank] + pair.staged_to + pair.to.staged_at(chunk), pair.send + range.begin,
                range.end - range.begin);
  }

  TC_HOST_DEVICE const std::byte* Arrived(int producer) const {
    const ExchangePair& pair = exchange_.pair[producer];
    if (pair.fetched != nullptr) return pair.fetched;
    const Destination source = SourceOf(producer);
    return source.window < 0 ? view_.workspace[producer] + pair.staged_from
                             : block_.InWindow(source, producer) + pair.direct;
  }

  // Called by one thread for each chunk of a producer's, behind a Sync after the last thread has read it. What was
  // staged needs no word: whoever enters the next epoch has read it (P8).
  TC_HOST_DEVICE void HaveRead(int producer) const {
    if (SourceOf(producer).window < 0) return;
    const auto chunks = static_cast<uint32_t>(exchange_.pair[producer].from.count);
    if (Elect<Memory>(&view_.local->taken[producer], chunks)) Acknowledge<Memory>(view_, producer, epoch_);
  }

  // Whether peers read a buffer of this rank's caller.
  TC_HOST_DEVICE bool IsRead() const { return SourceOf(view_.rank).window >= 0; }

 private:
  TC_HOST_DEVICE Destination SourceOf(int producer) const { return block_.DestinationOf(producer); }

  const Block& block_;
  const RankView& view_;
  const Exchange& exchange_;
  const Sequence epoch_;
};

}  // namespace tc
