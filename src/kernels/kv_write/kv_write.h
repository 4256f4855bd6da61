#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/attention/paged_kv_view.h"

namespace haypile {

// One run of consecutive tokens of one sequence to be stored.
struct KvWriteSequence {
  const int32_t* page_table = nullptr;
  int64_t first_position = 0;
  int tokens = 0;
  int64_t first_row = 0;  // row of the first token in keys and values
};

// Quantizes keys and values ([rows][kv_heads][head_dim] FP32, keys after RoPE) into their pages by the rules of
// formats/row_codec.h.
void WriteKv(const PagedKvView& kv, std::span<const KvWriteSequence> sequences, const float* keys, const float* values,
             ThreadPool& pool);

}  // namespace haypile
