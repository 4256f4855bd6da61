#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "inspect/engine_rule.h"
#include "planner/model_geometry.h"

namespace haypile {

// The heads that one rank takes.
struct RankSlice {
  int rank = 0, first_head = 0, heads = 0;
};

// Under tensor parallelism of `ranks`: an equal share of heads each, or, with more ranks than heads, one head that
// several ranks hold. Empty when neither divides.
std::vector<RankSlice> SlicesOf(int heads, int ranks);

// "0: 0-3, 1: 4-7": rank and heads; of many ranks the first.
std::string SlicesText(const std::vector<RankSlice>& slices);

enum class HeadSplit {
  kDivided,  // each rank has an equal part of the heads
  kCopied,   // fewer heads than ranks: a head lies on several ranks
  kWhole,    // MLA: every rank keeps the whole latent row
  kNone,     // neither count divides the other
};

std::string_view HeadSplitName(HeadSplit split);  // "divided", "copied", "whole", "does not divide"

// What each rank keeps of layers that are alike.
struct RankShare {
  std::vector<int> layers;
  int kv_heads = 0;  // of the model; MLA: 1
  int head_dim_k = 0, head_dim_v = 0;
  HeadSplit split = HeadSplit::kDivided;
  std::vector<RankSlice> slices;     // empty when split is kNone
  int64_t bytes_per_token_bf16 = 0;  // of one of these layers on one rank; 0 when split is kNone
  int64_t bytes_per_token_fp8 = 0;
};

// Of the layers with a KV cache, alike ones together.
std::vector<RankShare> SharesOf(const ModelGeometry& model, int ranks);

// What one engine does when told to run the model on `ranks` ranks.
struct RankOutcome {
  std::string_view engine;
  std::string outcome;  // "runs", "refused", "not split"
  std::string why;
  std::string_view source;
};

std::vector<RankOutcome> RankOutcomes(const ModelGeometry& model, const std::vector<RankShare>& shares, int ranks);

}  // namespace haypile
