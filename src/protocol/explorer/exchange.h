// Scenarios of exchanges, by the code that kernels run: planes/exchange.h over either plane, and by packets. Data is
// staged in its producer's workspace, or lies in its caller's buffer, or is reduced in place.
#pragma once

#include <memory>
#include <string>

#include "planes/exchange.h"
#include "protocol/explorer/block.h"
#include "protocol/explorer/explorer.h"

namespace tc::explorer {

struct ExchangeOptions {
  int ranks = 2;
  int chunks = 2;  // of a rank's data, one word each
  int blocks = 2;
  int epochs = 1;
  Sequence start = 0;
  uint32_t senders = ~0u;   // ranks, a bit each, that have data
  uint32_t registered = 0;  // the same: peers may read the caller's buffer itself
  bool in_place = false;    // an all-reduce in one shot, in place; else a gather, in which a rank's own block stays
  bool pushes = false;      // on the push plane
  int per_round = 0;        // chunks: a pair's data goes in rounds; 0: all at once
  bool by_packets = false;  // two for each chunk, which is a unit
  bool early = false;       // ranks enter when all have entered the epoch before
  bool last_is_largest = false;  // epochs before the last one have one chunk only
  bool one_resident = false;     // a grid's second block starts when the first has left; rank 1 has one block only
  Limits limits = Limits::kNever;
  int aborter = -1;   // a rank on which somebody calls tcCommAbort, at any time
  int deserter = -1;  // a rank that enters, and then does nothing more
  Mutation mutation = Mutation::kNone;

  int Blocks(int rank) const { return one_resident && rank == 1 ? 1 : blocks; }
  bool Sends(int rank) const { return (senders >> rank & 1) != 0; }
  bool IsRegistered(int rank) const { return (registered >> rank & 1) != 0; }
};

// The pull plane with the mistakes that it is asked for.
template <class Block>
class MistakenPull : public PullPlane<Block> {
 public:
  using Memory = typename Block::Memory;
  using Base = PullPlane<Block>;

  MistakenPull(const Block& block, const RankView& view, const Exchange& exchange, Sequence epoch)
      : Base(block, view, exchange, epoch), block_(block), view_(view), exchange_(exchange), epoch_(epoch) {}

  void Share(int chunk) const {
    for (int peer = 0; peer < view_.n_ranks && block_.mutation() == Mutation::kSignalBeforeData; ++peer) {
      RaiseWatermark<Memory>(view_, peer, chunk, epoch_);
    }
    Base::Share(chunk);
  }

  const std::byte* Arrived(int producer) const {
    if (block_.mutation() == Mutation::kAcknowledgeBeforeRead) Acknowledge<Memory>(view_, producer, epoch_);
    return Base::Arrived(producer);
  }

  void HaveRead(int producer) const {
    uint32_t* const taken = &view_.local->taken[producer];
    const auto chunks = static_cast<uint32_t>(exchange_.pair[producer].from.count);
    switch (block_.mutation()) {
      case Mutation::kAcknowledgeBeforeRead:
        return;
      case Mutation::kAcknowledgeByFirst: {
        const uint32_t before = Memory::AddAcqRelGpu(taken, uint32_t{1});
        if (before == 0) Acknowledge<Memory>(view_, producer, epoch_);
        if (before + 1 == chunks) Memory::StoreRelaxed(taken, uint32_t{0});
        return;
      }
      case Mutation::kAcknowledgeRelaxed:
        if (Elect<Memory>(taken, chunks)) {
          Memory::StoreRelaxed(&view_.control[producer]->acknowledgement[view_.rank].epoch, epoch_);
        }
        return;
      case Mutation::kElectionNotZeroed:
        if (Memory::AddAcqRelGpu(taken, uint32_t{1}) + 1 == chunks) Acknowledge<Memory>(view_, producer, epoch_);
        return;
      default:
        Base::HaveRead(producer);
    }
  }

  bool IsRead() const { return block_.mutation() != Mutation::kNoReaderWait && Base::IsRead(); }

