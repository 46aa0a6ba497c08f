// Shared memory of the host backend: a memfd, which has no name in any file system and dies with its last user.
#pragma once

#include <memory>

#include "base/status.h"
#include "comm/segment.h"

namespace tc::host {

Status AllocateShared(size_t bytes, std::shared_ptr<Segment>* segment);
// Memory that no other process can map.
Status AllocatePrivate(size_t bytes, std::shared_ptr<Segment>* segment);
// Asks for pages of that NUMA node, where it is one: before anything touches them, and without a promise.
void PreferNode(const Segment& segment, int node);
Status MapShared(const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment);

}  // namespace tc::host
