// Device memory that peers map: CUDA virtual memory, shared between processes as a file descriptor. And host memory
// that every device of the machine reads and writes.
#pragma once

#include <memory>

#include "base/status.h"
#include "comm/segment.h"

namespace tc::cuda {

// Zeroed memory of `device`. An exported descriptor keeps the memory alive for whoever maps it.
Status AllocateDevice(int device, size_t bytes, std::shared_ptr<Segment>* segment);
// Also reachable from every GPU of this process that can reach the current one.
Status AllocateOnCurrentDevice(size_t bytes, std::shared_ptr<Segment>* segment);
Status ImportDevice(int device, const SegmentTicket& ticket, const UniqueFd& fd, std::shared_ptr<Segment>* segment);

// Lets `device` reach memory that this process has mapped, of whichever device.
Status AllowDevice(int device, const Segment& segment);

// A mapping of host memory (host/segment.h) that devices may use at its own address, for as long as the result lives.
// `device` is any device of this process.
Status PinHost(int device, std::shared_ptr<Segment> host, std::shared_ptr<Segment>* segment);

}  // namespace tc::cuda
