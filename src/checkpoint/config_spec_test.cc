#include "checkpoint/config_spec.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>

#include "base/file.h"
#include "base/json.h"

namespace haypile {
namespace {

Json SmallConfig(const std::string& model_type) {
  return Json{{"model_type", model_type}, {"hidden_size", 64},
              {"intermediate_size", 96},  {"num_hidden_layers", 12},
              {"num_attention_heads", 4}, {"num_key_value_heads", 2},
              {"vocab_size", 100},        {"max_position_embeddings", 1000},
              {"rms_norm_eps", 1e-5}};
}

Result<ModelSpec> Read(const Json& config) { return ModelSpecFromConfig("c.json", DumpJson(config)); }

ModelSpec Spec(const Json& config) {
  Result<ModelSpec> spec = Read(config);
  EXPECT_TRUE(spec.ok()) << spec.error().message();
  return std::move(spec).value();
}

TEST(ConfigSpec, PublicModels) {
  const std::string text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/model_configs.jsonl").value();
  int read = 0, refused = 0;
  for (size_t start = 0, end; (end = text.find('\n', start)) != std::string::npos; start = end + 1) {
    const Json row = ParseJson(std::string_view(text).substr(start, end - start)).value();
    const std::string model = row["model"].get<std::string>();
    const Result<ModelSpec> spec = Read(row["config"]);
    if (row.contains("unsupported")) {
      ASSERT_FALSE(spec.ok()) << model;
      EXPECT_EQ(spec.error().code(), ErrorCode::kUnsupported) << model << ": " << spec.error().message();
      EXPECT_NE(spec.error().message().find(row["unsupported"].get<std::string>()), std::string::npos)
          << model << ": " << spec.error().message();
      ++refused;
      continue;
    }
    ASSERT_TRUE(spec.ok()) << model << ": " << spec.error().message();
    const Json& wanted = row["expect"];
    EXPECT_EQ(FamilyName(spec->family), wanted["family"]) << model;
    EXPECT_EQ(spec->layer_count, wanted["layers"]) << model;
    EXPECT_EQ(spec->query_heads, wanted["query_heads"]) << model;
    EXPECT_EQ(spec->kv_heads, wanted["kv_heads"]) << model;
    EXPECT_EQ(spec->head_dim, wanted["head_dim"]) << model;
    EXPECT_EQ(spec->hidden_size, wanted["hidden"]) << model;
    EXPECT_EQ(spec->max_positions, wanted["context"]) << model;
    EXPECT_EQ(spec->tied_output, wanted["tied"]) << model;
    const int window = wanted["window"];
    const auto slides = [window](const LayerSpec& layer) { return layer.window == window && window > 0; };
    EXPECT_EQ(std::count_if(spec->layers.begin(), spec->layers.end(), slides), wanted["sliding_layers"]) << model;
    ++read;
  }
  EXPECT_EQ(read, 15);
  EXPECT_EQ(refused, 8);
}

TEST(ConfigSpec, LlamaDefaults) {
  Json config = SmallConfig("llama");
  config["num_key_value_heads"] = nullptr;
  config.erase("rms_norm_eps");
  const ModelSpec spec = Spec(config);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 16);
  EXPECT_EQ(spec.query_scale, 0.25f);
  EXPECT_EQ(spec.norm_epsilon, 1e-6f);
  EXPECT_EQ(spec.rope.theta, 10000.0);
  EXPECT_EQ(spec.rope.kind, RopeKind::kDefault);
  EXPECT_FALSE(spec.tied_output || spec.qkv_bias || spec.qk_norm);
  EXPECT_EQ(spec.embedding_scale, 1.0f);
  EXPECT_EQ(spec.layers.size(), 12u);
}

TEST(ConfigSpec, HeadDimOfItsOwn) {
  Json config = SmallConfig("mistral");
  config["head_dim"] = 32;
  EXPECT_EQ(Spec(config).head_dim, 32);
  config["head_dim"] = nullptr;
  EXPECT_EQ(Spec(config).head_dim, 16);
  EXPECT_EQ(Spec(SmallConfig("qwen3")).head_dim, 128);
  EXPECT_TRUE(Spec(SmallConfig("qwen3")).qk_norm);
  EXPECT_TRUE(Spec(SmallConfig("qwen2")).qkv_bias);
}

TEST(ConfigSpec, SlidingWindows) {
  Json mistral = SmallConfig("mistral");
  mistral["sliding_window"] = 512;
  for (const LayerSpec& layer : Spec(mistral).layers) {
    EXPECT_EQ(layer.window, 512);
    EXPECT_FALSE(layer.uses_local_rope);
  }
  Json qwen = SmallConfig("qwen2");
  qwen["sliding_window"] = 256;
  qwen["max_window_layers"] = 10;
  EXPECT_EQ(Spec(qwen).layers[11].window, 0);
  qwen["use_sliding_window"] = true;
  const ModelSpec spec = Spec(qwen);
  EXPECT_EQ(spec.layers[9].window, 0);
  EXPECT_EQ(spec.layers[10].window, 256);
  EXPECT_EQ(spec.layers[11].window, 256);
  qwen["layer_types"] = Json::array();
  for (int i = 0; i < 12; ++i) qwen["layer_types"].push_back(i == 3 ? "sliding_attention" : "full_attention");
  EXPECT_EQ(Spec(qwen).layers[3].window, 256);
  EXPECT_EQ(Spec(qwen).layers[11].window, 0);
}

TEST(ConfigSpec, Gemma3InEitherForm) {
  Json text = SmallConfig("gemma3_text");
  text["head_dim"] = 32;
  text["query_pre_attn_scalar"] = 64;
  text["sliding_window"] = 100;
  text["rope_scaling"] = {{"rope_type", "linear"}, {"factor", 8.0}};
  for (const bool nested : {false, true}) {
    const ModelSpec spec = Spec(nested ? Json{{"model_type", "gemma3"}, {"text_config", text}} : text);
    EXPECT_EQ(spec.family, ModelFamily::kGemma3);
    EXPECT_EQ(spec.query_scale, 0.125f);
    EXPECT_EQ(spec.embedding_scale, 8.0f);
    EXPECT_TRUE(spec.tied_output && spec.qk_norm);
    EXPECT_EQ(spec.rope.theta, 1e6);
    EXPECT_EQ(spec.rope.kind, RopeKind::kLinear);
    EXPECT_EQ(spec.rope.factor, 8.0);
    EXPECT_EQ(spec.local_rope.theta, 1e4);
    EXPECT_EQ(spec.local_rope.kind, RopeKind::kDefault);
    for (size_t i = 0; i < 12; ++i) {
      const bool full = i == 5 || i == 11;
      EXPECT_EQ(spec.layers[i].window, full ? 0 : 100) << i;
      EXPECT_EQ(spec.layers[i].uses_local_rope, !full) << i;
    }
  }
  text["sliding_window_pattern"] = 2;
  EXPECT_EQ(Spec(text).layers[1].window, 0);
  EXPECT_EQ(Spec(text).layers[2].window, 100);
  text["layer_types"] = std::vector<std::string>(12, "full_attention");
  EXPECT_EQ(Spec(text).layers[2].window, 0);
}

TEST(ConfigSpec, Gemma3LeavesOutWhatItsFamilyImplies) {
  const ModelSpec spec = Spec(Json{{"model_type", "gemma3"},
                                   {"text_config",
                                    {{"model_type", "gemma3_text"},
                                     {"hidden_size", 2560},
                                     {"intermediate_size", 10240},
                                     {"num_hidden_layers", 34},
                                     {"rope_scaling", {{"factor", 8.0}, {"rope_type", "linear"}}},
                                     {"sliding_window", 1024}}}});
  EXPECT_EQ(spec.query_heads, 8);
  EXPECT_EQ(spec.kv_heads, 4);
  EXPECT_EQ(spec.head_dim, 256);
  EXPECT_EQ(spec.query_scale, 0.0625f);
  EXPECT_EQ(spec.vocabulary_size, 262208);
  EXPECT_EQ(spec.max_positions, 131072);
}

TEST(ConfigSpec, RopeKinds) {
  Json config = SmallConfig("llama");
  config["rope_theta"] = 5e5;
  config["rope_scaling"] = {{"rope_type", "llama3"},
                            {"factor", 32.0},
                            {"low_freq_factor", 1.0},
                            {"high_freq_factor", 4.0},
                            {"original_max_position_embeddings", 8192}};
  const RopeSpec llama3 = Spec(config).rope;
  EXPECT_EQ(llama3.kind, RopeKind::kLlama3);
  EXPECT_EQ(llama3.theta, 5e5);
  EXPECT_EQ(llama3.factor, 32.0);
  EXPECT_EQ(llama3.original_max_position, 8192);

  config["rope_scaling"] = {{"type", "yarn"}, {"factor", 4.0}, {"original_max_position_embeddings", 1000}};
  const ModelSpec yarn = Spec(config);
  EXPECT_EQ(yarn.rope.kind, RopeKind::kYarn);
  EXPECT_EQ(yarn.rope.original_max_position, 1000);
  EXPECT_FALSE(yarn.rope.attention_factor.has_value());
  EXPECT_EQ(yarn.max_positions, 4000);
  config["rope_scaling"]["attention_factor"] = 1.5;
  EXPECT_EQ(Spec(config).rope.attention_factor, 1.5);
  config["rope_scaling"].erase("attention_factor");
  config["rope_scaling"]["mscale"] = 2.0;
  config["rope_scaling"]["mscale_all_dim"] = 1.0;
  const double log4 = std::log(4.0);
  EXPECT_DOUBLE_EQ(Spec(config).rope.attention_factor.value(), (0.2 * log4 + 1) / (0.1 * log4 + 1));

  config.erase("rope_scaling");
  config.erase("rope_theta");
  config["rope_parameters"] = {{"rope_type", "linear"}, {"factor", 2.0}, {"rope_theta", 7e4}};
  EXPECT_EQ(Spec(config).rope.kind, RopeKind::kLinear);
  EXPECT_EQ(Spec(config).rope.theta, 7e4);
}

TEST(ConfigSpec, RopeParametersByLayerType) {
  Json config = SmallConfig("gemma3_text");
  config["rope_parameters"] = {{"full_attention", {{"rope_type", "linear"}, {"factor", 8.0}, {"rope_theta", 1e6}}},
                               {"sliding_attention", {{"rope_type", "default"}, {"rope_theta", 2e4}}}};
  const ModelSpec spec = Spec(config);
  EXPECT_EQ(spec.rope.kind, RopeKind::kLinear);
  EXPECT_EQ(spec.local_rope.kind, RopeKind::kDefault);
  EXPECT_EQ(spec.local_rope.theta, 2e4);
  config["model_type"] = "llama";
  EXPECT_EQ(Read(config).error().code(), ErrorCode::kUnsupported);
}

struct Change {
  const char* model_type;
  const char* field;
  Json value;
  const char* text;
};

void ExpectRefused(const std::vector<Change>& changes, ErrorCode code) {
  for (const Change& change : changes) {
    Json config = SmallConfig(change.model_type);
    config[change.field] = change.value;
    const Result<ModelSpec> spec = Read(config);
    ASSERT_FALSE(spec.ok()) << change.field << " = " << DumpJson(change.value, -1);
    EXPECT_EQ(spec.error().code(), code) << spec.error().message();
    EXPECT_NE(spec.error().message().find(change.text), std::string::npos) << spec.error().message();
    EXPECT_TRUE(spec.error().message().starts_with("'c.json': ")) << spec.error().message();
  }
}

TEST(ConfigSpec, UnsupportedFeaturesAreNamed) {
  ExpectRefused(
      {
          {"llama", "model_type", "gpt_neox", "architecture 'gpt_neox' is not supported"},
          {"qwen3", "num_experts", 8, "a mixture of experts (field 'num_experts')"},
          {"mistral", "num_local_experts", 8, "a mixture of experts"},
          {"llama", "kv_lora_rank", 512, "multi-head latent attention"},
          {"gemma3_text", "attn_logit_softcapping", 50.0, "a soft cap on attention logits"},
          {"gemma3_text", "final_logit_softcapping", 30.0, "a soft cap on output logits"},
          {"gemma3_text", "use_bidirectional_attention", true, "not causal"},
          {"llama", "quantization_config", {{"quant_method", "fp8"}}, "has quant_method 'fp8'"},
          {"llama", "attention_bias", true, "biases in attention"},
          {"qwen3", "attention_bias", true, "biases in attention"},
          {"llama", "mlp_bias", true, "biases in the feed-forward"},
          {"llama", "hidden_act", "gelu", "'hidden_act' is 'gelu'"},
          {"gemma3_text", "hidden_activation", "gelu", "only 'gelu_pytorch_tanh'"},
          {"llama", "sliding_window", 100, "architecture 'llama' has no sliding window"},
          {"llama", "partial_rotary_factor", 0.5, "a part of the head"},
          {"llama", "rope_scaling", {{"type", "dynamic"}, {"factor", 2.0}}, "RoPE type 'dynamic'"},
          {"llama", "rope_scaling", {{"type", "longrope"}, {"factor", 2.0}}, "RoPE type 'longrope'"},
          {"qwen2", "rope_scaling", {{"type", "default"}, {"mrope_section", {1, 2}}}, "multimodal RoPE"},
          {"llama",
           "rope_scaling",
           {{"rope_type", "yarn"}, {"factor", 2.0}, {"truncate", false}},
           "YaRN without truncation"},
          {"qwen3", "layer_types", std::vector<std::string>(12, "linear_attention"), "is 'linear_attention'"},
      },
      ErrorCode::kUnsupported);
}

TEST(ConfigSpec, MalformedFieldsAreNamed) {
  ExpectRefused(
      {
          {"llama", "model_type", nullptr, "field 'model_type' is missing"},
          {"llama", "hidden_size", nullptr, "field 'hidden_size' is missing"},
          {"llama", "hidden_size", "64", "field 'hidden_size' is not an integer"},
          {"llama", "hidden_size", -64, "field 'hidden_size' is -64"},
          {"llama", "hidden_size", 0, "hidden size is 0"},
          {"llama", "hidden_size", 66, "hidden size 66 is no multiple of 4 heads"},
          {"llama", "num_hidden_layers", 1000000000, "layer count is 1000000000"},
          {"llama", "num_hidden_layers", 1e3, "field 'num_hidden_layers' is not an integer"},
          {"llama", "num_attention_heads", 0, "0 heads"},
          {"llama", "num_key_value_heads", 3, "4 query heads are no multiple of 3 KV heads"},
          {"llama", "head_dim", 15, "head dim 15 is odd"},
          {"llama", "vocab_size", uint64_t{1} << 63, "field 'vocab_size' is not an integer"},
          {"llama", "max_position_embeddings", 0, "context length is 0"},
          {"llama", "rms_norm_eps", 0.0, "epsilon"},
          {"llama", "tie_word_embeddings", 1, "field 'tie_word_embeddings' is not true or false"},
          {"llama", "rope_theta", -1, "RoPE parameter"},
          {"llama", "rope_scaling", 3, "field 'rope_scaling' is not an object"},
          {"llama", "rope_scaling", {{"type", "linear"}}, "field 'rope_scaling.factor' is missing"},
          {"llama",
           "rope_scaling",
           {{"type", "linear"}, {"factor", 0}},
           "'rope_scaling.factor' is not a number from 1"},
          {"llama",
           "rope_scaling",
           {{"rope_type", "llama3"}, {"factor", 8.0}},
           "field 'rope_scaling.low_freq_factor' is missing"},
          {"gemma3_text", "query_pre_attn_scalar", 0, "query or embedding scale"},
          {"gemma3_text", "sliding_window", 0, "field 'sliding_window' is 0"},
          {"gemma3_text", "layer_types", {"full_attention"}, "is not an array of 12 layers"},
          {"gemma3_text", "sliding_window_pattern", 0, "field 'sliding_window_pattern' is 0"},
      },
      ErrorCode::kMalformed);
  EXPECT_EQ(ModelSpecFromConfig("c.json", "[]").error().code(), ErrorCode::kMalformed);
  EXPECT_EQ(ModelSpecFromConfig("c.json", "{").error().code(), ErrorCode::kMalformed);
  EXPECT_EQ(ModelSpecFromConfig("c.json", "{\"model_type\":\"gemma3\"}").error().code(), ErrorCode::kMalformed);
}

}  // namespace
}  // namespace haypile
