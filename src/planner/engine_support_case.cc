#include "planner/engine_support_case.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace haypile {
namespace {

bool KeepsHeads(CacheKind cache) {
  return cache == CacheKind::kFullAttention || cache == CacheKind::kSlidingWindow ||
         cache == CacheKind::kChunkedAttention;
}

void AskFeature(bool wanted, std::string_view column, const char* what, RowAnswer& answer) {
  if (!wanted || column == "yes") return;
  if (column == "no") {
    answer.objections.push_back(fmt::format("has no {}", what));
  } else {
    answer.unknown.push_back(what);
  }
}

}  // namespace

std::string HeadWordsText(std::string_view words) {
  std::string text;
  for (const std::string_view word : WordsOf(words)) {
    std::string part = word == "pow2"           ? "that are powers of two"
                       : word.starts_with("%")  ? fmt::format("divisible by {}", word.substr(1))
                       : word.starts_with("<=") ? fmt::format("up to {}", word.substr(2))
                       : word.starts_with(">=") ? fmt::format("from {}", word.substr(2))
                                                : fmt::format("{}", word);
    for (size_t comma = part.find(','); comma != std::string::npos; comma = part.find(',', comma + 2)) {
      part.insert(comma + 1, " ");
    }
    text += (text.empty() ? "" : ", ") + part;
  }
  return text;
}

std::set<int> ModelTraits::HeadDims() const {
  std::set<int> dims = head_dims_k;
  dims.insert(head_dims_v.begin(), head_dims_v.end());
  return dims;
}

std::string ModelTraits::Layout() const { return sparse ? "sparse" : mla ? "mla" : "heads"; }

ModelTraits TraitsOf(const ModelGeometry& model) {
  ModelTraits traits;
  traits.sinks = model.attention_sinks;
  for (const LayerGeometry& layer : model.layers) {
    traits.windows =
        traits.windows || layer.cache == CacheKind::kSlidingWindow || layer.cache == CacheKind::kChunkedAttention;
    traits.states = traits.states || layer.cache == CacheKind::kStateSpace;
    traits.kv_shared = traits.kv_shared || layer.kv_shared_with >= 0;
    if (layer.cache == CacheKind::kMla) {
      traits.mla = true;
      traits.sparse = traits.sparse || layer.index_head_dim > 0;
    }
    if (!KeepsHeads(layer.cache) || layer.head_dim_k <= 0) continue;
    traits.head_dims_k.insert(layer.head_dim_k);
    if (layer.head_dim_v > 0) traits.head_dims_v.insert(layer.head_dim_v);
    if (layer.kv_heads > 0) traits.kv_heads.insert(layer.kv_heads);
    traits.heads_differ = traits.heads_differ || layer.head_dim_v != layer.head_dim_k;
  }
  return traits;
}

RowAnswer AnswerOf(const SupportRow& row, const SupportCase& start) {
  RowAnswer answer;
  const ModelTraits& traits = start.traits;
  if (start.version && !VersionMatches(row.versions, *start.version)) {
    answer.objections.push_back(fmt::format("is known for versions {} alone", row.versions));
  }
  const Match device = DeviceMatches(row.devices, start.device, start.gpu);
  if (device == Match::kNo) answer.objections.push_back("needs " + DeviceWordsText(row.devices));
  if (device == Match::kUnknown) answer.unknown.push_back("the device, which needs " + DeviceWordsText(row.devices));
  if (!row.layouts.empty() && !HasWord(row.layouts, traits.Layout())) {
    answer.objections.push_back(HasWord(row.layouts, "heads") ? "a model without MLA"
                                : traits.sparse               ? "MLA without an indexer"
                                                              : "an MLA model");
  }
  const bool nvfp4 = row.dtypes.starts_with("nvfp4") && row.engine == EngineKind::kVllm;
  if (!traits.mla && !HeadsMatch(row.heads, traits.HeadDims())) {
    answer.objections.push_back(
        fmt::format("head sizes {} (this model: {})", HeadWordsText(row.heads), fmt::join(traits.HeadDims(), ", ")));
  }
  if (nvfp4 && traits.heads_differ) answer.objections.push_back("equal head sizes of K and V");
  AskFeature(traits.windows, row.windows, "sliding windows", answer);
  AskFeature(traits.sinks, row.sinks, "attention sinks", answer);
  AskFeature(start.drafts, row.drafts, "speculative decoding", answer);
  answer.match = !answer.objections.empty() ? Match::kNo : answer.unknown.empty() ? Match::kYes : Match::kUnknown;
  return answer;
}

std::string DeviceText(DeviceKind device, const std::optional<GpuSpec>& gpu) {
  if (device == DeviceKind::kCpu) return "the CPU";
  if (!gpu) return "this device";
  return gpu->name + (gpu->sm > 0 ? " (SM" + std::to_string(gpu->sm) + ")" : " (" + gpu->architecture + ")");
}

}  // namespace haypile
