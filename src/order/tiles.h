// The order in which the tiles of a product are computed.
#pragma once

#include <cstdint>

#include "protocol/memory.h"

namespace tc {

struct Tile {
  uint64_t row_block = 0;
  uint64_t col_block = 0;
};

// All-gather + GEMM: row blocks in the order in which their rows come: from the block where this rank's own rows start,
// round the whole; all columns of a row block, one after the other. `index` runs over row_blocks * col_blocks.
// A block shared with the rank before this one comes last, since that rank's rows do.
TC_HOST_DEVICE constexpr Tile AllGatherTile(uint64_t index, uint64_t row_blocks, uint64_t col_blocks,
                                            uint64_t own_first_row, uint64_t block_rows) {
  const uint64_t start = (own_first_row + block_rows - 1) / block_rows;
  return {(start + index / col_blocks) % row_blocks, index % col_blocks};
}

}  // namespace tc
