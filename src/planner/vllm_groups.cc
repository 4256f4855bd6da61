#include "planner/vllm_groups.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>

#include "base/check.h"

namespace haypile {
namespace {

std::vector<const VllmSpec*> Pointers(const std::vector<VllmSpec>& specs) {
  std::vector<const VllmSpec*> pointers;
  for (const VllmSpec& spec : specs) pointers.push_back(&spec);
  return pointers;
}

bool AnyOf(const std::vector<VllmSpec>& specs, VllmSpecKind kind) {
  return std::any_of(specs.begin(), specs.end(), [kind](const VllmSpec& spec) { return spec.kind == kind; });
}

bool AnyFull(const std::vector<VllmSpec>& specs) {
  return std::any_of(specs.begin(), specs.end(), [](const VllmSpec& spec) { return spec.IsFull(); });
}

// The block size of all full-attention layers when they agree on one.
std::optional<int64_t> FullBlockSize(const std::vector<VllmSpec>& specs) {
  std::optional<int64_t> size;
  for (const VllmSpec& spec : specs) {
    if (!spec.IsFull()) continue;
    if (size && *size != spec.block_size) return std::nullopt;
    size = spec.block_size;
  }
  return size;
}

// Windowed layers become full-attention layers for allocation. False: still not of one type.
bool PromoteWindows(std::vector<VllmSpec>& specs) {
  if (AnyFull(specs)) {
    const std::optional<int64_t> full_block = FullBlockSize(specs);
    for (VllmSpec& spec : specs) {
      if (spec.kind != VllmSpecKind::kSlidingWindow && spec.kind != VllmSpecKind::kChunked) continue;
      spec.chunked = spec.kind == VllmSpecKind::kChunked;
      spec.kind = VllmSpecKind::kFull;
      if (full_block) spec.block_size = *full_block;
      if (spec.padded_page > 0) spec.padded_page = std::max(spec.padded_page, spec.UnpaddedPage());
    }
  }
  return MergeVllmSpecs(Pointers(specs)) == VllmMerge::kSame || IsUniformVllmType(specs);
}

void TurnManagerOff(VllmGrouping& grouping, const VllmRules& rules) {
  std::vector<VllmSpec>& specs = grouping.specs;
  if (MergeVllmSpecs(Pointers(specs)) == VllmMerge::kSame || IsUniformVllmType(specs)) return;
  const bool promoted =
      AnyFull(specs) && (AnyOf(specs, VllmSpecKind::kSlidingWindow) || AnyOf(specs, VllmSpecKind::kChunked));
  if (!PromoteWindows(specs)) {
    grouping.refusal = rules.latent_hybrids_align_128  // the words changed in the same release
                           ? "Failed to promote local KV cache specs to one unified type."
                           : "Hybrid KV cache manager is disabled but failed to convert the KV cache specs to one "
                             "unified type.";
    return;
  }
  if (promoted) {
    grouping.log_lines.push_back(
        "Hybrid KV cache manager is disabled for this hybrid model, This means we do not enable any optimizations for "
        "saving KV cache memory (e.g., dropping the KV cache outside the sliding window). The compute of layers like "
        "sliding window is still saved.");
  }
}

// Makes every page as large as the largest: by more tokens in a block where the sizes divide, else by padding.
// False: neither is possible.
bool UnifyPages(std::vector<VllmSpec>& specs, const VllmRules& rules) {
  int64_t largest = 0;
  for (const VllmSpec& spec : specs) largest = std::max(largest, spec.Page());
  for (VllmSpec& spec : specs) {
    const int64_t page = spec.Page();
    if (page == largest) continue;
    if (spec.kind == VllmSpecKind::kState && rules.pads_state_pages) {
      spec.padded_page = largest;
    } else if (largest % page == 0) {
      spec.block_size *= largest / page;
      // A padded page is not enlarged by more tokens; only an unpadded one grows with its block.
      if (spec.Page() != largest) return false;
    } else if (spec.kind != VllmSpecKind::kState && spec.kind != VllmSpecKind::kMla && rules.pads_attention_pages) {
      spec.padded_page = largest;
    } else {
      return false;
    }
  }
  return true;
}

std::string CannotUnify(const VllmRules& rules) {
  if (!rules.pads_attention_pages) {
    return "The page size of the layer is not divisible by the maximum page size. Cannot unify by adjusting "
           "block_size.";
  }
  return "page size is not divisible by the maximum page size and cannot be padded. Padding is only supported for "
         "non-MLA attention layers.";
}

// Latent layers beside ordinary windows: the windows are allocated as full attention when pages cannot be unified.
bool FallBackToFullAllocation(VllmGrouping& grouping, const std::vector<VllmSpec>& original) {
  if (AnyOf(original, VllmSpecKind::kChunked) || !AnyOf(original, VllmSpecKind::kMla) ||
      !AnyOf(original, VllmSpecKind::kSlidingWindow)) {
    return false;
  }
  grouping.specs = original;
  if (!PromoteWindows(grouping.specs) || !IsUniformVllmType(grouping.specs)) return false;
  grouping.log_lines.push_back(
      "KV cache page sizes cannot be unified; treating sliding-window layers as full attention for cache allocation. "
      "Sliding-window attention compute is unchanged.");
  return true;
}

void OneGroup(VllmGrouping& grouping, bool layers_differ) {
  VllmGroup group;
  group.layers.resize(grouping.specs.size());
  std::iota(group.layers.begin(), group.layers.end(), 0);
  group.layers_differ = layers_differ;
  grouping.group_size = static_cast<int>(grouping.specs.size());
  grouping.groups.push_back(std::move(group));
}

// Layers in buckets of mergeable specs, in the order of each bucket's first layer.
std::vector<std::vector<int>> Buckets(const std::vector<VllmSpec>& specs) {
  std::vector<std::pair<const VllmSpec*, std::vector<int>>> alike;
  for (size_t i = 0; i < specs.size(); ++i) {
    const auto same = std::find_if(alike.begin(), alike.end(), [&](const auto& a) { return *a.first == specs[i]; });
    if (same == alike.end()) {
      alike.push_back({&specs[i], {static_cast<int>(i)}});
    } else {
      same->second.push_back(static_cast<int>(i));
    }
  }
  std::vector<std::vector<int>> buckets;
  std::vector<std::vector<const VllmSpec*>> bucket_specs;
  for (auto& [spec, layers] : alike) {
    size_t at = 0;
    for (; at < buckets.size(); ++at) {
      std::vector<const VllmSpec*> candidate = bucket_specs[at];
      candidate.push_back(spec);
      if (MergeVllmSpecs(candidate) == VllmMerge::kSame) break;
    }
    if (at == buckets.size()) {
      buckets.push_back(layers);
      bucket_specs.push_back({spec});
    } else {
      buckets[at].insert(buckets[at].end(), layers.begin(), layers.end());
      bucket_specs[at].push_back(spec);
    }
  }
  return buckets;
}

void SplitBuckets(VllmGrouping& grouping) {
  const std::vector<std::vector<int>> buckets = Buckets(grouping.specs);
  size_t smallest = buckets.front().size();
  size_t largest = smallest;
  for (const auto& bucket : buckets) {
    smallest = std::min(smallest, bucket.size());
    largest = std::max(largest, bucket.size());
  }
  const bool nearly_equal = static_cast<double>(largest) < static_cast<double>(smallest) * 1.5;
  const size_t group_size = nearly_equal ? largest : smallest;
  grouping.group_size = static_cast<int>(group_size);
  for (const auto& bucket : buckets) {
    const size_t rest = bucket.size() % group_size;
    if (rest != 0) {
      const size_t padding = group_size - rest;
      grouping.padding_layers += static_cast<int64_t>(padding);
      grouping.log_lines.push_back(
          fmt::format("Add {} padding layers, may waste at most {:.2f}% KV cache memory", padding,
                      static_cast<double>(padding) / static_cast<double>(bucket.size()) * 100));
    }
    const size_t count = (bucket.size() + group_size - 1) / group_size;
    for (size_t i = 0; i < count; ++i) {
      VllmGroup group;
      for (size_t at = i; at < bucket.size(); at += count) group.layers.push_back(bucket[at]);
      group.representative = group.layers.front();
      grouping.groups.push_back(std::move(group));
    }
  }
}

}  // namespace

VllmGrouping GroupVllmLayers(std::vector<VllmSpec> specs, bool hybrid_manager, const VllmRules& rules) {
  VllmGrouping grouping;
  grouping.specs = std::move(specs);
  if (grouping.specs.empty()) return grouping;
  if (!hybrid_manager) TurnManagerOff(grouping, rules);
  if (!grouping.refusal.empty()) return grouping;
  const VllmMerge merge = MergeVllmSpecs(Pointers(grouping.specs));
  if (merge == VllmMerge::kWindowClash) {
    grouping.refusal = "All attention layers in the same KV cache group must have the same window size.";
  } else if (merge == VllmMerge::kSame) {
    OneGroup(grouping, false);
  } else if (IsUniformVllmType(grouping.specs)) {
    OneGroup(grouping, true);
  } else {
    const std::vector<VllmSpec> original = grouping.specs;
    if (UnifyPages(grouping.specs, rules)) {
      SplitBuckets(grouping);
    } else if (FallBackToFullAllocation(grouping, original)) {
      OneGroup(grouping, true);
    } else {
      grouping.refusal = CannotUnify(rules);
    }
  }
  return grouping;
}

int64_t VllmBytesPerBlock(const VllmGrouping& grouping, const std::vector<bool>& on_rank) {
  int64_t largest = 0;
  for (const VllmGroup& group : grouping.groups) {
    int64_t bytes = 0;
    for (const int layer : group.layers) {
      if (on_rank.empty() || on_rank[layer]) bytes += grouping.specs[layer].Page();
    }
    largest = std::max(largest, bytes);
  }
  return largest;
}

int64_t VllmBlocksPerRequest(const VllmGrouping& grouping, const VllmRequestShape& shape) {
  int64_t blocks = 0;
  for (const VllmGroup& group : grouping.groups) {
    int64_t most = 0;
    for (const int layer : group.layers) {
      most = std::max(most, VllmBlocksPerRequest(grouping.specs[layer], shape));
      if (!group.layers_differ) break;
    }
    blocks += most;
  }
  return blocks;
}

}  // namespace haypile
