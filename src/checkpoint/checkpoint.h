#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "checkpoint/checkpoint_kv_scales.h"
#include "checkpoint/gguf.h"
#include "spec/model_spec.h"

namespace haypile {

// A model on disk, GGUF file or Hugging Face folder, behind one set of names and conventions:
//   embed_tokens.weight [V][H], norm.weight [H], lm_head.weight [V][H] (absent when tied),
//   layers.N.input_layernorm.weight, layers.N.post_attention_layernorm.weight,
//   layers.N.pre_feedforward_layernorm.weight, layers.N.post_feedforward_layernorm.weight (gemma3 only),
//   layers.N.self_attn.{q,k,v,o}_proj.{weight,bias}, layers.N.self_attn.{q,k}_norm.weight,
//   layers.N.mlp.{gate,up,down}_proj.weight
// Shapes are row-major [out][in]. Q and K rows are in half-split ("rotate half") order whatever the file holds, and
// norm weights are the plain multiplier (gemma3's +1 is added here where the file lacks it).
class Checkpoint {
 public:
  // A .gguf file or a folder with config.json. kUnsupported names an architecture or feature that cannot be run
  // rightly.
  static Result<std::unique_ptr<Checkpoint>> Open(const std::string& path);
  virtual ~Checkpoint() = default;

  virtual const ModelSpec& spec() const = 0;
  virtual bool Has(const std::string& name) const = 0;
  virtual Result<std::vector<int64_t>> Shape(const std::string& name) const = 0;
  // Reads a whole tensor, expanded or rounded (to nearest even) to the wanted type. `out` must have its element count.
  virtual Status ReadBf16(const std::string& name, std::span<uint16_t> out) const = 0;
  virtual Status ReadF32(const std::string& name, std::span<float> out) const = 0;

  // KV scales among the tensors; a GGUF file has none.
  virtual const CheckpointKvScales& kv_scales() const {
    static const CheckpointKvScales kNone;
    return kNone;
  }

  // The tokenizer's source: the GGUF file itself, or null and the folder that holds tokenizer.json.
  virtual std::shared_ptr<const GgufFile> gguf() const = 0;
  virtual std::string folder() const = 0;
};

}  // namespace haypile
