// NumPy's .npy files, as far as a GEMM needs them: two-dimensional, C order, little-endian. Reads formats 1, 2 and 3,
// writes 1.
#ifndef TC_PERF_NPY_H_
#define TC_PERF_NPY_H_

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "element_type.h"

namespace tc::perf {

struct NpyMatrix {
  const ElementType* type = nullptr;
  size_t rows = 0;
  size_t cols = 0;
  std::vector<std::byte> bytes;  // [rows, cols], packed
};

// Throws Failure with a sentence that names the file when it is not such a file or cannot be read.
NpyMatrix ReadNpy(const std::string& path);

// Writes atomically. `elements`: [rows, cols] of `type`, packed; bfloat16 is written as uint16.
void WriteNpy(const std::string& path, const ElementType& type, size_t rows, size_t cols, const void* elements);

}  // namespace tc::perf

#endif  // TC_PERF_NPY_H_
