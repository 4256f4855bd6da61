#include "inspect/rank_share.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

#include "inspect/finding.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

constexpr size_t kMostSlicesShown = 16;

bool KeepsHeads(CacheKind kind) {
  return kind == CacheKind::kFullAttention || kind == CacheKind::kSlidingWindow || kind == CacheKind::kChunkedAttention;
}

bool Alike(const RankShare& a, const RankShare& b) {
  return std::tie(a.kv_heads, a.head_dim_k, a.head_dim_v, a.split) ==
         std::tie(b.kv_heads, b.head_dim_k, b.head_dim_v, b.split);
}

RankShare ShareOf(const LayerGeometry& layer, int ranks) {
  RankShare share;
  if (layer.cache == CacheKind::kMla) {
    const int row = layer.kv_lora_rank + layer.rope_dim;
    share.kv_heads = 1;
    share.head_dim_k = row;
    share.split = HeadSplit::kWhole;
    for (int rank = 0; rank < ranks; ++rank) share.slices.push_back({rank, 0, 1});
    share.bytes_per_token_bf16 = RowBytes(KvFormat::kBf16, row);
    share.bytes_per_token_fp8 = RowBytes(KvFormat::kFp8E4m3, row);
    return share;
  }
  share.kv_heads = layer.kv_heads;
  share.head_dim_k = layer.head_dim_k;
  share.head_dim_v = layer.head_dim_v;
  share.slices = SlicesOf(layer.kv_heads, ranks);
  share.split = share.slices.empty()     ? HeadSplit::kNone
                : layer.kv_heads < ranks ? HeadSplit::kCopied
                                         : HeadSplit::kDivided;
  const int64_t heads = share.slices.empty() ? 0 : share.slices.front().heads;
  const auto bytes = [&](KvFormat format) {
    return heads * (RowBytes(format, layer.head_dim_k) + RowBytes(format, layer.head_dim_v));
  };
  share.bytes_per_token_bf16 = bytes(KvFormat::kBf16);
  share.bytes_per_token_fp8 = bytes(KvFormat::kFp8E4m3);
  return share;
}

// Why no engine that divides heads starts; empty: it does.
std::string WhyRefused(const ModelGeometry& model, const std::vector<RankShare>& shares, int ranks) {
  if (model.query_heads > 0 && model.query_heads % ranks != 0) {
    return fmt::format("{} query heads do not divide among {} ranks", model.query_heads, ranks);
  }
  for (const RankShare& share : shares) {
    if (share.split != HeadSplit::kNone) continue;
    return fmt::format("{} KV heads (layers {}) and {} ranks: neither number divides the other", share.kv_heads,
                       RangesText(share.layers), ranks);
  }
  return "";
}

std::string WhyRuns(const std::vector<RankShare>& shares) {
  const auto any = [&shares](HeadSplit split) {
    return std::any_of(shares.begin(), shares.end(), [split](const RankShare& s) { return s.split == split; });
  };
  std::string why;
  const auto add = [&why](const char* text) { why += (why.empty() ? "" : "; ") + std::string(text); };
  if (any(HeadSplit::kDivided)) add("KV heads are divided");
  if (any(HeadSplit::kCopied)) add("KV heads are copied: more ranks save no more cache");
  if (any(HeadSplit::kWhole)) add("latent rows are kept whole on every rank: ranks save no cache");
  return why.empty() ? "no layer keeps a KV cache" : why;
}

}  // namespace

std::vector<RankSlice> SlicesOf(int heads, int ranks) {
  std::vector<RankSlice> slices;
  if (heads < 1 || ranks < 1 || (heads % ranks != 0 && ranks % heads != 0)) return slices;
  for (int rank = 0; rank < ranks; ++rank) {
    if (ranks <= heads) {
      slices.push_back({rank, rank * (heads / ranks), heads / ranks});
    } else {
      slices.push_back({rank, rank / (ranks / heads), 1});
    }
  }
  return slices;
}

std::string SlicesText(const std::vector<RankSlice>& slices) {
  std::string text;
  for (size_t i = 0; i < slices.size() && i < kMostSlicesShown; ++i) {
    const RankSlice& slice = slices[i];
    const int last = slice.first_head + slice.heads - 1;
    text += fmt::format("{}{}:{}", i == 0 ? "" : " ", slice.rank,
                        slice.heads == 1 ? std::to_string(last) : fmt::format("{}-{}", slice.first_head, last));
  }
  if (slices.size() > kMostSlicesShown) {
    text += fmt::format(" ... {}:{}", slices.back().rank, slices.back().first_head);
  }
  return text;
}

std::string_view HeadSplitName(HeadSplit split) {
  switch (split) {
    case HeadSplit::kDivided:
      return "divided";
    case HeadSplit::kCopied:
      return "copied";
    case HeadSplit::kWhole:
      return "whole";
    case HeadSplit::kNone:
      break;
  }
  return "does not divide";
}

std::vector<RankShare> SharesOf(const ModelGeometry& model, int ranks) {
  std::vector<RankShare> shares;
  for (const LayerGeometry& layer : model.layers) {
    if (!KeepsHeads(layer.cache) && layer.cache != CacheKind::kMla) continue;
    RankShare share = ShareOf(layer, ranks);
    auto found = std::find_if(shares.begin(), shares.end(), [&share](const RankShare& s) { return Alike(s, share); });
    if (found == shares.end()) found = shares.insert(shares.end(), std::move(share));
    found->layers.push_back(layer.index);
  }
  return shares;
}

std::vector<RankOutcome> RankOutcomes(const ModelGeometry& model, const std::vector<RankShare>& shares, int ranks) {
  const std::string refused = WhyRefused(model, shares, ranks);
  const std::string outcome = refused.empty() ? "runs" : "refused";
  const std::string why = refused.empty() ? WhyRuns(shares) : refused;
  const bool queries = model.query_heads > 0 && model.query_heads % ranks != 0;
  std::vector<RankOutcome> outcomes;
  std::string vllm = why, trt = why;
  if (queries) {
    vllm += fmt::format(": 'Total number of attention heads ({}) must be divisible by tensor parallel size ({}).'",
                        model.query_heads, ranks);
  } else if (!refused.empty()) {
    vllm += ": an assertion when the attention layer is built";
    trt += ": an assertion when K and V weights are copied for the ranks";
  }
  outcomes.push_back({"vLLM", outcome, vllm, "vllm/config/model.py verify_with_parallel_config; models/llama.py"});
  outcomes.push_back({"SGLang", outcome, why, "sglang/srt/models/llama.py: the same assertions as vLLM's"});
  outcomes.push_back({"TensorRT-LLM", outcome, trt, "_torch/modules/attention.py; models/modeling_utils.py"});
  if (ranks == 1) return outcomes;
  outcomes.push_back(
      {"llama.cpp", "not split",
       "--split-mode layer, the default, gives each device whole layers with their whole cache; what the "
       "experimental --split-mode tensor divides is not judged here",
       "llama.cpp docs/multi-gpu.md"});
  outcomes.push_back({"Haypile", "not split", "one process keeps the whole cache", "docs/inspect.md"});
  return outcomes;
}

}  // namespace haypile
