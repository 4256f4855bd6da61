#include "checkpoint/config_quantization.h"

#include <gtest/gtest.h>

#include <limits>
#include <tuple>

#include "base/json.h"
#include "checkpoint/checkpoint_kv_scales.h"
#include "checkpoint/test_files.h"

namespace haypile {
namespace {

using testing_files::RawArray;
using testing_files::SafetensorsWriter;
using testing_files::TemporaryFolder;

// The cache's format, or the error's message.
std::string FormatOf(const std::string& quantization, const std::string& hf_quant_config = "") {
  const std::string config = quantization.empty() ? "{}" : R"({"quantization_config": )" + quantization + "}";
  const auto read = ReadKvQuantization("m", config, hf_quant_config);
  return read.ok() ? read->kv_format : read.error().message();
}

TEST(KvQuantization, PlainWeightsWithAQuantizedCache) {
  EXPECT_EQ(FormatOf(""), "");
  EXPECT_EQ(FormatOf("{}"), "");
  EXPECT_EQ(FormatOf("null"), "");
  EXPECT_EQ(FormatOf(R"({"quant_method": "compressed-tensors"})"), "");
  EXPECT_EQ(FormatOf(R"({"quant_method": "compressed-tensors", "config_groups": {}, "kv_cache_scheme":
                        {"num_bits": 8, "type": "float", "symmetric": true, "strategy": "tensor"}})"),
            "fp8");
  EXPECT_EQ(FormatOf(R"({"quant_method": "Compressed-Tensors", "config_groups": {"group_0": {"targets": [],
                        "weights": {"num_bits": 4}}}, "kv_cache_scheme": {"num_bits": 8, "type": "int"}})"),
            "int8");
  EXPECT_EQ(FormatOf(R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
                        "weights": null, "input_activations": null}}, "sparsity_config": {"format": "dense"}})"),
            "");
  EXPECT_EQ(FormatOf(R"({"quant_method": "compressed-tensors", "kv_cache_scheme":
                        {"num_bits": 8, "type": "float", "dynamic": true}})"),
            "a dynamic format");
  EXPECT_EQ(FormatOf(R"({"quant_method": "modelopt", "quant_algo": null, "kv_cache_scheme": "NVFP4"})"), "nvfp4");
  EXPECT_EQ(FormatOf(R"({"quant_method": "modelopt_fp4", "kv_cache_scheme": {"num_bits": 8, "type": "float"}})"),
            "fp8");
  EXPECT_EQ(FormatOf(R"({"quant_algo": null, "kv_cache_quant_algo": "FP8"})"), "fp8");
  EXPECT_EQ(FormatOf(R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "FP8"}})"), "fp8");
  EXPECT_EQ(FormatOf("", R"({"quantization": {"quant_algo": null, "kv_cache_quant_algo": "NVFP4"}})"), "nvfp4");
}

TEST(KvQuantization, QuantizedWeightsAreRefusedByWhatSaysSo) {
  const std::string plain = R"({"quant_method": "modelopt", "quant_algo": null})";
  const std::tuple<std::string, std::string, const char*> cases[] = {
      {R"({"quant_method": "gptq", "bits": 4})", "", "quant_method 'gptq'"},
      {R"({"bits": 4})", "", "quant_method ''"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
           "weights": {"num_bits": 8}}}})",
       "", "the group 'group_0' in field 'quantization_config.config_groups'"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"group_0": {"targets": ["Linear"],
           "input_activations": {"num_bits": 8}}}})",
       "", "'group_0'"},
      {R"({"quant_method": "compressed-tensors", "config_groups": {"W8A8": ["Linear"]}})", "", "'W8A8'"},
      {R"({"quant_method": "compressed-tensors", "sparsity_config": {"format": "sparse-24-bitmask"}})", "", "sparsely"},
      {R"({"quant_method": "compressed-tensors", "transform_config": {"config_groups": {"R1": {}}}})", "",
       "transform_config"},
      {R"({"quant_method": "modelopt", "quant_algo": "NVFP4"})", "", "'quantization_config.quant_algo' is 'NVFP4'"},
      {R"({"quant_method": "modelopt", "quantized_layers": {"a": 1}})", "", "single layers"},
      {R"({"quantization": {"quant_algo": "FP8"}})", "", "'quantization_config.quantization.quant_algo' is 'FP8'"},
      {plain, R"({"quantization": {"quant_algo": "FP8"}})", "'m/hf_quant_config.json': weights are quantized"},
      {plain, "[]", "not a JSON object"},
      {plain, "{}", "field 'quantization' is missing"},
      {R"([1])", "", "is not an object"},
      {R"({"quant_method": "modelopt", "quant_algo": 4})", "", "is not a string"},
      {R"({"quant_method": "compressed-tensors", "config_groups": []})", "", "is not an object"},
  };
  for (const auto& [config, file, expected] : cases) {
    const std::string message = FormatOf(config, file);
    EXPECT_NE(message.find(expected), std::string::npos) << config << "\n" << message;
  }
  EXPECT_NE(FormatOf(R"({"quant_method": "gptq"})").find("weights must be plain"), std::string::npos);
}

