#include "checkpoint/checkpoint.h"

#include <gtest/gtest.h>

#include <bit>
#include <functional>
#include <map>
#include <numeric>

#include "base/json.h"
#include "checkpoint/gguf_spec.h"
#include "checkpoint/tensor_plan.h"
#include "checkpoint/test_files.h"

namespace haypile {
namespace {

using testing_files::AsBytes;
using testing_files::GgufTensorRecord;
using testing_files::GgufWriter;
using testing_files::Raw;
using testing_files::RawArray;
using testing_files::SafetensorsWriter;
using testing_files::TemporaryFolder;

// A model of 2 layers, H=8, 2 query and 1 KV heads of D=4, F=6, V=5.
ModelSpec SmallSpec(ModelFamily family) {
  ModelSpec spec;
  spec.family = family;
  spec.architecture = FamilyName(family);
  spec.layer_count = 2;
  spec.hidden_size = 8;
  spec.query_heads = 2;
  spec.kv_heads = 1;
  spec.head_dim = 4;
  spec.feed_forward_size = 6;
  spec.vocabulary_size = 5;
  spec.tied_output = true;
  spec.qkv_bias = family == ModelFamily::kQwen2;
  spec.qk_norm = family == ModelFamily::kQwen3 || family == ModelFamily::kGemma3;
  return spec;
}

// Element i of every tensor is i + 0.5, exact in BF16 at these sizes.
std::vector<float> Counting(const std::vector<int64_t>& shape) {
  std::vector<float> values(static_cast<size_t>(*ElementCount(shape)));
  std::iota(values.begin(), values.end(), 0.5f);
  return values;
}

GgufWriter SmallGguf(ModelFamily family) {
  const ModelSpec spec = SmallSpec(family);
  const std::string& name = spec.architecture;
  GgufWriter file;
  file.Add("general.architecture", name);
  file.Add(name + ".block_count", 2u);
  file.Add(name + ".context_length", 128u);
  file.Add(name + ".embedding_length", 8u);
  file.Add(name + ".feed_forward_length", 6u);
  file.Add(name + ".attention.head_count", 2u);
  file.Add(name + ".attention.head_count_kv", 1u);
  file.Add(name + ".attention.layer_norm_rms_epsilon", 1e-5f);
  if (family == ModelFamily::kGemma3) file.Add(name + ".attention.sliding_window", 16u);
  for (const PlannedTensor& tensor : PlanTensors(spec)) {
    const std::vector<uint64_t> dims(tensor.shape.rbegin(), tensor.shape.rend());
    file.AddTensor(GgufTensorName(tensor.name, family), dims, Counting(tensor.shape));
  }
  return file;
}

constexpr ModelFamily kAllFamilies[] = {ModelFamily::kLlama, ModelFamily::kQwen2, ModelFamily::kQwen3,
                                        ModelFamily::kGemma3};

std::vector<float> ReadAll(const Checkpoint& checkpoint, const std::string& name) {
  std::vector<float> values(static_cast<size_t>(*ElementCount(checkpoint.Shape(name).value())));
  std::vector<uint16_t> rounded(values.size());
  EXPECT_TRUE(checkpoint.ReadF32(name, values).ok());
  EXPECT_TRUE(checkpoint.ReadBf16(name, rounded).ok());
  for (size_t i = 0; i < values.size(); ++i) {
    EXPECT_EQ(std::bit_cast<float>(static_cast<uint32_t>(rounded[i]) << 16), values[i]) << name << " " << i;
  }
  return values;
}

TEST(Checkpoint, GgufOfEveryFamilyHasThePlannedTensors) {
  for (const ModelFamily family : kAllFamilies) {
    const TemporaryFolder folder;
    const auto opened = Checkpoint::Open(folder.Write("m.gguf", SmallGguf(family).Build()));
    ASSERT_TRUE(opened.ok()) << opened.error().message();
    const Checkpoint& checkpoint = **opened;
    const ModelSpec& spec = checkpoint.spec();
    EXPECT_EQ(spec.family, family);
    EXPECT_EQ(spec.vocabulary_size, 5);
    EXPECT_EQ(spec.max_positions, 128);
    EXPECT_EQ(spec.query_scale, 0.5f);
    EXPECT_TRUE(spec.tied_output);
    ASSERT_EQ(spec.layers.size(), 2u);
    EXPECT_EQ(spec.layers[1].window, family == ModelFamily::kGemma3 ? 16 : 0);
    for (const PlannedTensor& tensor : PlanTensors(SmallSpec(family))) {
      ASSERT_TRUE(checkpoint.Has(tensor.name)) << tensor.name;
      EXPECT_EQ(checkpoint.Shape(tensor.name).value(), tensor.shape);
      const bool reordered = family == ModelFamily::kLlama && tensor.rope_heads > 0;
      if (!reordered) {
        EXPECT_EQ(ReadAll(checkpoint, tensor.name), Counting(tensor.shape)) << tensor.name;
      }
    }
    EXPECT_FALSE(checkpoint.Has("lm_head.weight"));
    std::vector<float> none;
    EXPECT_EQ(checkpoint.ReadF32("lm_head.weight", none).error().code(), ErrorCode::kNotFound);
    EXPECT_NE(checkpoint.gguf(), nullptr);
  }
}

TEST(Checkpoint, LlamaGgufQueryAndKeyRowsComeInHalfSplitOrder) {
  const TemporaryFolder folder;
  const auto opened = Checkpoint::Open(folder.Write("m.gguf", SmallGguf(ModelFamily::kLlama).Build()));
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  // The file's rows of a head of 4 are (first half 0, second half 0, first half 1, second half 1).
  const std::vector<std::pair<const char*, std::vector<int>>> cases = {{"q_proj", {0, 2, 1, 3, 4, 6, 5, 7}},
                                                                       {"k_proj", {0, 2, 1, 3}}};
  for (const auto& [projection, rows] : cases) {
    const std::vector<float> values = ReadAll(**opened, std::string("layers.1.self_attn.") + projection + ".weight");
    ASSERT_EQ(values.size(), rows.size() * 8);
    for (size_t i = 0; i < values.size(); ++i) {
      EXPECT_EQ(values[i], static_cast<float>(rows[i / 8]) * 8 + static_cast<float>(i % 8) + 0.5f) << i;
    }
  }
}

TEST(Checkpoint, GgufRopeVariants) {
  GgufWriter factors = SmallGguf(ModelFamily::kLlama);
  factors.AddTensor("rope_freqs.weight", {2}, {1.0f, 32.0f});
  factors.Add("llama.rope.freq_base", 500000.0f);
  const TemporaryFolder folder;
  const auto with_factors = Checkpoint::Open(folder.Write("m.gguf", factors.Build()));
  ASSERT_TRUE(with_factors.ok()) << with_factors.error().message();
  EXPECT_EQ((*with_factors)->spec().rope.frequency_factors, (std::vector<float>{1.0f, 32.0f}));
  EXPECT_EQ((*with_factors)->spec().rope.theta, 500000.0);

  GgufWriter yarn = SmallGguf(ModelFamily::kQwen2);
  yarn.Add("qwen2.rope.scaling.type", "yarn");
  yarn.Add("qwen2.rope.scaling.factor", 4.0f);
  yarn.Add("qwen2.rope.scaling.original_context_length", 32u);
  const std::string yarn_bytes = yarn.Build();
  const ModelSpec spec = ModelSpecFromGguf(**GgufFile::Parse("y", AsBytes(yarn_bytes))).value();
  EXPECT_EQ(spec.rope.kind, RopeKind::kYarn);
  EXPECT_EQ(spec.rope.factor, 4.0);
  EXPECT_EQ(spec.rope.original_max_position, 32);
}

TEST(Checkpoint, GgufGemma3Pattern) {
  GgufWriter file = SmallGguf(ModelFamily::kGemma3);
  file.AddArray("gemma3.attention.sliding_window_pattern", 7, 2, RawArray<uint8_t>({1, 0}));
  file.Add("gemma3.rope.freq_base_swa", 5000.0f);
  const std::string bytes = file.Build();
  const ModelSpec spec = ModelSpecFromGguf(**GgufFile::Parse("g", AsBytes(bytes))).value();
  EXPECT_EQ(spec.layers[0].window, 16);
  EXPECT_TRUE(spec.layers[0].uses_local_rope);
  EXPECT_EQ(spec.layers[1].window, 0);
  EXPECT_EQ(spec.local_rope.theta, 5000.0);
  EXPECT_EQ(spec.rope.theta, 10000.0);
  EXPECT_FLOAT_EQ(spec.embedding_scale, 2.8284271f);
}

struct BadModel {
  const char* name;
  ModelFamily family;
  std::function<void(GgufWriter&)> change;
  ErrorCode code;
  const char* text;
};

GgufTensorRecord& TensorOf(GgufWriter& file, const std::string& name) {
  for (GgufTensorRecord& tensor : file.tensors) {
    if (tensor.name == name) return tensor;
  }
  ADD_FAILURE() << name;
  return file.tensors.front();
}

TEST(Checkpoint, GgufModelsThatDoNotFitAreNamed) {
  const auto llama = ModelFamily::kLlama;
  const auto bad = ErrorCode::kMalformed;
  const auto unsupported = ErrorCode::kUnsupported;
  using W = GgufWriter;
  const std::vector<BadModel> models = {
      {"shape", llama,
       [](W& w) {
         TensorOf(w, "blk.1.ffn_up.weight").dims = {6, 8};
       },
       bad, "tensor 'blk.1.ffn_up.weight' has shape [8, 6]; wanted [6, 8]"},
      {"absent", llama, [](W& w) { TensorOf(w, "blk.0.attn_v.weight").name = "x"; }, bad,
       "tensor 'blk.0.attn_v.weight' is absent"},
      {"no embedding", llama, [](W& w) { TensorOf(w, "token_embd.weight").name = "x"; }, bad,
       "tensor 'token_embd.weight' is absent"},
      {"extra", llama, [](W& w) { w.AddTensor("blk.0.attn_q.bias", {8}, std::vector<float>(8)); }, unsupported,
       "tensor 'blk.0.attn_q.bias' has no place"},
      {"type", llama, [](W& w) { TensorOf(w, "output_norm.weight").type = 26; }, unsupported,
       "tensor 'output_norm.weight' is stored as I32"},
      {"vocabulary", llama, [](W& w) { w.Add("llama.vocab_size", 6u); }, bad, "'llama.vocab_size' is 6"},
      {"experts", llama, [](W& w) { w.Add("llama.expert_count", 8u); }, unsupported, "a mixture of experts"},
      {"partial rope", llama, [](W& w) { w.Add("llama.rope.dimension_count", 2u); }, unsupported, "RoPE over 2 of 4"},
      {"rope type", llama, [](W& w) { w.Add("llama.rope.scaling.type", "longrope"); }, unsupported, "'longrope'"},
      {"longrope", llama,
       [](W& w) {
         w.AddTensor("rope_factors_long.weight", {2}, {1, 1});
       },
       unsupported, "longrope"},
      {"factors", llama,
       [](W& w) {
         w.AddTensor("rope_freqs.weight", {3}, {1, 1, 1});
       },
       bad, "wanted F32 of shape [2]"},
      {"factor 0", llama,
       [](W& w) {
         w.AddTensor("rope_freqs.weight", {2}, {1, 0});
       },
       bad, "frequency factor"},
      {"window", llama, [](W& w) { w.Add("llama.attention.sliding_window", 9u); }, unsupported, "sliding_window"},
      {"value dim", llama, [](W& w) { w.Add("llama.attention.value_length", 8u); }, unsupported,
       "values of 8 elements"},
      {"key dim", llama, [](W& w) { w.Add("llama.attention.key_length", 8u); }, bad, "wanted [16, 8]"},
      {"soft cap", ModelFamily::kGemma3, [](W& w) { w.Add("gemma3.final_logit_softcapping", 30.0f); }, unsupported,
       "a soft cap on output logits"},
      {"qwen without bias", ModelFamily::kQwen2, [](W& w) { TensorOf(w, "blk.0.attn_k.bias").name = "x"; }, bad,
       "tensor 'blk.0.attn_k.bias' is absent"},
  };
  for (const BadModel& model : models) {
    GgufWriter file = SmallGguf(model.family);
    model.change(file);
    const TemporaryFolder folder;
    const auto opened = Checkpoint::Open(folder.Write("m.gguf", file.Build()));
    ASSERT_FALSE(opened.ok()) << model.name;
    const std::string& message = opened.error().message();
    EXPECT_EQ(opened.error().code(), model.code) << model.name << ": " << message;
    EXPECT_NE(message.find(model.text), std::string::npos) << model.name << ": " << message;
    EXPECT_NE(message.find("m.gguf'"), std::string::npos) << message;
  }
}

TEST(Checkpoint, GgufWithoutOrOfUnknownArchitecture) {
  GgufWriter file;
  const std::string nothing = file.Build();
  EXPECT_EQ(ModelSpecFromGguf(**GgufFile::Parse("n", AsBytes(nothing))).error().code(), ErrorCode::kNotFound);
  file.Add("general.architecture", "mamba");
  const std::string mamba = file.Build();
  const auto spec = ModelSpecFromGguf(**GgufFile::Parse("n", AsBytes(mamba)));
  EXPECT_EQ(spec.error().code(), ErrorCode::kUnsupported);
  EXPECT_NE(spec.error().message().find("architecture 'mamba' is not supported"), std::string::npos);
}

// --- Hugging Face folders ---

Json SmallConfig(ModelFamily family) {
  return Json{{"model_type", family == ModelFamily::kGemma3 ? "gemma3_text" : FamilyName(family)},
              {"hidden_size", 8},
              {"intermediate_size", 6},
              {"num_hidden_layers", 2},
              {"num_attention_heads", 2},
              {"num_key_value_heads", 1},
              {"head_dim", 4},
              {"vocab_size", 5},
              {"max_position_embeddings", 128},
              {"sliding_window", family == ModelFamily::kGemma3 ? Json(16) : Json(nullptr)},
              {"tie_word_embeddings", true}};
}

std::map<std::string, std::vector<int64_t>> SmallTensors(ModelFamily family, const std::string& prefix) {
  std::map<std::string, std::vector<int64_t>> tensors;
  for (const PlannedTensor& tensor : PlanTensors(SmallSpec(family))) tensors[prefix + tensor.name] = tensor.shape;
  return tensors;
}

std::string SmallSafetensors(const std::map<std::string, std::vector<int64_t>>& tensors, bool bf16) {
  SafetensorsWriter writer;
  for (const auto& [name, shape] : tensors) {
    std::string data;
    for (const float value : Counting(shape)) {
      data += bf16 ? Raw(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16)) : Raw(value);
    }
    writer.Add(name, bf16 ? "BF16" : "F32", ShapeText(shape), data);
  }
  return writer.Build();
}

TEST(Checkpoint, FolderOfEveryFamilyAndPrefix) {
  for (const ModelFamily family : kAllFamilies) {
    for (const char* prefix : {"model.", "language_model.model.", "model.language_model.", ""}) {
      const TemporaryFolder folder;
      folder.Write("config.json", DumpJson(SmallConfig(family)));
      folder.Write("model.safetensors", SmallSafetensors(SmallTensors(family, prefix), true));
      const auto opened = Checkpoint::Open(folder.path());
      ASSERT_TRUE(opened.ok()) << opened.error().message();
      EXPECT_EQ((*opened)->gguf(), nullptr);
      EXPECT_EQ((*opened)->folder(), folder.path());
      for (const PlannedTensor& tensor : PlanTensors(SmallSpec(family))) {
        std::vector<float> wanted = Counting(tensor.shape);
        if (family == ModelFamily::kGemma3 && tensor.is_norm) {
          for (float& value : wanted) value += 1.0f;
        }
        EXPECT_EQ(ReadAll(**opened, tensor.name), wanted) << tensor.name;
      }
    }
  }
}

TEST(Checkpoint, FolderWithShardsAndItsOwnOutput) {
  Json config = SmallConfig(ModelFamily::kLlama);
  config["tie_word_embeddings"] = false;
  const TemporaryFolder folder;
  folder.Write("config.json", DumpJson(config));
  folder.Write("one.safetensors", SmallSafetensors(SmallTensors(ModelFamily::kLlama, "model."), false));
  folder.Write("two.safetensors", SmallSafetensors({{"lm_head.weight", {5, 8}}}, false));
  Json index;
  for (const auto& [name, shape] : SmallTensors(ModelFamily::kLlama, "model.")) {
    index["weight_map"][name] = "one.safetensors";
  }
  folder.Write("model.safetensors.index.json", DumpJson(index));
  const auto without = Checkpoint::Open(folder.path());
  ASSERT_FALSE(without.ok());
  EXPECT_NE(without.error().message().find("tensor 'lm_head.weight' is absent"), std::string::npos);
  index["weight_map"]["lm_head.weight"] = "two.safetensors";
  folder.Write("model.safetensors.index.json", DumpJson(index));
  const auto opened = Checkpoint::Open(folder.path());
  ASSERT_TRUE(opened.ok()) << opened.error().message();
  EXPECT_EQ(ReadAll(**opened, "lm_head.weight"), Counting({5, 8}));
}

TEST(Checkpoint, FoldersThatDoNotFitAreNamed) {
  struct Case {
    const char* name;
    const char* tensor;
    std::vector<int64_t> shape;
    ErrorCode code;
    const char* text;
  };
  const Case cases[] = {
      {"shape",
       "model.norm.weight",
       {9},
       ErrorCode::kMalformed,
       "tensor 'model.norm.weight' has shape [9]; wanted [8]"},
      {"transposed", "model.layers.0.mlp.up_proj.weight", {8, 6}, ErrorCode::kMalformed, "wanted [6, 8]"},
      {"extra", "model.layers.0.self_attn.o_proj.bias", {8}, ErrorCode::kUnsupported, "o_proj.bias' has no place"},
      {"third layer", "model.layers.2.input_layernorm.weight", {8}, ErrorCode::kUnsupported, "has no place"},
      {"scale of KV", "model.layers.0.self_attn.k_scale", {1}, ErrorCode::kMalformed, nullptr},
      {"tied copy", "lm_head.weight", {5, 8}, ErrorCode::kMalformed, nullptr},
  };
  for (const Case& c : cases) {
    const TemporaryFolder folder;
    folder.Write("config.json", DumpJson(SmallConfig(ModelFamily::kLlama)));
    auto tensors = SmallTensors(ModelFamily::kLlama, "model.");
    tensors[c.tensor] = c.shape;
    folder.Write("model.safetensors", SmallSafetensors(tensors, true));
    const auto opened = Checkpoint::Open(folder.path());
    ASSERT_EQ(opened.ok(), c.text == nullptr) << c.name;
    if (opened.ok()) continue;
    EXPECT_EQ(opened.error().code(), c.code) << c.name << ": " << opened.error().message();
    EXPECT_NE(opened.error().message().find(c.text), std::string::npos) << opened.error().message();
  }
}

TEST(Checkpoint, CountsTheKvScalesThatItDoesNotRead) {
  const TemporaryFolder folder;
  folder.Write("config.json", DumpJson(SmallConfig(ModelFamily::kLlama)));
  auto tensors = SmallTensors(ModelFamily::kLlama, "model.");
  folder.Write("model.safetensors", SmallSafetensors(tensors, true));
  EXPECT_EQ(Checkpoint::Open(folder.path()).value()->kv_scales().tensors, 0);
  for (const char* scale :
       {"0.self_attn.k_scale", "0.self_attn.v_scale", "1.self_attn.kv_scale", "0.self_attn.q_scale"}) {
    tensors[std::string("model.layers.") + scale] = {1};
  }
  folder.Write("model.safetensors", SmallSafetensors(tensors, true));
  const CheckpointKvScales scales = Checkpoint::Open(folder.path()).value()->kv_scales();
  EXPECT_EQ(scales.tensors, 3);
  EXPECT_EQ(scales.k, (std::vector<std::vector<float>>{{0.5f}, {0.5f}}));
}

TEST(Checkpoint, PathsThatAreNoModel) {
  const TemporaryFolder folder;
  EXPECT_EQ(Checkpoint::Open(folder.path()).error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Checkpoint::Open(folder.path() + "/none.gguf").error().code(), ErrorCode::kNotFound);
  EXPECT_EQ(Checkpoint::Open(folder.path() + "/model.safetensors").error().code(), ErrorCode::kInvalidArgument);
  EXPECT_EQ(Checkpoint::Open(folder.Write("text.gguf", "hello, world")).error().code(), ErrorCode::kMalformed);
  folder.Write("config.json", DumpJson(SmallConfig(ModelFamily::kLlama)));
  EXPECT_EQ(Checkpoint::Open(folder.path()).error().code(), ErrorCode::kNotFound);
  folder.Write("model.safetensors", "");
  const auto empty = Checkpoint::Open(folder.path());
  EXPECT_EQ(empty.error().code(), ErrorCode::kMalformed);
  EXPECT_NE(empty.error().message().find("model.safetensors': byte 0"), std::string::npos);
}

}  // namespace
}  // namespace haypile
