#pragma once

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/file.h"
#include "base/json.h"
#include "calibrate/safetensors_append.h"

namespace haypile {

// A Hugging Face folder of a tiny llama model with random weights and a byte-level tokenizer, for tests: 2 layers, 2
// query and 2 KV heads of 32, context 512. It lives as long as this object.
class CalibrationFolder {
 public:
  static constexpr int kLayers = 2, kHeads = 2, kHeadDim = 32, kHidden = 64, kVocabulary = 257;

  CalibrationFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "haypile_calibrate_XXXXXX").string();
    root_ = mkdtemp(pattern.data());
    MakeTensors();
  }
  ~CalibrationFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  CalibrationFolder(const CalibrationFolder&) = delete;
  CalibrationFolder& operator=(const CalibrationFolder&) = delete;

  // K becomes `factor` times larger and Q smaller by as much, so that what the model computes stays the same.
  void ScaleK(float factor) {
    for (int layer = 0; layer < kLayers; ++layer) {
      for (float& weight : Weights(layer, "k_proj")) weight *= factor;
      for (float& weight : Weights(layer, "q_proj")) weight /= factor;
    }
  }
  std::vector<float>& Weights(int layer, const std::string& projection) {
    return tensors_.at("model.layers." + std::to_string(layer) + ".self_attn." + projection + ".weight").values;
  }
  // Writes the folder `name` below the root and returns its path.
  std::string Write(const std::string& name, bool sharded = false) const {
    const std::string folder = Path(name);
    std::filesystem::create_directories(folder);
    Put(folder + "/config.json", DumpJson(Config()));
    Put(folder + "/tokenizer.json", DumpJson(TokenizerJson()));
    Put(folder + "/tokenizer_config.json", R"({"eos_token": "<|endoftext|>"})");
    if (sharded) {
      WriteShards(folder);
    } else {
      std::vector<F32Tensor> all;
      for (const auto& [tensor_name, tensor] : tensors_) all.push_back(tensor);
      Put(folder + "/model.safetensors", SafetensorsText(all));
    }
    return folder;
  }
  std::string Path(const std::string& name) const { return root_ + "/" + name; }
  const std::map<std::string, F32Tensor>& tensors() const { return tensors_; }

 private:
  static void Put(const std::string& path, const std::string& content) {
    if (!WriteFileAtomic(path, content).ok()) std::abort();
  }

  void Add(const std::string& name, std::vector<int64_t> shape) {
    std::uniform_real_distribution<float> weight(-0.3f, 0.3f);
    size_t count = 1;
    for (const int64_t extent : shape) count *= static_cast<size_t>(extent);
    F32Tensor tensor{name, shape, std::vector<float>(count, 1.0f)};
    if (shape.size() > 1) {
      for (float& value : tensor.values) value = weight(random_);
    }
    tensors_[name] = std::move(tensor);
  }

  void MakeTensors() {
    Add("model.embed_tokens.weight", {kVocabulary, kHidden});
    Add("model.norm.weight", {kHidden});
    for (int layer = 0; layer < kLayers; ++layer) {
      const std::string prefix = "model.layers." + std::to_string(layer) + ".";
      for (const char* norm : {"input_layernorm", "post_attention_layernorm"}) {
        Add(prefix + norm + ".weight", {kHidden});
      }
      for (const char* name : {"q_proj", "k_proj", "v_proj", "o_proj"}) {
        Add(prefix + "self_attn." + name + ".weight", {kHidden, kHidden});
      }
      for (const char* name : {"gate_proj", "up_proj", "down_proj"}) {
        Add(prefix + "mlp." + name + ".weight", {kHidden, kHidden});
      }
    }
  }

  void WriteShards(const std::string& folder) const {
    std::vector<F32Tensor> shards[2];
    Json map = Json::object();
    for (const auto& [name, tensor] : tensors_) {
      const size_t shard = map.size() % 2;
      shards[shard].push_back(tensor);
      map[name] = "model-0000" + std::to_string(shard + 1) + "-of-00002.safetensors";
    }
    for (size_t i = 0; i < 2; ++i) {
      Put(folder + "/model-0000" + std::to_string(i + 1) + "-of-00002.safetensors", SafetensorsText(shards[i]));
    }
    Put(folder + "/model.safetensors.index.json",
        DumpJson({{"metadata", {{"total_size", 1000}}}, {"weight_map", map}}));
  }

  static Json Config() {
    return {{"architectures", {"LlamaForCausalLM"}},
            {"model_type", "llama"},
            {"hidden_size", kHidden},
            {"intermediate_size", kHidden},
            {"num_hidden_layers", kLayers},
            {"num_attention_heads", kHeads},
            {"num_key_value_heads", kHeads},
            {"head_dim", kHeadDim},
            {"vocab_size", kVocabulary},
            {"max_position_embeddings", 512},
            {"rms_norm_eps", 1e-5},
            {"rope_theta", 10000.0},
            {"hidden_act", "silu"},
            {"tie_word_embeddings", true}};
  }

  // The printable character of each byte in byte-level BPE, in UTF-8.
  static std::string CharacterOf(int byte, int* extra) {
    const bool printable = (byte >= 33 && byte < 127) || (byte >= 161 && byte < 173) || byte >= 174;
    const int point = printable ? byte : 256 + (*extra)++;
    if (point < 128) return std::string(1, static_cast<char>(point));
    return {static_cast<char>(0xc0 | point >> 6), static_cast<char>(0x80 | (point & 0x3f))};
  }

  static Json TokenizerJson() {
    Json vocabulary = Json::object();
    int extra = 0;
    for (int byte = 0; byte < 256; ++byte) vocabulary[CharacterOf(byte, &extra)] = byte;
    vocabulary["<|endoftext|>"] = 256;
    const Json level{{"type", "ByteLevel"}, {"add_prefix_space", false}, {"trim_offsets", true}, {"use_regex", true}};
    const Json end{{"id", 256},       {"content", "<|endoftext|>"}, {"single_word", false}, {"lstrip", false},
                   {"rstrip", false}, {"normalized", false},        {"special", true}};
    return {{"version", "1.0"},
            {"added_tokens", Json::array({end})},
            {"normalizer", nullptr},
            {"pre_tokenizer", level},
            {"post_processor", nullptr},
            {"decoder", level},
            {"model", {{"type", "BPE"}, {"vocab", vocabulary}, {"merges", Json::array()}}}};
  }

  std::string root_;
  std::map<std::string, F32Tensor> tensors_;
  std::mt19937 random_{7};
};

}  // namespace haypile