 private:
  const Block& block_;
  const RankView& view_;
  const Exchange& exchange_;
  const Sequence epoch_;
};

// Packets of all epochs in one half.
struct OnePacketHalf {
  static uint64_t* Half(const RankView& view, int reader, int writer, Sequence) {
    return PacketHalf(view, reader, writer, 0);
  }
};

struct ExchangeBuffers {
  uint64_t* send[kMaxRanks] = {};  // the callers'
  uint64_t* recv[kMaxRanks] = {};
  uint64_t* workspace[kMaxRanks] = {};
  uint64_t* arrivals[kMaxRanks] = {};  // of each block, a word of each rank
  uint64_t* left[kMaxRanks] = {};      // operators that a rank's first block has left
  int grid[kMaxRanks] = {};            // barrier: a kernel starts when what was before it in its stream has ended
};

// The one thread of a block of a kernel, for planes/exchange.h. PieceMemory: by which it moves and signals.
template <class BlockMemory, class PieceMemory>
struct ExchangeThread {
  using Memory = PieceMemory;

  Block<BlockMemory>& block;
  const ExchangeOptions& options;
  const ExchangeBuffers& buffers;

  Mutation mutation() const { return options.mutation; }
  Sequence Epoch() const { return block.epoch(); }
  int lane() const { return 0; }
  int lanes() const { return 1; }
  void Sync() const {}
  bool All(bool fine) const { return fine; }
  void Pause() const {}
  void Copy(std::byte* to, const std::byte* from, uint64_t bytes) const {
    for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) WriteData<Memory>(Word(to + at), Read(from + at));
  }
  template <class Source>
  void Reduce(const Source& source, std::byte* to, uint64_t bytes) const {
    for (uint64_t at = 0; at < bytes; at += sizeof(uint64_t)) {
      uint64_t sum = 0;
      for (int rank = 0; rank < block.view().n_ranks; ++rank) sum += Read(source(rank) + at);
      WriteData<Memory>(Word(to + at), sum);
    }
  }
  Destination DestinationOf(int rank) const {
    if (options.registered == 0) return {};  // known without a look
    return ReadData<Memory>(&EntryOf(block.view(), block.rank(), rank, block.epoch()).destination);
  }
  std::byte* InWindow(const Destination& destination, int rank) const {
    return reinterpret_cast<std::byte*>(buffers.send[rank]) + destination.offset;
  }
  bool AwaitChunk(int producer, int chunk) const {
    if (options.per_round > 0) {
      const int round = chunk / options.per_round;
      const auto supplied = [&] { return IsSupplied<Memory>(block.view(), producer, block.epoch(), round); };
      return block.AwaitSlot("rank " + std::to_string(producer) + "'s round " + std::to_string(round), producer,
                             supplied);
    }
    const auto arrived = [&] { return HasArrived<Memory>(block.view(), producer, chunk, block.epoch()); };
    return block.AwaitSlot("rank " + std::to_string(producer) + "'s chunk " + std::to_string(chunk), producer, arrived);
  }
  bool AwaitRoom(int consumer, int round) const {
    if (mutation() == Mutation::kNoCredit) return true;
    const auto room = [&] { return HasRoom<Memory>(block.view(), consumer, block.epoch(), round); };
    return block.AwaitSlot("room for round " + std::to_string(round), consumer, room);
  }
  // A half of a word of data.
  uint32_t LoadWord(const std::byte* from, uint32_t) const {
    return static_cast<uint32_t>(Read(Aligned(from)) >> ShiftOf(from));
  }
  void StoreWord(std::byte* to, uint32_t word, uint32_t) const {
    const uint64_t other = Read(Aligned(to)) & ~(uint64_t{0xffffffff} << ShiftOf(to));
    WriteData<Memory>(Word(Aligned(to)), other | uint64_t{word} << ShiftOf(to));
  }
  uint64_t AwaitPacket(int producer, uint32_t packet, const uint64_t* place) const {
    uint64_t seen = 0;
    const auto come = [&] {
      if (!IsPacketOf(seen, block.epoch())) seen = LookAtPacket<Memory>(place);
      return IsPacketOf(seen, block.epoch());
    };
    const std::string what = "packet " + std::to_string(packet) + " of rank " + std::to_string(producer);
    return block.AwaitSlot(what, producer, come) ? seen : 0;
  }
  std::byte* Arrivals() const {
    return reinterpret_cast<std::byte*>(buffers.arrivals[block.rank()] + block.index() * block.view().n_ranks);
  }
  bool AwaitReader(int reader) const {
    const Sequence epoch = block.epoch() - (mutation() == Mutation::kAcknowledgementOfBefore ? 1 : 0);
    const auto read = [&] { return HasAcknowledged<Memory>(block.view(), reader, epoch); };
    return block.AwaitSlot("rank " + std::to_string(reader) + "'s acknowledgement", reader, read);
  }

