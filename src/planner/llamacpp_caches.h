#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/llamacpp_context.h"
#include "planner/llamacpp_types.h"
#include "planner/model_geometry.h"

namespace haypile {

// One buffer of cells that llama.cpp allocates: the keys and values of all layers of a kind, or their states.
struct LlamacppCache {
  enum class Kind { kFull, kWindow, kState };
  Kind kind = Kind::kFull;
  int64_t cells = 0;  // of one stream; states: sequences
  int layers = 0;     // as the log counts them: for states, all layers of the model
  int64_t streams = 1;
  int64_t k_bytes_per_cell = 0;  // all layers; states: the convolution's part
  int64_t v_bytes_per_cell = 0;  // all layers; states: the recurrence's part

  int64_t k_bytes() const { return k_bytes_per_cell * cells * streams; }
  int64_t v_bytes() const { return v_bytes_per_cell * cells * streams; }
  int64_t bytes() const { return k_bytes() + v_bytes(); }
};

struct LlamacppCaches {
  std::vector<LlamacppCache> caches;  // in the order of allocation
  bool windowed = false;              // the model's window layers have a cache of their own
  bool ignored_windows = false;       // llama.cpp keeps every token of this model's window layers
  int window = 0;

  int64_t bytes() const;
};

// kUnsupported names the kind of cache that is not understood (cross attention, sparse-attention indexers).
Result<LlamacppCaches> BuildLlamacppCaches(const ModelGeometry& model, const LlamacppContext& context,
                                           const LlamacppType& k, const LlamacppType& v, bool swa_full);

// The lines of one cache. `device` is the buffer's name: "CPU", "CUDA0".
std::vector<std::string> LlamacppCacheLines(const LlamacppCache& cache, const LlamacppContext& context,
                                            const LlamacppType& k, const LlamacppType& v, const std::string& device);

}  // namespace haypile
