#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"

namespace haypile {

// The sizes that llama-server settles on before it allocates a cache, by llama.cpp's own names.
struct LlamacppContext {
  int64_t n_ctx_train = 0;  // the model's context; 0: it does not say
  int64_t n_seq_max = 1;    // slots
  bool unified = false;     // all slots share one stream of cells; else a stream for each
  int64_t n_ctx = 0;        // cells of all streams
  int64_t n_ctx_seq = 0;    // cells of one stream
  int64_t n_batch = 0;
  int64_t n_ubatch = 0;
  int64_t n_ctx_slot = 0;   // what one request can use: n_ctx_seq, capped at n_ctx_train
  bool rounded = false;     // n_ctx changed so that every slot's share is a multiple of the padding
  int64_t n_ctx_asked = 0;  // before rounding
  bool flash_attention = true;

  int64_t streams() const { return unified ? 1 : n_seq_max; }
  // The lines that llama_context prints about it, in order.
  std::vector<std::string> LogLines() const;
};

// Cells of a cache are a multiple of this (ggml-org/llama.cpp #17046).
inline constexpr int64_t kLlamacppPadding = 256;
constexpr int64_t PaddedCells(int64_t cells) {
  return (cells + kLlamacppPadding - 1) / kLlamacppPadding * kLlamacppPadding;
}
// Most sequences of one context.
inline constexpr int64_t kLlamacppMaxSequences = 256;

// `asked` is the context (-c) after its default. kInvalidArgument names the flag that no server takes.
Result<LlamacppContext> ResolveLlamacppContext(const ModelGeometry& model, const PlanRequest& request, int64_t asked);
// -c, or what stands for it: --max-model-len for every slot, or the model's own context.
int64_t AskedLlamacppContext(const ModelGeometry& model, const PlanRequest& request);

}  // namespace haypile
