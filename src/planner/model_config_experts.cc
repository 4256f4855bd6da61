#include <algorithm>

#include "base/json.h"
#include "planner/model_config_shape.h"

namespace haypile {
namespace {

// One flag a layer: whether it routes to experts.
using ExpertLayers = std::vector<bool>;

Status ReadLayerKinds(const ConfigObject& config, ExpertLayers* experts) {
  HAYPILE_TRY_ASSIGN(const std::vector<std::string> kinds, config.Strings("mlp_layer_types"));
  if (kinds.size() != experts->size()) return config.Unexpected("mlp_layer_types", "one entry for each layer");
  for (size_t i = 0; i < kinds.size(); ++i) (*experts)[i] = kinds[i] != "dense";
  return {};
}

// DeepSeek and its kin: the first layers are dense, then every moe_layer_freq-th routes, or a list says which.
Status ReadDenseStart(const ConfigObject& config, ExpertLayers* experts) {
  HAYPILE_TRY_ASSIGN(const int64_t dense,
                     config.IntOf({"first_k_dense_replace", "num_dense_layers"}, 0, kMaxLayers, 0));
  const Json* frequency = config.Find("moe_layer_freq");
  if (frequency != nullptr && frequency->is_array()) {
    HAYPILE_TRY_ASSIGN(const std::vector<int64_t> list, config.Ints("moe_layer_freq", 0, kMaxLayers));
    if (list.size() != experts->size()) return config.Unexpected("moe_layer_freq", "one entry for each layer");
    for (size_t i = 0; i < list.size(); ++i) (*experts)[i] = list[i] != 0;
    return {};
  }
  HAYPILE_TRY_ASSIGN(const int64_t every, config.Int("moe_layer_freq", 1, kMaxLayers, 1));
  for (size_t i = 0; i < experts->size(); ++i) {
    const int64_t layer = static_cast<int64_t>(i);
    (*experts)[i] = layer >= dense && layer % every == 0;
  }
  return {};
}

// Qwen: every decoder_sparse_step-th layer, except those in mlp_only_layers.
Status ReadSparseStep(const ConfigObject& config, ExpertLayers* experts) {
  HAYPILE_TRY_ASSIGN(const int64_t step, config.Int("decoder_sparse_step", 1, kMaxLayers, 1));
  for (size_t i = 0; i < experts->size(); ++i) (*experts)[i] = static_cast<int64_t>(i + 1) % step == 0;
  if (!config.IsSet("mlp_only_layers")) return {};
  HAYPILE_TRY_ASSIGN(const std::vector<int64_t> dense,
                     config.Ints("mlp_only_layers", 0, static_cast<int64_t>(experts->size()) - 1));
  for (const int64_t layer : dense) (*experts)[static_cast<size_t>(layer)] = false;
  return {};
}

// Jamba: index % period == offset.
Status ReadExpertPeriod(const ConfigObject& config, ExpertLayers* experts) {
  HAYPILE_TRY_ASSIGN(const int64_t period, config.Int("expert_layer_period", 1, kMaxLayers));
  HAYPILE_TRY_ASSIGN(const int64_t offset, config.Int("expert_layer_offset", 0, period - 1));
  for (size_t i = 0; i < experts->size(); ++i) (*experts)[i] = static_cast<int64_t>(i) % period == offset;
  return {};
}

// Llama 4: a list, or the last of every interleave_moe_layer_step.
Status ReadInterleaved(const ConfigObject& config, ExpertLayers* experts) {
  if (config.IsSet("moe_layers")) {
    HAYPILE_TRY_ASSIGN(const std::vector<int64_t> list,
                       config.Ints("moe_layers", 0, static_cast<int64_t>(experts->size()) - 1));
    experts->assign(experts->size(), false);
    for (const int64_t layer : list) (*experts)[static_cast<size_t>(layer)] = true;
    return {};
  }
  HAYPILE_TRY_ASSIGN(const int64_t step, config.Int("interleave_moe_layer_step", 1, kMaxLayers, 1));
  for (size_t i = 0; i < experts->size(); ++i) (*experts)[i] = (static_cast<int64_t>(i) + 1) % step == 0;
  return {};
}

Status PlaceExperts(const ConfigObject& config, ExpertLayers* experts) {
  if (config.IsSet("mlp_layer_types")) return ReadLayerKinds(config, experts);
  if (config.Has("expert_layer_period")) return ReadExpertPeriod(config, experts);
  if (config.Has("interleave_moe_layer_step") || config.Has("moe_layers")) return ReadInterleaved(config, experts);
  if (config.Has("decoder_sparse_step")) return ReadSparseStep(config, experts);
  return ReadDenseStart(config, experts);
}

}  // namespace

Status ReadExpertBlocks(const ConfigObject& config, ModelShape* shape) {
  HAYPILE_TRY_ASSIGN(const int64_t count,
                     config.IntOf({"num_experts", "num_local_experts", "n_routed_experts"}, 0, kMaxHeads, 0));
  if (count == 0 || shape->family.state == StateFields::kMamba2Nemotron) return {};
  ExpertLayers experts(shape->blocks.size(), true);
  HAYPILE_TRY(PlaceExperts(config, &experts));
  HAYPILE_TRY_ASSIGN(const bool beside_dense, config.Bool("enable_moe_block", false));
  for (size_t i = 0; i < experts.size(); ++i) {
    BlockPlan& block = shape->blocks[i];
    if (!experts[i] || block.feed_forward == FeedForward::kNone) continue;
    block.feed_forward = beside_dense ? FeedForward::kDenseAndExperts : FeedForward::kExperts;
  }
  return {};
}

}  // namespace haypile
