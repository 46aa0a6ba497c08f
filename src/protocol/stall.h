// Stall records: a wait that ended badly says what it waited for (P10).
#pragma once

#include "protocol/layout.h"

namespace tc {

struct Stall {
  int32_t peer = -1;
  OperatorShape shape = {};
  Sequence epoch = 0;
  bool first_epoch = true;       // of its operator
  bool acknowledgement = false;  // what is missing is the peer's word that it has read this rank's buffer
  int64_t first_unit = -1;       // rows or bytes of the missing chunk; -1: the peer's entry is missing
  int64_t last_unit = -1;
  Sequence seen = 0;
};

// In memory that the host reads. The record may be read once `code` is not 0.
struct StallReport {
  uint32_t code = 0;  // tcTimeout or tcAborted; 0: none
  Stall stall;
};

// Ends the communicator on this rank. Of several threads (blocks) that stall, the first is reported: true for that one.
template <class Memory>
TC_HOST_DEVICE bool ReportStall(LocalBlock& local, StallReport& report, tcResult_t code, const Stall& stall) {
  if (Memory::AddAcqRelGpu(&local.dead, uint32_t{1}) != 0) return false;
  WriteData<Memory>(&report.stall, stall);
  Memory::StoreReleaseSys(&report.code, static_cast<uint32_t>(code));
  return true;
}

// Whether there is one; if so it may be read.
template <class Memory>
TC_HOST_DEVICE bool HasStalled(const StallReport& report) {
  return Memory::LoadAcquireSys(&report.code) != 0;
}

}  // namespace tc
