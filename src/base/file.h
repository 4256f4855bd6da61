#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"

namespace haypile {

// Whole file as bytes. kNotFound, kIo, or kMalformed when larger than `limit_bytes`.
Result<std::string> ReadFile(const std::string& path, uint64_t limit_bytes = uint64_t{1} << 30);

// Writes beside `path`, syncs, and renames over it: readers see the old content or the new, never a part.
Status WriteFileAtomic(const std::string& path, std::string_view content);

// kIo unless a file could be created at `path` now; leaves nothing behind. For checks before long work.
Status CheckWritable(const std::string& path);

}  // namespace haypile
