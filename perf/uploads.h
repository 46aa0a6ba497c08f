// Brings a case's inputs from the host into the memory of a rank.
#ifndef TC_PERF_UPLOADS_H_
#define TC_PERF_UPLOADS_H_

#include <cstddef>

#include "handles.h"
#include "inputs.h"
#include "shards.h"

namespace tc::perf {

// This rank's rows of A, [shard.rows, k] packed.
void UploadA(Communicator& communicator, const Inputs& inputs, size_t set, const Shard& shard, size_t k,
             std::byte* target);
// This rank's b, [n,k] or [k,n] packed.
void UploadB(Communicator& communicator, const Inputs& inputs, size_t set, size_t n, size_t k, tcBLayout_t layout,
             std::byte* target);

}  // namespace tc::perf

#endif  // TC_PERF_UPLOADS_H_