 private:
  static uint64_t* Word(std::byte* at) { return reinterpret_cast<uint64_t*>(at); }
  static unsigned ShiftOf(const std::byte* at) { return reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t) * 8; }
  template <class Byte>
  static Byte* Aligned(Byte* at) {
    return at - reinterpret_cast<uintptr_t>(at) % sizeof(uint64_t);
  }
  static uint64_t Read(const std::byte* at) { return ReadData<Memory>(reinterpret_cast<const uint64_t*>(at)); }
};

// One block's part in the operators of a rank, and, in block 0, its caller's: who fills the buffer before each, and
// looks at the result.
template <class Memory, class PieceMemory>
class ExchangeBlock {
 public:
  ExchangeBlock(const ExchangeOptions& options, const ExchangeBuffers& buffers, const RankView& view, int index)
      : options_(options), buffers_(buffers), view_(view), index_(index) {}

  uint64_t Run() {
    for (number_ = 0; number_ < options_.epochs; ++number_) {
      Memory::Forget(ending_ << 8 | static_cast<uint64_t>(number_));
      if (index_ == 0) Fill();
      Memory::SyncThreads(buffers_.grid[view_.rank]);
      if (!RunOne()) return ending_;
      Memory::SyncThreads(buffers_.grid[view_.rank]);
      if (index_ == 0) Check();
    }
    if (index_ == 0) Fill();
    return ending_;
  }

 private:
  using Thread = ExchangeThread<Memory, PieceMemory>;

  uint64_t Content(int rank, int chunk) const {
    if (!options_.Sends(rank)) return 0;
    return (options_.start + static_cast<uint64_t>(number_)) * 1000 + static_cast<uint64_t>(rank * 100 + chunk + 1);
  }
  int Chunks() const { return options_.last_is_largest && number_ + 1 < options_.epochs ? 1 : options_.chunks; }
  // A caller that has seen its communicator end leaves registered buffers alone.
  bool HasEnded() const { return Memory::LoadRelaxed(&view_.local->dead) != 0; }

  void Fill() const {
    if (!options_.Sends(view_.rank) || HasEnded()) return;
    for (int chunk = 0; chunk < options_.chunks; ++chunk) {
      WriteData<Memory>(&buffers_.send[view_.rank][chunk], Content(view_.rank, chunk));
    }
  }

  // Where a rank's data comes, in its place among all ranks'.
  uint64_t* Gathered(int rank) const { return buffers_.recv[view_.rank] + rank * options_.chunks; }

  void Check() const {
    if (HasEnded()) return;
    for (int chunk = 0; chunk < Chunks(); ++chunk) {
      uint64_t sum = 0;
      for (int rank = 0; rank < view_.n_ranks; ++rank) {
        sum += Content(rank, chunk);
        if (options_.in_place || rank == view_.rank || !options_.Sends(rank)) continue;
        Expect(&Gathered(rank)[chunk], Content(rank, chunk));
      }
      if (options_.in_place) Expect(&buffers_.send[view_.rank][chunk], sum);
    }
    const LocalBlock& local = *view_.local;
    bool zeroed = Memory::LoadRelaxed(&local.moves) == 0;
    for (int rank = 0; rank < view_.n_ranks; ++rank) {
      zeroed = Memory::LoadRelaxed(&local.taken[rank]) == 0 && zeroed;
      for (int half = 0; half < 2 && options_.per_round > 0; ++half) {
        zeroed = Memory::LoadRelaxed(&local.round_supplied[rank][half]) == 0 && zeroed;
        zeroed = Memory::LoadRelaxed(&local.round_taken[rank][half]) == 0 && zeroed;
      }
    }
    if (!zeroed) Memory::Fail("a counter is left as it was");
  }
  static void Expect(const uint64_t* place, uint64_t wanted) {
    if (ReadData<Memory>(place) != wanted) Memory::Fail("has the data of another epoch or rank");
  }

