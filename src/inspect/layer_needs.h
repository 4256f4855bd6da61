#pragma once

#include <vector>

#include "checkpoint/header_checkpoint.h"
#include "inspect/declaration.h"
#include "planner/model_geometry.h"

namespace haypile {

// A layer that keeps keys and values, and the scales that a quantized cache of it uses.
struct KvLayerNeed {
  int layer = 0;
  int kv_heads = 0;  // 0: not known
  bool v = true;     // false: one latent row (MLA), or V is K
  bool v_is_k = false;
};

// Layers with a KV cache in ascending order: by the geometry, or, where there is none, by the attention tensors and the
// KV scales that the headers name. A layer where V is K needs no scale of V: with attention_k_eq_v, one with a k_proj
// and no v_proj, or, where no projection of it is in the headers, one of full attention.
std::vector<KvLayerNeed> KvLayersOf(const ModelGeometry* geometry, const CheckpointHeaders& headers,
                                    const QuantizationDeclaration& declaration);

}  // namespace haypile
