// Tiles of two-dimensional tensors by the copy engine. PTX ISA, "cp.async.bulk.tensor". sm_90.
#pragma once

#include <cuda.h>

#include <cstdint>

namespace tc::ptx {

__device__ inline void PrefetchTensorMap(const CUtensorMap* map) {
  asm volatile("prefetch.tensormap [%0];" ::"l"(map) : "memory");
}

// The box that starts at element (x, y), x the contiguous dimension; elements outside the tensor are zeros. Its bytes
// count at `barrier`.
__device__ inline void LoadBox(uint32_t shared, const CUtensorMap* map, uint32_t barrier, int x, int y) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1, {%3, %4}], [%2];" ::"r"(
          shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y)
      : "memory");
}

// The same to the same place in every block of the cluster whose bit is set in `blocks`, and counted at the barrier of
// each.
__device__ inline void LoadBoxForAll(uint32_t shared, const CUtensorMap* map, uint32_t barrier, int x, int y,
                                     uint16_t blocks) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
      "[%0], [%1, {%3, %4}], [%2], %5;" ::"r"(shared),
      "l"(map), "r"(barrier), "r"(x), "r"(y), "h"(blocks)
      : "memory");
}

}  // namespace tc::ptx
