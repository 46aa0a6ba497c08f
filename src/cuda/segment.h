// Device memory that peers map: CUDA virtual memory, shared between processes as a file descriptor, or where that is
// not to be had the memory of ipc_segment.h. And host memory that every device of the machine reads and writes.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "comm/segment.h"

namespace tc::cuda {

// Zeroed memory of `device`; it stays for whoever has mapped it. `vmm_disable`: TC_VMM_DISABLE.
Status AllocateDevice(int device, size_t bytes, bool vmm_disable, std::shared_ptr<Segment>* segment);
// Also reachable from every GPU of this process that can reach the current one.
Status AllocateOnCurrentDevice(size_t bytes, bool vmm_disable, std::shared_ptr<Segment>* segment);
// Of either kind: ranks need not agree.
Status ImportDevice(int device, const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment);

// Lets `device` reach memory that this process has mapped, of whichever device.
Status AllowDevice(int device, const Segment& segment);

// What to say when `device` may not map a peer's memory; `said`: CUDA's words for it.
Status CannotReach(int device, const std::string& said);

// A mapping of host memory (host/segment.h) that devices may use at its own address, for as long as the result lives.
// `device` is any device of this process.
Status PinHost(int device, std::shared_ptr<Segment> host, std::shared_ptr<Segment>* segment);

}  // namespace tc::cuda
