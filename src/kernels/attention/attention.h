#pragma once

#include <cstdint>
#include <span>

#include "base/thread_pool.h"
#include "kernels/attention/attention_span.h"
#include "kernels/attention/paged_kv_view.h"

namespace haypile {

// One sequence's queries in a batch. Query i sits at position first_position + i and sees keys
// max(0, position - window + 1) .. position (window 0: from 0), all already written to the pages.
struct AttentionSequence {
  const int32_t* page_table = nullptr;
  int64_t first_position = 0;
  int query_tokens = 0;
  int64_t first_row = 0;  // row of the first query in `queries` and `output`
};

// Scaled dot-product attention over a quantized paged cache, chunked prefill and decode rows together:
//   output[t, h] = sum_s softmax_s(query_scale * q[t, h] . K[s, h / group]) V[s, h / group]
// queries, output: [rows][query_heads][head_dim] FP32. K and V are decoded on the fly; products and sums are FP32, and
// the result does not depend on the number of threads.
struct AttentionArgs {
  PagedKvView kv;
  std::span<const AttentionSequence> sequences;
  const float* queries = nullptr;
  float* output = nullptr;
  int query_heads = 0;
  float query_scale = 1.0f;
  int window = 0;                      // 0: full attention
  AttendSpanFn span_kernel = nullptr;  // null: the active level's; tests name another
};

void PagedAttention(const AttentionArgs& args, ThreadPool& pool);

}  // namespace haypile
