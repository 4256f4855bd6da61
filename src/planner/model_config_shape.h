#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/model_config_family.h"
#include "planner/model_config_fields.h"
#include "planner/model_geometry.h"

namespace haypile {

// What one decoder block computes. A block with attention and a state keeps both.
enum class Attention { kNone, kFull, kSliding, kChunked, kCross };
enum class FeedForward { kNone, kDense, kExperts, kDenseAndExperts };

struct BlockPlan {
  Attention attention = Attention::kFull;
  bool state = false;
  bool cross_attention = false;  // besides its own attention (encoder-decoder)
  FeedForward feed_forward = FeedForward::kDense;
  int kv_heads = 0;  // of this block, where the config gives them block by block; 0: the model's
};

// Heads of one kind of attention layer.
struct HeadShape {
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim_k = 0;
  int64_t head_dim_v = 0;
};

// A config's sizes under one set of names. 0: the config does not say and nothing needs it.
struct ModelShape {
  ConfigFamily family;
  std::string model_type;    // of the text part
  std::string architecture;  // may be empty
  int64_t layers = 0;
  int64_t hidden = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;    // of K
  int64_t head_dim_v = 0;  // of V
  int64_t vocabulary = 0;
  int64_t max_positions = 0;
  int64_t window = 0;  // sliding or chunk length; 0: none
  // Multi-head latent attention; kv_lora_rank 0: none.
  int64_t kv_lora_rank = 0;
  int64_t q_lora_rank = 0;
  int64_t rope_dim = 0;
  int64_t nope_dim = 0;
  int64_t index_head_dim = 0;
  int64_t index_heads = 0;
  HeadShape full;                  // of layers that see everything
  HeadShape sliding;               // of layers that slide; most families have one shape for both
  bool full_value_is_key = false;  // layers that see everything have no V projection (Gemma 4): V is K
  StateShape state;
  std::vector<BlockPlan> blocks;

  HeadShape HeadsOf(const BlockPlan& block) const {
    HeadShape heads = block.attention == Attention::kSliding ? sliding : full;
    if (block.kv_heads != 0) heads.kv_heads = block.kv_heads;
    return heads;
  }
};

// Sizes and heads only: no blocks, window or state yet.
Result<ModelShape> ReadModelSizes(const ConfigObject& config, const ConfigFamily& family);
// The state of the family's recurrent layers; call only for families that have one.
Result<StateShape> ReadStateShape(const ConfigObject& config, const ModelShape& shape);
// Sets `blocks` and `window`, and for a config that only lists its layers, `layers`.
Status ReadBlocks(const ConfigObject& config, ModelShape* shape);
// Sets each block's feed-forward part where the config has experts.
Status ReadExpertBlocks(const ConfigObject& config, ModelShape* shape);

}  // namespace haypile
