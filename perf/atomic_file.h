// Files that appear whole or not at all.
#ifndef TC_PERF_ATOMIC_FILE_H_
#define TC_PERF_ATOMIC_FILE_H_

#include <string>
#include <string_view>
#include <vector>

namespace tc::perf {

// Throws Failure when WriteFileAtomically could not write `path` (no such folder, no permission, not a regular file).
// Tells before a long run what would else be told after it. Leaves nothing behind.
void RequireWritable(const std::string& option, const std::string& path);

// Writes the parts one after another to a temporary file beside `path` and renames it. On Failure `path` is as it was.
void WriteFileAtomically(const std::string& path, const std::vector<std::string_view>& parts);

}  // namespace tc::perf

#endif  // TC_PERF_ATOMIC_FILE_H_
