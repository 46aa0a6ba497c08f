// The push plane: the producer stores into the consumer's memory.
#pragma once

#include "order/exchange.h"
#include "protocol/watermark.h"

namespace tc {

// One epoch's data as the threads of a Block move it: see planes/exchange.h.
template <class Block>
class PushPlane {
 public:
  using Memory = typename Block::Memory;

  TC_HOST_DEVICE PushPlane(const Block& block, const RankView& view, const Exchange& exchange, Sequence epoch)
      : block_(block), view_(view), exchange_(exchange), epoch_(epoch) {}

  // Whether what is alike for all peers is moved once.
  static constexpr bool kShares = false;

  // A chunk to one peer.
  TC_HOST_DEVICE void Supply(int consumer, int chunk) const {
    Place(consumer, chunk);
    block_.Sync();  // all threads' stores, then one release that covers them (P4)
    if (block_.lane() == 0) RaiseWatermark<Memory>(view_, consumer, chunk, epoch_);
  }

  // The same chunk to all peers.
  TC_HOST_DEVICE void Share(int chunk) const {
    for (int step = 0; step + 1 < view_.n_ranks; ++step) {
      Place(PushDestination(view_.rank, step, view_.n_ranks), chunk);
    }
    block_.Sync();
    for (int peer = block_.lane(); peer < view_.n_ranks; peer += block_.lanes()) {
      if (peer != view_.rank) RaiseWatermark<Memory>(view_, peer, chunk, epoch_);
    }
  }

  // Where a producer's bytes lie once their watermarks say so: where they belong, or where they are staged.
  TC_HOST_DEVICE const std::byte* Arrived(int producer) const {
    const ExchangePair& pair = exchange_.pair[producer];
    const bool direct = block_.DestinationOf(view_.rank).window >= 0;
    return direct ? pair.recv : view_.workspace[view_.rank] + pair.staged_from;
  }

  // Nobody but this rank reads what arrives here, so it tells nobody that it has.
  TC_HOST_DEVICE void HaveRead(int /*producer*/) const {}
  TC_HOST_DEVICE bool IsRead() const { return false; }

  // Puts a chunk where the consumer finds it, and says nothing.
  TC_HOST_DEVICE void Place(int consumer, int chunk) const {
    const ExchangePair& pair = exchange_.pair[consumer];
    const Destination destination = block_.DestinationOf(consumer);
    std::byte* const to = destination.window < 0 ? view_.workspace[consumer] + pair.staged_to
                                                 : block_.InWindow(destination, consumer) + pair.direct;
    const RowRange range = pair.to.range(chunk);
    const uint64_t at = destination.window < 0 ? pair.to.staged_at(chunk) : range.begin;
    block_.Copy(to + at, pair.send + range.begin, range.end - range.begin);
  }

 private:
  const Block& block_;
  const RankView& view_;
  const Exchange& exchange_;
  const Sequence epoch_;
};

}  // namespace tc
