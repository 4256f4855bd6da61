#pragma once

#include <cstdint>
#include <vector>

#include "base/result.h"
#include "spec/kv_dtype.h"
#include "spec/model_spec.h"

namespace haypile {

// THE one place for the bytes of a KV cache; pool, planner, inspector and reports call it.

// Bytes of one token's K (or V) of one head: elements and block scales. Global scales live outside the pages.
// e.g. nvfp4: D/2 + D/16; bf16: 2 D; int8_per_token_head: D + 4.
int64_t RowBytes(KvFormat format, int head_dim);

// One layer's cache: its formats and shape.
struct LayerKvGeometry {
  KvDtype dtype;
  int kv_heads = 0;
  int head_dim = 0;
  int window = 0;  // 0: full attention

  int64_t BytesPerToken() const;  // K and V of all heads
};

struct KvGeometry {
  std::vector<LayerKvGeometry> layers;

  // All layers' bytes for one token.
  int64_t BytesPerToken() const;
};

// Geometry of a model under a dtype; layers in `bf16_layers` keep bf16. kInvalidArgument when a format cannot hold the
// model's head dim (the message names both).
Result<KvGeometry> MakeKvGeometry(const ModelSpec& model, KvDtype dtype, const std::vector<bool>& bf16_layers = {});

// Tokens that a sliding layer must hold while a chunk of `chunk_tokens` is computed: the window before the chunk's
// first token, and the chunk.
int64_t SlidingTokensHeld(int window, int64_t chunk_tokens);

// Parses --kv-cache-dtype-skip-layers: indices ("0,31" or "0 31") and/or "sliding_window"; one flag per layer.
// kInvalidArgument names the entry and the model's range.
Result<std::vector<bool>> ParseSkipLayers(const std::string& text, const ModelSpec& model);

}  // namespace haypile
