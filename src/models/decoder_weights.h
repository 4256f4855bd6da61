#pragma once

#include <cstdint>
#include <vector>

#include "base/aligned_buffer.h"
#include "base/result.h"
#include "base/thread_pool.h"
#include "checkpoint/checkpoint.h"
#include "kernels/matmul/matmul.h"

namespace haypile {

// One layer's weights; vectors are FP32 and null where the family has none.
struct LayerWeights {
  const float* input_norm = nullptr;             // [H], before attention
  const float* attention_output_norm = nullptr;  // [H], gemma3: after o_proj, before the residual
  const float* mlp_input_norm = nullptr;         // [H], before the MLP
  const float* mlp_output_norm = nullptr;        // [H], gemma3: after down_proj, before the residual
  Bf16Matrix q, k, v, o;                         // [Hq D][H], [Hkv D][H], [Hkv D][H], [H][Hq D]
  const float* q_bias = nullptr;                 // [Hq D], qwen2
  const float* k_bias = nullptr;                 // [Hkv D]
  const float* v_bias = nullptr;
  const float* q_norm = nullptr;  // [D], qwen3 and gemma3
  const float* k_norm = nullptr;
  Bf16Matrix gate, up, down;  // [F][H], [F][H], [H][F]
};

// All weights of a decoder in one block of memory (huge pages, where the system grants them).
struct DecoderWeights {
  AlignedBuffer memory;
  Bf16Matrix embedding;  // [V][H]
  Bf16Matrix output;     // [V][H]; the embedding's memory when tied
  const float* final_norm = nullptr;
  std::vector<LayerWeights> layers;

  // Reads every tensor, in parallel over tensors. kNotFound and kMalformed name the tensor, and for a wrong shape both
  // shapes; kOutOfBudget when memory is short.
  static Result<DecoderWeights> Load(const Checkpoint& checkpoint, ThreadPool& pool);
};

}  // namespace haypile
