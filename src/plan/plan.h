// Chooses the kernel and the slab of an operator: pure functions of what all ranks agree on.
#pragma once

#include <cstdint>

#include "base/status.h"
#include "registry/registry.h"

namespace tc {

// The plane of an operator whose caller asks for `asked`, in a communicator whose ranks agreed on `agreed` at init:
// tcPlaneAuto is push. tcUnsupported: what the communicator has no memory for.
Status ChoosePlane(tcPlane_t asked, tcPlane_t agreed, tcPlane_t* plane);

// The first registry row that does the operator on this backend, in this type, on this plane (tcPlaneAuto: any).
// tcUnsupported says which of them it was.
Status ChooseKernel(tcOp_t op, tcDataType_t type, tcPlane_t plane, const char* backend, const KernelRow** row);

// Of a workspace, what an operator on this plane stages in. The copy engine's has another half, for what it fetches.
uint64_t StagingBytes(uint64_t workspace_bytes, tcPlane_t plane);

// The most units (rows of a shard, bytes of a block) of `unit_bytes` each that every rank can stage at a time.
// tcUnsupported when not even one fits, with how much is missing.
Status ChooseSlab(size_t staging_bytes, int n_ranks, size_t unit_bytes, uint64_t* units);

// The same in bytes, in units of 16. Everything, where a lone rank stages nothing.
Status ChooseSlabBytes(size_t staging_bytes, int n_ranks, uint64_t* bytes);

// Whether every rank of an all-reduce of `bytes` reduces all of it: more to move, but one epoch instead of two.
bool ReducesInOneShot(size_t bytes, int n_ranks, size_t staging_bytes);

// Rows of a shard that the gates of one epoch can count, besides what the workspace holds.
uint64_t MostGatedRows(int n_ranks);

}  // namespace tc
