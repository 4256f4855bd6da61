#pragma once

#include <string>

#include "base/result.h"
#include "kvcache/kv_cache.h"

namespace haypile {

// Reads --kv-scales FILE, JSON {"schema": "haypile.kv_scales/1", "k": S, "v": S}, where S is one number for the whole
// cache, or a list with one entry a layer, each a number or a list with one number a KV head. Numbers are FP32 decode
// multipliers (stored value times scale is the true value) that IsUsableGlobalScale accepts. kMalformed names the
// entry; docs/kv-scales.md shows an example.
Result<KvScales> ReadKvScales(const std::string& path, int layers, int kv_heads);

}  // namespace haypile
