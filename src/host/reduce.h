// Element-wise reduction over ranks.
#pragma once

#include <cstddef>

#include "tc.h"

namespace tc::host {

// dst[i] = the reduction of sources[0][i], sources[1][i], ..., in this order, for `count` elements. dst may be one of
// the sources.
//
// 16-bit floats and fp32 are accumulated in fp32, fp64 in fp64, and rounded once, at the end; integers wrap around.
// tcAvg divides what was accumulated by n_sources: floats before the last rounding, integers truncating towards zero,
// after the sum has wrapped, as NCCL does (FuncSumPostDiv in its src/device/reduce_kernel.h; floats NCCL multiplies by
// 1 / n before it adds, which rounds every partial once more).
// tcMin and tcMax pass over NaNs, as NCCL's do (fminf, __hmin in the same file), and take -0 for less than +0, as its
// processors do. A result that is NaN has all bits set but the sign, so that it does not depend on whose NaN it was.
void Reduce(tcDataType_t type, tcRedOp_t op, const std::byte* const* sources, int n_sources, std::byte* dst,
            size_t count);

}  // namespace tc::host