  Exchange MakeExchange() const {
    const auto bytes = [](uint64_t* words) { return reinterpret_cast<std::byte*>(words); };
    const uint64_t chunk_bytes = sizeof(uint64_t);
    const uint64_t all_bytes = static_cast<uint64_t>(Chunks()) * chunk_bytes;
    PairChunks all{all_bytes, chunk_bytes, Chunks()};
    if (options_.per_round > 0) all.per_round = options_.per_round;
    Exchange exchange{.shared = options_.per_round == 0,
                      .reduces = options_.in_place,
                      .in_units = options_.in_place,
                      .rounds = all.rounds()};
    if (options_.mutation == Mutation::kReducedBesideShared) exchange.in_units = false;
    std::byte* const send = bytes(buffers_.send[view_.rank]);
    for (int peer = 0; peer < view_.n_ranks; ++peer) {
      exchange.pair[peer] = {.send = send,
                             .recv = bytes(Gathered(peer)),
                             .to = options_.Sends(view_.rank) ? all : PairChunks{},
                             .from = options_.Sends(peer) ? all : PairChunks{},
                             .staged_to = options_.pushes ? view_.rank * all_bytes : 0,
                             .staged_from = options_.pushes ? peer * all_bytes : 0};
    }
    exchange.pair[view_.rank].to = {};
    if (options_.by_packets) {
      exchange.unit_packets = chunk_bytes / kPacketBytes;
      exchange.packets = static_cast<uint32_t>(Chunks()) * exchange.unit_packets;
    }
    if (options_.in_place) exchange.pair[view_.rank].recv = send;
    return exchange;
  }

  // False: no more is heard of this block.
  bool RunOne() {
    const int blocks = options_.Blocks(view_.rank);
    Block<Memory> block(view_, index_, blocks, options_.mutation);
    if (options_.one_resident && index_ > 0) {
      const auto free = [&] {
        return Memory::LoadAcquireGpu(buffers_.left[view_.rank]) > static_cast<uint64_t>(number_);
      };
      block.Await("a free SM", free, UINT64_MAX);
    }
    if (options_.IsRegistered(view_.rank)) block.set_destination({.window = 0, .offset = 0});
    OperatorShape shape;
    shape.op = tcOpAllGather;
    if (options_.by_packets) block.set_packets(2 * options_.chunks);
    const bool entered = block.Enter(shape, options_.early || options_.mutation == Mutation::kEarlyOneBuffer);
    if (options_.deserter == view_.rank) return false;
    if (entered) {
      const Exchange exchange = MakeExchange();
      const Thread thread{block, options_, buffers_};
      if (options_.by_packets && options_.mutation == Mutation::kOnePacketHalf) {
        MoveByPackets(block, exchange, PacketPlane<Thread, OnePacketHalf>(thread, view_, exchange, block.epoch()),
                      thread);
      } else if (options_.by_packets) {
        MoveByPackets(block, exchange, PacketPlane<Thread>(thread, view_, exchange, block.epoch()), thread);
      } else if (options_.pushes) {
        Move(block, exchange, thread, PushPlane<Thread>(thread, view_, exchange, block.epoch()));
      } else {
        Move(block, exchange, thread, MistakenPull<Thread>(thread, view_, exchange, block.epoch()));
      }
    }
    ending_ = block.ending();
    block.Leave();
    if (options_.one_resident && index_ == 0) {
      Memory::StoreReleaseGpu(buffers_.left[view_.rank], static_cast<uint64_t>(number_ + 1));
    }
    return true;
  }

