#include "ops/check.h"

#include <cstdint>

#include "base/data_type.h"

namespace tc {

Status CheckType(tcDataType_t type) {
  if (ElementBytes(type) == 0) return Error(tcInvalidArgument, "type %d is no tcDataType_t", type);
  return {};
}

Status CheckReduction(tcRedOp_t op) {
  if (op < tcSum || op > tcAvg) return Error(tcInvalidArgument, "op %d is no tcRedOp_t", op);
  return {};
}

Status CheckRoot(int root, int n_ranks) {
  if (root >= 0 && root < n_ranks) return {};
  return Error(tcInvalidArgument, "root is %d; the ranks are 0 to %d", root, n_ranks - 1);
}

Status CheckBuffer(const char* name, const void* ptr, size_t elements, tcDataType_t type) {
  if (elements == 0) return {};
  if (ptr == nullptr) return Error(tcInvalidArgument, "%s is NULL but holds %zu elements", name, elements);
  if (reinterpret_cast<uintptr_t>(ptr) % ElementBytes(type) != 0) {
    return Error(tcInvalidArgument, "%s (%p) is misaligned: %s needs a multiple of %zu bytes", name, ptr,
                 TypeName(type), ElementBytes(type));
  }
  return {};
}

Status CheckBytes(const char* name, size_t a, size_t b, tcDataType_t type) {
  size_t bytes = 0;
  if (__builtin_mul_overflow(a, b, &bytes) || __builtin_mul_overflow(bytes, ElementBytes(type), &bytes) ||
      bytes > kMostBytes) {
    return Error(tcInvalidArgument, "%s would hold %zu x %zu elements, more than an address can reach", name, a, b);
  }
  return {};
}

bool Overlap(const void* a, size_t a_bytes, const void* b, size_t b_bytes) {
  const auto first = reinterpret_cast<uintptr_t>(a);
  const auto second = reinterpret_cast<uintptr_t>(b);
  return a_bytes > 0 && b_bytes > 0 && first < second + b_bytes && second < first + a_bytes;
}

}  // namespace tc
