// The scenarios by name: what the tests explore, and what mutations must be caught by.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "protocol/explorer/copies.h"
#include "protocol/explorer/exchange.h"
#include "protocol/explorer/gather.h"
#include "protocol/explorer/parts.h"

namespace tc::explorer {

struct NamedScenario {
  std::string name;
  // With a memory policy's mistakes built in, from an epoch on, with a mutation.
  std::function<World(Sequence start, Mutation mutation)> build;
};

// Of worlds with such options: given these, how to build one from an epoch on, with a mutation.
template <class Options>
auto Variants(World (*build)(const Options&)) {
  return [build](const Options& options) {
    return [build, options](Sequence start, Mutation mutation) {
      Options mine = options;
      mine.start = start;
      mine.mutation = mutation;
      return build(mine);
    };
  };
}

// PieceMemory: the policy by which exchanges move and signal.
template <class Memory, class PieceMemory = Memory>
std::vector<NamedScenario> AllScenarios() {
  const Operation barrier{Kind::kBarrier, 0, 1};
  const Operation meet_pair{Kind::kBarrier, 0, 2};
  const Operation gather{Kind::kGather, 2, 2};
  const Operation narrow{Kind::kGather, 1, 1};
  const Operation pair{Kind::kGather, 1, 2};
  const Operation claimed{Kind::kClaimed, 2, 2};
  const Operation claimed_one{Kind::kClaimed, 1, 2};
  const Operation both_ways{Kind::kBothWays, 1, 2};
  const Operation broadcast{Kind::kBroadcast, 1, 1};
  const auto gathers = Variants(GatherWorld<Memory>);
  const auto part = [](const std::function<World(const PartOptions&)>& build, int epochs) {
    return [=](Sequence start, Mutation mutation) {
      return build({.start = start, .epochs = epochs, .mutation = mutation});
    };
  };
  const auto exchange = Variants(ExchangeWorld<Memory, PieceMemory>);
  const auto copies = Variants(CopiesWorld<Memory>);
  return {
      {"barrier, 3 ranks, 3 epochs", gathers({.ranks = 3, .operations = {barrier, barrier, barrier}})},
      {"push with election, 2 ranks, 2 epochs, 2 blocks, 2 chunks", gathers({.operations = {gather, gather}})},
      {"the same, staging halves entered early", gathers({.operations = {gather, gather}, .early = true})},
      {"push, 3 ranks, 2 epochs", gathers({.ranks = 3, .operations = {narrow, narrow}})},
      {"push, chunks claimed by blocks, 1 chunk", gathers({.operations = {claimed_one, claimed_one}})},
      {"push, chunks claimed by blocks, 2 chunks", gathers({.operations = {claimed}})},
      {"push, one block resident at a time", gathers({.operations = {claimed, claimed}, .one_resident = true})},
      {"push, both directions claimed at once", gathers({.operations = {both_ways, both_ways}})},
      {"the same, one block resident at a time", gathers({.operations = {both_ways, both_ways}, .one_resident = true})},
      {"mixed: gather, barrier, other gather", gathers({.operations = {gather, barrier, narrow}})},
      {"mixed, staging halves", gathers({.operations = {gather, narrow, gather}, .early = true})},
      {"broadcast, 3 ranks, 4 epochs, root ahead",
       gathers({.ranks = 3, .operations = {broadcast, broadcast, broadcast, broadcast}, .early = true})},
      {"two operators that nothing orders", gathers({.ranks = 1, .operations = {meet_pair, barrier}, .overlap = true})},
      {"shapes differ", gathers({.operations = {gather, barrier}, .differ = true})},
      {"abort in mid-push", gathers({.operations = {pair, pair}, .aborter = 1})},
      {"the same, then memory is freed", gathers({.operations = {pair}, .freed = true, .aborter = 1})},
      {"a rank dies, its abort word is set",
       gathers({.ranks = 3, .operations = {barrier, narrow}, .absent = 2, .aborter = 2})},
      {"a rank never comes",
       gathers({.ranks = 3, .operations = {barrier, narrow}, .limits = Limits::kWhenStuck, .absent = 2})},
      {"time limits pass at any time", gathers({.operations = {narrow, narrow}, .limits = Limits::kAnytime})},
      {"gates with padding", part(GateWorld<Memory>, 2)},
      {"credits, 5 pieces in a ring of 2", part(CreditWorld<Memory>, 0)},
      {"bulk copies", part([](const PartOptions& options) { return BulkWorld<Memory>(options, false); }, 2)},
      {"copy engine", part([](const PartOptions& options) { return BulkWorld<Memory>(options, true); }, 2)},
      {"pull, staged, 2 epochs", exchange({.epochs = 2, .senders = 0b01})},
      {"pull, staged, both ways, 2 epochs of 1 chunk", exchange({.chunks = 1, .epochs = 2})},
      {"pull, from a caller's buffer, 2 epochs", exchange({.epochs = 2, .senders = 0b01, .registered = 0b01})},
      {"pull, one from its buffer, one staged, 2 chunks", exchange({.registered = 0b01})},
      {"the same, 2 epochs of 1 chunk", exchange({.chunks = 1, .epochs = 2, .registered = 0b01})},
      {"pull, 3 ranks, 2 from their buffers, 2 epochs",
       exchange({.ranks = 3, .chunks = 1, .blocks = 1, .epochs = 2, .registered = 0b011})},
      {"abort in mid-pull", exchange({.senders = 0b01, .registered = 0b01, .aborter = 1})},
      {"pull, a reader never acknowledges",
       exchange({.senders = 0b01, .registered = 0b01, .limits = Limits::kWhenStuck, .deserter = 1})},
      {"pushed in rounds of 1 chunk, 4 rounds, 2 epochs",
       exchange({.chunks = 4, .blocks = 1, .epochs = 2, .senders = 0b01, .pushes = true, .per_round = 1})},
      {"pulled in rounds of 1 chunk, 4 rounds, 2 epochs",
       exchange({.chunks = 4, .blocks = 1, .epochs = 2, .senders = 0b01, .per_round = 1})},
      {"pushed in rounds of 2 chunks, 2 rounds",
       exchange({.chunks = 3, .senders = 0b01, .pushes = true, .per_round = 2})},
      {"all-reduce in one shot, in place, pulled", exchange({.in_place = true})},
      {"all-reduce in one shot, in place, pushed", exchange({.in_place = true, .pushes = true})},
      {"packets, 2 ranks of 2 blocks, 2 units", exchange({.by_packets = true})},
      {"packets, 2 epochs of 1 unit", exchange({.chunks = 1, .epochs = 2, .by_packets = true})},
      {"packets, entered early, 3 epochs",
       exchange({.blocks = 1, .epochs = 3, .by_packets = true, .early = true, .last_is_largest = true})},
      {"packets, 3 ranks, 2 epochs", exchange({.ranks = 3, .chunks = 1, .blocks = 1, .epochs = 2, .by_packets = true})},
      {"packets, all-reduce in one shot, in place", exchange({.in_place = true, .by_packets = true})},
      {"packets, 3 units, one block resident at a time",
       exchange({.chunks = 3, .by_packets = true, .one_resident = true})},
      {"packets, abort at any time", exchange({.chunks = 1, .by_packets = true, .aborter = 1})},
      {"packets, a peer never sends",
       exchange({.chunks = 1, .by_packets = true, .limits = Limits::kWhenStuck, .deserter = 1})},
      {"copy engine fetches, 2 epochs", copies({})},
      {"the same, the first refused", copies({.differ = true})},
      {"the same, abort at any time", copies({.epochs = 1, .aborter = 1})},
      {"CTA of two threads", part(CtaWorld<Memory>, 2)},
      {"a rank leaves in good order", part(GoodbyeWorld<Memory>, 0)},
      {"end of a mapping", part(MappingWorld<Memory>, 0)},
  };
}

}  // namespace tc::explorer