  template <class Plane>
  void Move(const Block<Memory>& block, const Exchange& exchange, const Thread& thread, const Plane& plane) {
    const ExchangeSteps<Thread, Plane> steps(thread, plane, view_, exchange);
    for (bool more = true; more;) {
      Memory::Forget(block.epoch() << 8 | static_cast<uint64_t>(number_) << 1 | 0x80);
      const bool ended = HasEnded();
      const auto claimed = static_cast<int>(Memory::AddRelaxedGpu(&view_.local->moves, uint32_t{1}));
      if (ended) return;
      more = exchange.in_units     ? steps.CarryOutUnit(claimed)
             : exchange.rounds > 1 ? steps.CarryOut(steps.MoveInRounds(claimed))
                                   : steps.CarryOut(MoveAt(view_.rank, view_.n_ranks, claimed, steps.pieces()));
    }
  }

  template <class Plane>
  void MoveByPackets(const Block<Memory>& block, const Exchange& exchange, const Plane& plane, const Thread& thread) {
    const ExchangeSteps<Thread, Plane> steps(thread, plane, view_, exchange);
    const auto blocks = static_cast<uint32_t>(block.blocks());
    uint32_t unit = block.ticket();
    steps.RunByPackets(unit, blocks, [&] {
      if (options_.mutation == Mutation::kUnitsByStride) return unit += blocks;
      Memory::Forget(block.epoch() << 8 | static_cast<uint64_t>(number_) << 1 | 0x80);
      const bool ended = HasEnded();
      const uint32_t ticket = Arrive<Memory>(*view_.local).ticket;
      return ended ? UINT32_MAX : ticket;
    });
  }

  const ExchangeOptions& options_;
  const ExchangeBuffers& buffers_;
  RankView view_;
  int index_;
  int number_ = 0;
  uint64_t ending_ = kFinished;
};

template <class Memory, class PieceMemory>
World ExchangeWorld(const ExchangeOptions& options) {
  World world(options.ranks, options.limits);
  auto buffers = std::make_shared<ExchangeBuffers>();
  const auto words = static_cast<size_t>(options.chunks);
  for (int rank = 0; rank < options.ranks; ++rank) {
    world.AddControl(rank, options.start);
    buffers->send[rank] = world.NewArray<uint64_t>(rank, "send", words);
    buffers->recv[rank] = world.NewArray<uint64_t>(rank, "recv", options.ranks * words);
    buffers->workspace[rank] = world.NewArray<uint64_t>(rank, "workspace", options.ranks * words);
    buffers->arrivals[rank] =
        world.NewArray<uint64_t>(rank, "arrivals", static_cast<size_t>(options.blocks * options.ranks));
    buffers->left[rank] = world.NewArray<uint64_t>(rank, "left", 1);
    buffers->grid[rank] = world.AddBarrier(options.Blocks(rank));
    if (!options.by_packets || !options.last_is_largest) continue;
    // Left behind long ago where the last epoch's second chunk goes, with the same tag.
    const Sequence last = options.start + static_cast<Sequence>(options.epochs);
    for (int writer = 0; writer < options.ranks && ScrubIsDue(last); ++writer) {
      PacketHalf(world.view(rank), rank, writer, last)[2] = MakePacket(last, 666);
    }
  }
  const auto shared = std::make_shared<const ExchangeOptions>(options);
  for (int rank = 0; rank < options.ranks; ++rank) {
    RankView view = world.view(rank);
    for (int peer = 0; peer < options.ranks; ++peer) {
      view.workspace[peer] = reinterpret_cast<std::byte*>(buffers->workspace[peer]);
    }
    if (rank == options.aborter) {
      world.AddThread(rank, "aborting thread", [=]() -> uint64_t {
        PublishAbort<Memory>(view);
        return kFinished;
      });
    }
    for (int index = 0; index < options.Blocks(rank); ++index) {
      world.AddThread(rank, "block " + std::to_string(index),
                      [=] { return ExchangeBlock<Memory, PieceMemory>(*shared, *buffers, view, index).Run(); });
    }
  }
  return world;
}

}  // namespace tc::explorer
