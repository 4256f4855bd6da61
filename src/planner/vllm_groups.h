#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/vllm_specs.h"
#include "planner/vllm_versions.h"

namespace haypile {

// Layers that share one block table; a request draws from each group as many blocks as its spec needs.
struct VllmGroup {
  std::vector<int> layers;     // indices into VllmGrouping::specs
  bool layers_differ = false;  // one block holds pages of unlike sizes (UniformTypeKVCacheSpecs)
  int representative = 0;      // the layer whose spec stands for the group
};

struct VllmGrouping {
  std::vector<VllmSpec> specs;  // one a layer, after pages were made equal
  std::vector<VllmGroup> groups;
  int group_size = 0;          // layers of the largest group
  int64_t padding_layers = 0;  // slots of smaller groups that hold nothing
  std::vector<std::string> log_lines;
  std::string refusal;  // not empty: vLLM stops with these words
};

// Splits layers into groups as get_kv_cache_groups does. `specs` in the order in which the layers register.
VllmGrouping GroupVllmLayers(std::vector<VllmSpec> specs, bool hybrid_manager, const VllmRules& rules);

// Bytes that one block takes on the rank that holds the layers for which `on_rank` is true (empty: all).
int64_t VllmBytesPerBlock(const VllmGrouping& grouping, const std::vector<bool>& on_rank);
int64_t VllmBlocksPerRequest(const VllmGrouping& grouping, const VllmRequestShape& shape);

}  // namespace haypile
