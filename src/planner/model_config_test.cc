#include "planner/model_config.h"

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>
#include <vector>

#include "base/json.h"

namespace haypile {
namespace {

std::string Heads(const LayerGeometry& layer) {
  const std::string k = std::to_string(layer.kv_heads) + "x" + std::to_string(layer.head_dim_k);
  return layer.head_dim_v == layer.head_dim_k ? k : k + "/" + std::to_string(layer.head_dim_v);
}

std::string StateText(const StateShape& state) {
  const auto number = [](int64_t value) { return std::to_string(value); };
  std::string text = "state " + StateKindName(state.kind) + " conv " + number(state.conv_kernel);
  if (state.key_heads != 0) {
    text += " keys " + number(state.key_heads) + "x" + number(state.key_head_dim) + " values ";
    return text + number(state.value_heads) + "x" + number(state.value_head_dim);
  }
  if (state.value_heads != 0) text += " heads " + number(state.value_heads) + "x" + number(state.value_head_dim);
  text += " width " + number(state.intermediate);
  if (state.state_size != 0) text += " state " + number(state.state_size);
  if (state.groups != 0) text += " groups " + number(state.groups);
  if (state.chunk_size != 0) text += " chunk " + number(state.chunk_size);
  return text;
}

std::string LayerText(const LayerGeometry& layer) {
  const std::string window = layer.window == 0 ? "" : " w" + std::to_string(layer.window);
  switch (layer.cache) {
    case CacheKind::kNone:
      return layer.kv_shared_with < 0 ? "none" : "none reads " + std::to_string(layer.kv_shared_with);
    case CacheKind::kFullAttention:
      return "full " + Heads(layer) + window;
    case CacheKind::kSlidingWindow:
      return "sliding " + Heads(layer) + window;
    case CacheKind::kChunkedAttention:
      return "chunked " + Heads(layer) + window;
    case CacheKind::kCrossAttention:
      return "cross " + Heads(layer) + window;
    case CacheKind::kStateSpace:
      return StateText(layer.state);
    case CacheKind::kMla:
      break;
  }
  std::string text = "mla " + std::to_string(layer.kv_lora_rank) + "+" + std::to_string(layer.rope_dim);
  text += " heads " + Heads(layer);
  if (layer.index_head_dim != 0) text += " index " + std::to_string(layer.index_head_dim);
  text += window;
  return layer.compress_ratio == 1 ? text : text + " /" + std::to_string(layer.compress_ratio);
}

// "3*sliding 8x128 w4096 | full 8x128": equal neighbours counted.
std::string LayersText(const std::vector<LayerGeometry>& layers) {
  std::string text;
  for (size_t i = 0; i < layers.size();) {
    const std::string one = LayerText(layers[i]);
    size_t end = i + 1;
    while (end < layers.size() && LayerText(layers[end]) == one) ++end;
    if (!text.empty()) text += " | ";
    text += (end - i == 1 ? "" : std::to_string(end - i) + "*") + one;
    i = end;
  }
  return text;
}

void ExpectField(const Json& test, const char* field, const Json& actual) {
  if (!test.contains(field)) return;
  if (test[field].is_number_float() || actual.is_number_float()) {
    EXPECT_NEAR(test[field].get<double>(), actual.get<double>(), 1e-9 + 0.01 * actual.get<double>()) << field;
  } else {
    EXPECT_EQ(test[field], actual) << field;
  }
}

void ExpectGeometry(const Json& test, const ModelGeometry& model) {
  EXPECT_EQ(LayersText(model.layers), test["layers"].get<std::string>());
  EXPECT_EQ(LayersText(model.mtp_layers), test.value("mtp", std::string()));
  ExpectField(test, "kv_heads", model.generic_kv_heads);
  ExpectField(test, "head_dim", model.generic_head_dim);
  ExpectField(test, "query_heads", model.query_heads);
  ExpectField(test, "max_positions", model.max_positions);
  ExpectField(test, "encoder_tokens", model.encoder_tokens);
  ExpectField(test, "model_type", model.model_type);
  ExpectField(test, "weights", model.weights.name);
  ExpectField(test, "assumed", model.weights.assumed);
  ExpectField(test, "dtype_bytes", model.model_dtype_bytes);
  ExpectField(test, "state_bytes", model.state_dtype_bytes);
  ExpectField(test, "kv", model.checkpoint_kv_dtype);
  ExpectField(test, "method", model.quantization_method);
  ExpectField(test, "parameters_b", static_cast<double>(model.parameters) / 1e9);
  EXPECT_DOUBLE_EQ(model.weights.bits, test.value("bits", model.weights.bits));
  EXPECT_EQ(model.attention_sinks, test.value("sinks", false));
  EXPECT_EQ(!model.checkpoint_kv_conflict.empty(), test.value("conflict", false));
}

void ExpectCase(const Json& test) {
  SCOPED_TRACE(test["name"].get<std::string>());
  const std::string text = test.contains("text") ? test["text"].get<std::string>() : DumpJson(test["config"], -1);
  const std::string hf_quant = test.contains("hf_quant") ? DumpJson(test["hf_quant"], -1) : "";
  const Result<ModelGeometry> model = ParseModelConfig(text, "the model", hf_quant);
  if (!test.contains("error")) {
    ASSERT_TRUE(model.ok()) << model.error().message();
    ExpectGeometry(test, *model);
    return;
  }
  ASSERT_FALSE(model.ok()) << LayersText(model->layers);
  EXPECT_EQ(InfoOf(model.error().code()).name, test["error"].get<std::string>()) << model.error().message();
  EXPECT_NE(model.error().message().find(test["contains"].get<std::string>()), std::string::npos)
      << model.error().message();
  EXPECT_EQ(model.error().message().rfind("'the model': ", 0), 0U) << model.error().message();
}

std::string ReadText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  EXPECT_TRUE(file.good()) << path;
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

// testdata/config_cases.jsonl: a config (or `text`) and the layers it must give, equal neighbours counted, or the
// error.
TEST(ModelConfig, MeetsEveryCase) {
  std::stringstream lines(ReadText(HAYPILE_TESTDATA_DIR "/config_cases.jsonl"));
  int cases = 0;
  for (std::string line; std::getline(lines, line); ++cases) {
    const Result<Json> test = ParseJson(line);
    ASSERT_TRUE(test.ok()) << line;
    ExpectCase(*test);
  }
  EXPECT_GE(cases, 120);
}

struct MeasuredConfig {
  const char* file;
  const char* layers;
};

// The configs of the measured vLLM runs.
TEST(ModelConfig, ReadsTheConfigsOfTheMeasuredRuns) {
  const MeasuredConfig configs[] = {
      {"llama-8b", "32*full 8x128"},
      {"llama-mha", "16*full 32x64"},
      {"llama-mqa", "24*full 1x128"},
      {"qwen2-7b", "28*full 4x128"},
      {"qwen3-32b", "64*full 8x128"},
      {"mistral-sw", "32*sliding 8x128 w4096"},
      {"deepseek-v3", "61*mla 512+64 heads 16x192/128"},
  };
  for (const MeasuredConfig& config : configs) {
    const std::string path = std::string(HAYPILE_TESTDATA_DIR "/configs/vllm-pools/") + config.file + ".json";
    const Result<ModelGeometry> model = ParseModelConfig(ReadText(path), config.file);
    ASSERT_TRUE(model.ok()) << model.error().message();
    EXPECT_EQ(LayersText(model->layers), config.layers) << config.file;
  }
}

// How many layers of each kind the other measured configs have.
TEST(ModelConfig, CountsTheLayersOfHybrids) {
  struct Counts {
    const char* file;
    CacheKind kind;
    int of_kind;
    int full;
  };
  const Counts configs[] = {
      {"cohere2", CacheKind::kSlidingWindow, 24, 8},          {"gemma2-9b", CacheKind::kSlidingWindow, 21, 21},
      {"gemma3-1b", CacheKind::kSlidingWindow, 22, 4},        {"gemma3-270m", CacheKind::kSlidingWindow, 15, 3},
      {"gemma3-27b", CacheKind::kSlidingWindow, 52, 10},      {"gpt-oss-20b", CacheKind::kSlidingWindow, 12, 12},
      {"llama4-scout", CacheKind::kChunkedAttention, 36, 12}, {"granite4-h", CacheKind::kStateSpace, 36, 4},
      {"nemotron-h", CacheKind::kStateSpace, 24, 4},          {"qwen3-next-80b", CacheKind::kStateSpace, 36, 12},
      {"qwen35-27b-like", CacheKind::kStateSpace, 48, 16},
  };
  for (const Counts& config : configs) {
    const std::string path = std::string(HAYPILE_TESTDATA_DIR "/configs/vllm-pools/") + config.file + ".json";
    const Result<ModelGeometry> model = ParseModelConfig(ReadText(path), config.file);
    ASSERT_TRUE(model.ok()) << model.error().message();
    int of_kind = 0;
    int full = 0;
    for (const LayerGeometry& layer : model->layers) {
      of_kind += layer.cache == config.kind ? 1 : 0;
      full += layer.cache == CacheKind::kFullAttention ? 1 : 0;
    }
    EXPECT_EQ(of_kind, config.of_kind) << config.file;
    EXPECT_EQ(full, config.full) << config.file;
  }
}

TEST(ModelConfig, NumbersEntriesByDecoderLayer) {
  const Result<ModelGeometry> model = ParseModelConfig(
      R"({"model_type": "whisper", "d_model": 64, "decoder_layers": 2, "decoder_attention_heads": 1})", "whisper");
  ASSERT_TRUE(model.ok()) << model.error().message();
  ASSERT_EQ(model->layers.size(), 4U);
  EXPECT_EQ(model->layers[1].index, 0);
  EXPECT_EQ(model->layers[2].index, 1);
}

}  // namespace
}  // namespace haypile
