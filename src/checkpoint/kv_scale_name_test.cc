#include "checkpoint/kv_scale_name.h"

#include <gtest/gtest.h>

namespace haypile {
namespace {

TEST(KvScaleNameTest, KnowsEachFamily) {
  const struct {
    const char* name;
    KvScaleFamily family;
    KvScaleSide side;
    int layer;
  } cases[] = {
      {"model.layers.3.self_attn.k_scale", KvScaleFamily::kAttention, KvScaleSide::kK, 3},
      {"backbone.layers.12.mixer.v_scale", KvScaleFamily::kAttention, KvScaleSide::kV, 12},
      {"model.layers.0.self_attn.attn.k_scale", KvScaleFamily::kEngine, KvScaleSide::kK, 0},
      {"model.layers.27.self_attn.k_proj.k_scale", KvScaleFamily::kProjection, KvScaleSide::kK, 27},
      {"backbone.layers.5.mixer.v_proj.v_scale", KvScaleFamily::kProjection, KvScaleSide::kV, 5},
      {"model.layers.1.self_attn.qkv_proj.k_scale", KvScaleFamily::kFused, KvScaleSide::kK, 1},
      {"model.layers.1.self_attn.v_proj.output_scale", KvScaleFamily::kOutput, KvScaleSide::kV, 1},
      {"transformer.h.9.attn.kv_scale", KvScaleFamily::kShared, KvScaleSide::kBoth, 9},
      {"transformer.layers.2.attention.kv_cache_scaling_factor", KvScaleFamily::kTrtLlm, KvScaleSide::kBoth, 2},
      {"model.layers.4.self_attn.k_bmm_quantizer._amax", KvScaleFamily::kBmmQuantizer, KvScaleSide::kK, 4},
      {"model.layers.4.self_attn.v_cache.scale", KvScaleFamily::kCacheModule, KvScaleSide::kV, 4},
  };
  for (const auto& test : cases) {
    const auto name = ParseKvScaleName(test.name);
    ASSERT_TRUE(name.has_value()) << test.name;
    EXPECT_EQ(name->family, test.family) << test.name;
    EXPECT_EQ(name->side, test.side) << test.name;
    EXPECT_EQ(name->place.layer, test.layer) << test.name;
  }
}

TEST(KvScaleNameTest, WeightScalesAreNotKvScales) {
  for (const char* name :
       {"model.layers.0.self_attn.k_proj.weight_scale", "model.layers.0.self_attn.k_proj.weight_scale_inv",
        "model.layers.0.self_attn.v_proj.input_scale", "model.layers.0.self_attn.o_proj.output_scale",
        "model.layers.0.mlp.down_proj.output_scale", "model.layers.0.self_attn.k_proj.bias", "lm_head.weight",
        "k_scale", "model.layers.0.self_attn.indexer.k_scale", "model.layers.0.self_attn.k_norm.weight"}) {
    EXPECT_FALSE(ParseKvScaleName(name).has_value()) << name;
  }
}

TEST(KvScaleNameTest, PlacesLayersOfAnyPrefix) {
  EXPECT_EQ(PlaceOfTensor("language_model.model.layers.7.self_attn.k_scale").layer, 7);
  EXPECT_EQ(PlaceOfTensor("encoder.language_model.layers.8.mlp.experts.3.up_proj.weight").layer, 8);
  EXPECT_EQ(PlaceOfTensor("encoder.language_model.layers.8.x").stack, LayerStack::kDecoder);
  EXPECT_EQ(PlaceOfTensor("encoder.layers.8.x").stack, LayerStack::kEncoder);
  EXPECT_EQ(PlaceOfTensor("vision_tower.encoder.layers.8.x").stack, LayerStack::kTower);
  EXPECT_EQ(PlaceOfTensor("mtp.layers.0.self_attn.k_scale").stack, LayerStack::kMtp);
  EXPECT_EQ(PlaceOfTensor("model.norm.weight").layer, -1);
  for (const char* prefix :
       {"gpt_neox.layers", "transformer.blocks", "model.decoder.layers", "backbone.layers", "layers",
        "transformer.encoder.layers", "thinker.model.layers", "model.language_model.layers", "h"}) {
    const TensorPlace place = PlaceOfTensor(std::string(prefix) + ".12.self_attn.k_scale");
    EXPECT_EQ(place.layer, 12) << prefix;
    EXPECT_EQ(place.prefix, prefix);
    EXPECT_EQ(place.stack, LayerStack::kDecoder) << prefix;
  }
  EXPECT_EQ(PlaceOfTensor("talker.model.layers.3.self_attn.k_scale").stack, LayerStack::kTower);
}

}  // namespace
}  // namespace haypile
