// The step of a gather that operators made of several steps share.
#pragma once

#include "host/exchange.h"
#include "order/problem.h"

namespace tc::host {

// Where peers may store the blocks of this rank's recv.
Destination GatherDestination(const Windows& windows, const AllGatherVProblem& problem);

// The body of an epoch that gathers one slab of the blocks.
Status GatherSlab(const Epoch& epoch, const Windows& windows, const AllGatherVProblem& problem, const Slab& slab);

}  // namespace tc::host