TEST(KvQuantization, ConventionsOfNvfp4ByProducerAndNames) {
  const auto words = [](const std::string& producer, const std::string& version, bool attention_names) {
    return DivisorOfKvScales({"modelopt", "nvfp4", producer, version}, attention_names);
  };
  EXPECT_EQ(DivisorOfKvScales({"modelopt", "fp8", "modelopt", "0.33.1"}, false).value, 448);
  EXPECT_EQ(words("modelopt", "0.33.1", false).value, 2688);
  EXPECT_EQ(words("modelopt", "0.43.0", false).value, 448);
  EXPECT_EQ(words("modelopt", "0.43.0", true).value, 2688);
  EXPECT_EQ(words("haypile", "1.5.0", false).value, 2688);
  EXPECT_EQ(words("haypile", "1.5.0", false).words, "amax/2688 by haypile 1.5.0");
  EXPECT_EQ(words("modelopt", "0.41.0", false).value, 2688);
  EXPECT_NE(words("modelopt", "0.41.0", false).words.find("may be amax/448"), std::string::npos);
  EXPECT_NE(words("", "", false).words.find("an exporter that is not named"), std::string::npos);
}

struct ScaleTensor {
  const char* name;
  const char* shape;
  std::vector<float> values;
};

CheckpointKvScales Collected(const std::vector<ScaleTensor>& tensors, const KvQuantization& quantization = {}) {
  SafetensorsWriter writer;
  for (const ScaleTensor& tensor : tensors) writer.Add(tensor.name, "F32", tensor.shape, RawArray(tensor.values));
  const TemporaryFolder folder;
  folder.Write("model.safetensors", writer.Build());
  ModelSpec spec;
  spec.layer_count = 2;
  spec.kv_heads = 2;
  return CollectKvScales(SafetensorsFolder::Open(folder.path()).value(), quantization, spec);
}

using Scales = std::vector<std::vector<float>>;

TEST(CheckpointKvScales, EveryNameThatEnginesLoad) {
  const CheckpointKvScales scales = Collected({{"model.layers.0.self_attn.k_scale", "[1]", {0.5f}},
                                               {"model.layers.0.self_attn.v_scale", "[2,1,1]", {0.25f, 2}},
                                               {"model.layers.1.self_attn.k_proj.output_scale", "[]", {3}},
                                               {"model.layers.1.self_attn.qkv_proj.v_scale", "[]", {4}}});
  EXPECT_EQ(scales.tensors, 4);
  EXPECT_EQ(scales.k, (Scales{{0.5f, 0.5f}, {3, 3}}));
  EXPECT_EQ(scales.v, (Scales{{0.25f, 2}, {4, 4}}));
  EXPECT_EQ(scales.example, "model.layers.0.self_attn.k_scale");
  EXPECT_TRUE(scales.layers_without.empty() && scales.unused.empty() && scales.bad.empty());
  EXPECT_EQ(Collected({{"model.layers.1.self_attn.kv_scale", "[]", {7}}}).v, (Scales{{1, 1}, {7, 7}}));
}

TEST(CheckpointKvScales, LayersWithoutAreNamedAndOnlyTheDecodersCount) {
  const CheckpointKvScales scales = Collected({{"model.layers.1.self_attn.attn.k_scale", "[]", {0.5f}},
                                               {"vision_tower.layers.0.self_attn.k_scale", "[]", {9}},
                                               {"model.layers.7.self_attn.k_scale", "[]", {9}},
                                               {"model.layers.0.self_attn.q_scale", "[]", {9}}});
  EXPECT_EQ(scales.tensors, 1);
  EXPECT_EQ(scales.layers_without, (std::vector<int>{0, 1}));
  EXPECT_EQ(scales.k, (Scales{{1, 1}, {0.5f, 0.5f}}));
}

TEST(CheckpointKvScales, WhatNoCacheCanUseIsSaid) {
  const char* name = "model.layers.0.self_attn.k_scale";
  const float infinity = std::numeric_limits<float>::infinity();
  for (const float value : {0.0f, -1.0f, infinity, std::nanf("")}) {
    const CheckpointKvScales scales = Collected({{name, "[]", {value}}});
    EXPECT_NE(scales.bad.find("k_scale' holds"), std::string::npos) << value;
    EXPECT_TRUE(scales.k.empty());
  }
  EXPECT_NE(Collected({{name, "[3]", {1, 1, 1}}}).bad.find("shape [3]; wanted one value"), std::string::npos);
  EXPECT_NE(
      Collected({{name, "[]", {1}}, {"model.layers.0.self_attn.k_proj.k_scale", "[]", {2}}}).bad.find("another value"),
      std::string::npos);
  EXPECT_NE(Collected({{"model.layers.0.self_attn.k_bmm_quantizer._amax", "[]", {2}}}).unused.find("not a scale"),
            std::string::npos);
  EXPECT_NE(Collected({{name, "[]", {1}}}, {"compressed-tensors", "int8", "", ""}).unused.find("a cache of int8"),
            std::string::npos);
}

}  // namespace
}  // namespace haypile
