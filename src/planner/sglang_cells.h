#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "planner/model_geometry.h"
#include "planner/plan_request.h"
#include "planner/sglang_dtypes.h"

namespace haypile {

// Bytes of one token in some layers, as they are stored.
struct SglangRows {
  int64_t k = 0, v = 0;  // block scales included; latent rows are all K
  int64_t indexer = 0;   // sparse attention's own cache
  int layers = 0;
  // The shape of one layer, for derivations: heads of the rank and elements of K and of V (latent rows: 1, all K).
  int heads = 0;
  int64_t k_elements = 0, v_elements = 0;
  bool uniform = true;  // every layer has it

  int64_t total() const { return k + v + indexer; }
};

// What one pipeline stage of one rank pays for a token: what is stored, and what the engine's formula charges.
struct SglangCells {
  SglangRows full;    // every token: full attention and latent rows
  SglangRows window;  // sliding and chunked layers, where they have a pool of their own
  bool latent = false;
  int window_tokens = 0;     // the longest window
  int64_t full_cell = 0;     // the formula's bytes for `full`
  int64_t window_cell = 0;   // and for `window`
  int64_t workspace = 0;     // of full_cell: the one-layer FP8 copy that FP4 is decoded into
  int64_t draft_full = 0;    // charged for the drafter, per token of the full pool
  int64_t draft_window = 0;  // and per token of the window pool
  int64_t draft_stored = 0;  // what the drafter's own pool takes per token of the target's pool
  int draft_layers = 0;
  double cell = 0;  // one token of max_total_num_tokens: all of the above, windows times their ratio

  bool windowed() const { return window.layers > 0; }
};

// Which layers have a window's pool of their own: SGLang gives one to the models whose windows it knows.
bool SglangSeparatesWindows(const ModelGeometry& model);
// --page-size, or the one that the attention backend of this dtype and model needs.
int64_t SglangPageSize(const ModelGeometry& model, const SglangDtype& dtype, const PlanRequest& request);

// kUnsupported names the cache that is not understood.
Result<SglangCells> CellsOfStage(const ModelGeometry& model, const std::vector<LayerGeometry>& stage,
                                 const SglangDtype& dtype, const PlanRequest& request);

}  // namespace haypile
