#include "gguf_geometry.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <vector>

namespace haypile {
namespace {

constexpr int64_t kMostLayers = 4096;
constexpr int64_t kLargestSize = int64_t{1} << 31;
constexpr int kLlama4Chunk = 8192;  // llama.cpp fixes it; the file does not hold it

// How an architecture's layers remember, by llama.cpp's own tables (src/llama-model.cpp, 2026-08).
enum class Family { kPlain, kWindowed, kChunked, kMla, kMamba1, kMamba2, kGatedDeltaNet, kShortConv };

struct Architecture {
  std::string_view name;
  Family family;
  int period;  // kWindowed, kChunked: every period-th layer is full where the file does not say; kGatedDeltaNet
               // likewise
};

constexpr Architecture kArchitectures[] = {
    {"apertus", Family::kPlain, 0},
    {"arcee", Family::kPlain, 0},
    {"baichuan", Family::kPlain, 0},
    {"bailingmoe", Family::kPlain, 0},
    {"bailingmoe2", Family::kPlain, 0},
    {"bitnet", Family::kPlain, 0},
    {"chatglm", Family::kPlain, 0},
    {"cohere2", Family::kWindowed, 4},
    {"command-r", Family::kPlain, 0},
    {"dbrx", Family::kPlain, 0},
    {"deepseek", Family::kPlain, 0},
    {"deepseek2", Family::kMla, 0},
    {"dots1", Family::kPlain, 0},
    {"ernie4_5", Family::kPlain, 0},
    {"ernie4_5-moe", Family::kPlain, 0},
    {"exaone", Family::kPlain, 0},
    {"exaone4", Family::kWindowed, 4},
    {"falcon", Family::kPlain, 0},
    {"gemma", Family::kPlain, 0},
    {"gemma2", Family::kWindowed, 2},
    {"gemma3", Family::kWindowed, 6},
    {"glm4", Family::kPlain, 0},
    {"glm4moe", Family::kPlain, 0},
    {"gpt-oss", Family::kWindowed, 2},
    {"gpt2", Family::kPlain, 0},
    {"gptneox", Family::kPlain, 0},
    {"granite", Family::kPlain, 0},
    {"granitehybrid", Family::kMamba2, 0},
    {"granitemoe", Family::kPlain, 0},
    {"grok", Family::kPlain, 0},
    {"hunyuan-dense", Family::kPlain, 0},
    {"hunyuan-moe", Family::kPlain, 0},
    {"internlm2", Family::kPlain, 0},
    {"jais", Family::kPlain, 0},
    {"jamba", Family::kMamba1, 0},
    {"lfm2", Family::kShortConv, 0},
    {"lfm2moe", Family::kShortConv, 0},
    {"llama", Family::kPlain, 0},
    {"llama4", Family::kChunked, 4},
    {"mamba", Family::kMamba1, 0},
    {"mamba2", Family::kMamba2, 0},
    {"minicpm", Family::kPlain, 0},
    {"mistral3", Family::kPlain, 0},
    {"mpt", Family::kPlain, 0},
    {"nemotron", Family::kPlain, 0},
    {"nemotron_h", Family::kMamba2, 0},
    {"nemotron_h_moe", Family::kMamba2, 0},
    {"olmo", Family::kPlain, 0},
    {"olmo2", Family::kPlain, 0},
    {"olmoe", Family::kPlain, 0},
    {"orion", Family::kPlain, 0},
    {"phi2", Family::kPlain, 0},
    {"phi3", Family::kPlain, 0},
    {"phimoe", Family::kPlain, 0},
    {"qwen", Family::kPlain, 0},
    {"qwen2", Family::kPlain, 0},
    {"qwen2moe", Family::kPlain, 0},
    {"qwen2vl", Family::kPlain, 0},
    {"qwen3", Family::kPlain, 0},
    {"qwen35", Family::kGatedDeltaNet, 4},
    {"qwen35moe", Family::kGatedDeltaNet, 4},
    {"qwen3moe", Family::kPlain, 0},
    {"qwen3next", Family::kGatedDeltaNet, 4},
    {"qwen3vl", Family::kPlain, 0},
    {"qwen3vlmoe", Family::kPlain, 0},
    {"refact", Family::kPlain, 0},
    {"seed_oss", Family::kPlain, 0},
    {"smollm3", Family::kPlain, 0},
    {"stablelm", Family::kPlain, 0},
    {"starcoder", Family::kPlain, 0},
    {"starcoder2", Family::kPlain, 0},
    {"xverse", Family::kPlain, 0},
};

class GeometryReader {
 public:
  explicit GeometryReader(const GgufFile& file) : file_(file) {}

  Result<ModelGeometry> Read() {
    HAYPILE_TRY(ReadArchitecture());
    HAYPILE_TRY(ReadSizes());
    HAYPILE_TRY(ReadHeads());
    HAYPILE_TRY(ReadWindow());
    if (architecture_->family == Family::kMla) HAYPILE_TRY(ReadMla());
    HAYPILE_TRY(ReadState());
    for (int64_t i = 0; i < layer_count_; ++i) {
      LayerGeometry layer = Layer(static_cast<size_t>(i));
      layer.index = static_cast<int>(i);
      (i < layer_count_ - mtp_count_ ? model_.layers : model_.mtp_layers).push_back(layer);
    }
    ReadWeights();
    return std::move(model_);
  }

 private:
  std::string Where() const { return "'" + file_.path() + "'"; }
  std::string Key(std::string_view suffix) const { return model_.architecture + "." + std::string(suffix); }

  Status ReadArchitecture() {
    HAYPILE_TRY_ASSIGN(model_.architecture, file_.GetString("general.architecture"));
    model_.model_type = model_.architecture;
    model_.name = file_.path();
    for (const Architecture& known : kArchitectures) {
      if (known.name == model_.architecture) architecture_ = &known;
    }
    if (architecture_ != nullptr) return {};
    std::string names;
    for (const Architecture& known : kArchitectures) names += (names.empty() ? "" : ", ") + std::string(known.name);
    return Error(ErrorCode::kUnsupported, Where() + ": the cache of architecture " + QuotedName(model_.architecture) +
                                              " is not understood; known: " + names);
  }

  // A positive number; `absent` stands for a missing key, or makes it an error when it is 0.
  Result<int64_t> Size(std::string_view suffix, int64_t absent = 0) const {
    const std::string key = Key(suffix);
    if (!file_.Has(key) && absent != 0) return absent;
    HAYPILE_TRY_ASSIGN(const int64_t value, file_.GetInt(key));
    if (value < 1 || value > kLargestSize) {
      return Error(ErrorCode::kMalformed,
                   fmt::format("{}: key '{}' is {}; expected a positive number", Where(), key, value));
    }
    return value;
  }

  // One number for all layers, or an array with one for each; zeros are allowed.
  Result<std::vector<int64_t>> PerLayer(std::string_view suffix, std::optional<int64_t> absent) const {
    const std::string key = Key(suffix);
    const auto count = static_cast<size_t>(layer_count_);
    if (!file_.Has(key) && absent) return std::vector<int64_t>(count, *absent);
    if (!file_.IsArray(key)) {
      HAYPILE_TRY_ASSIGN(const int64_t value, file_.GetInt(key));
      HAYPILE_TRY(CheckEntry(key, value));
      return std::vector<int64_t>(count, value);
    }
    HAYPILE_TRY_ASSIGN(std::vector<int64_t> values, file_.GetIntArray(key));
    if (values.size() < count) {
      return Error(ErrorCode::kMalformed,
                   fmt::format("{}: key '{}' has {} entries for {} layers", Where(), key, values.size(), count));
    }
    for (const int64_t value : values) HAYPILE_TRY(CheckEntry(key, value));
    return values;
  }

  Status CheckEntry(const std::string& key, int64_t value) const {
    if (value >= 0 && value <= kLargestSize) return {};
    return Error(ErrorCode::kMalformed,
                 fmt::format("{}: key '{}' holds {}; expected no negative number", Where(), key, value));
  }

  Status ReadSizes() {
    HAYPILE_TRY_ASSIGN(layer_count_, Size("block_count"));
    if (layer_count_ > kMostLayers) {
      return Error(ErrorCode::kMalformed, fmt::format("{}: key '{}' is {}", Where(), Key("block_count"), layer_count_));
    }
    HAYPILE_TRY_ASSIGN(const int64_t hidden, Size("embedding_length"));
    model_.hidden_size = static_cast<int>(hidden);
    HAYPILE_TRY_ASSIGN(model_.max_positions, Size("context_length"));
    if (file_.Has(Key("nextn_predict_layers"))) {
      HAYPILE_TRY_ASSIGN(mtp_count_, file_.GetInt(Key("nextn_predict_layers")));
      if (mtp_count_ < 0 || mtp_count_ >= layer_count_) {
        return Error(ErrorCode::kMalformed, fmt::format("{}: key '{}' is {} of {} layers", Where(),
                                                        Key("nextn_predict_layers"), mtp_count_, layer_count_));
      }
    }
    if (const StoredTensor* embedding = file_.FindTensor("token_embd.weight");
        embedding != nullptr && embedding->shape.size() == 2) {
      model_.vocabulary_size = embedding->shape[0];
    }
    return {};
  }

  Status ReadHeads() {
    if (architecture_->name == "mamba" || architecture_->name == "mamba2") {
      kv_heads_.assign(static_cast<size_t>(layer_count_), 0);
      return {};
    }
    HAYPILE_TRY_ASSIGN(const std::vector<int64_t> query, PerLayer("attention.head_count", std::nullopt));
    const int64_t heads = *std::max_element(query.begin(), query.end());
    if (heads < 1)
      return Error(ErrorCode::kMalformed, Where() + ": key '" + Key("attention.head_count") + "' holds no head");
    model_.query_heads = static_cast<int>(heads);
    HAYPILE_TRY_ASSIGN(kv_heads_, PerLayer("attention.head_count_kv", heads));
    HAYPILE_TRY_ASSIGN(key_length_, Size("attention.key_length", std::max<int64_t>(1, model_.hidden_size / heads)));
    HAYPILE_TRY_ASSIGN(value_length_, Size("attention.value_length", key_length_));
    HAYPILE_TRY_ASSIGN(key_length_window_, Size("attention.key_length_swa", key_length_));
    HAYPILE_TRY_ASSIGN(value_length_window_, Size("attention.value_length_swa", value_length_));
    model_.generic_kv_heads = static_cast<int>(*std::max_element(kv_heads_.begin(), kv_heads_.end()));
    model_.generic_head_dim = static_cast<int>(key_length_);
    return {};
  }

  Status ReadWindow() {
    full_.assign(static_cast<size_t>(layer_count_), true);
    const bool chunked = architecture_->family == Family::kChunked;
    if (architecture_->family != Family::kWindowed && !chunked) return {};
    if (chunked) {
      HAYPILE_TRY_ASSIGN(window_, Size("attention.chunk_size", kLlama4Chunk));
    } else if (!file_.Has(Key("attention.sliding_window"))) {
      return {};
    } else {
      HAYPILE_TRY_ASSIGN(window_, file_.GetInt(Key("attention.sliding_window")));
      if (window_ == 0) return {};
      HAYPILE_TRY(CheckEntry(Key("attention.sliding_window"), window_));
    }
    const std::string pattern = Key("attention.sliding_window_pattern");
    if (file_.IsArray(pattern)) {
      HAYPILE_TRY_ASSIGN(const std::vector<int64_t> windowed,
                         PerLayer("attention.sliding_window_pattern", std::nullopt));
      for (size_t i = 0; i < full_.size(); ++i) full_[i] = windowed[i] == 0;
      return {};
    }
    HAYPILE_TRY_ASSIGN(const int64_t period, Size("attention.sliding_window_pattern", architecture_->period));
    for (size_t i = 0; i < full_.size(); ++i) full_[i] = static_cast<int64_t>(i) % period == period - 1;
    return {};
  }

  Status ReadMla() {
    HAYPILE_TRY_ASSIGN(kv_lora_rank_, Size("attention.kv_lora_rank"));
    HAYPILE_TRY_ASSIGN(rope_dim_, Size("rope.dimension_count"));
    return {};
  }

  Status ReadState() {
    switch (architecture_->family) {
      case Family::kMamba1:
      case Family::kMamba2:
        return ReadMamba(architecture_->family == Family::kMamba2);
      case Family::kGatedDeltaNet:
        return ReadGatedDeltaNet();
      case Family::kShortConv: {
        state_.kind = StateKind::kShortConv;
        state_.intermediate = model_.hidden_size;
        HAYPILE_TRY_ASSIGN(const int64_t kernel, Size("shortconv.l_cache"));
        state_.conv_kernel = static_cast<int>(kernel);
        return {};
      }
      default:
        return {};
    }
  }

  Status ReadMamba(bool second) {
    state_.kind = second ? StateKind::kMamba2 : StateKind::kMamba1;
    HAYPILE_TRY_ASSIGN(const int64_t kernel, Size("ssm.conv_kernel"));
    HAYPILE_TRY_ASSIGN(state_.intermediate, Size("ssm.inner_size"));
    HAYPILE_TRY_ASSIGN(const int64_t state, Size("ssm.state_size"));
    state_.conv_kernel = static_cast<int>(kernel);
    state_.state_size = static_cast<int>(state);
    if (!second) return {};
    HAYPILE_TRY_ASSIGN(const int64_t heads, Size("ssm.time_step_rank"));
    HAYPILE_TRY_ASSIGN(const int64_t groups, Size("ssm.group_count", 1));
    if (state_.intermediate % heads != 0) {
      return Error(ErrorCode::kMalformed,
                   fmt::format("{}: {} heads do not divide the inner size {}", Where(), heads, state_.intermediate));
    }
    state_.value_heads = static_cast<int>(heads);
    state_.value_head_dim = static_cast<int>(state_.intermediate / heads);
    state_.groups = static_cast<int>(groups);
    return {};
  }

  // The keys of Mamba hold a gated DeltaNet here: groups are key heads, the time step rank is value heads.
  Status ReadGatedDeltaNet() {
    state_.kind = StateKind::kGatedDeltaNet;
    HAYPILE_TRY_ASSIGN(const int64_t kernel, Size("ssm.conv_kernel"));
    HAYPILE_TRY_ASSIGN(const int64_t inner, Size("ssm.inner_size"));
    HAYPILE_TRY_ASSIGN(const int64_t key_dim, Size("ssm.state_size"));
    HAYPILE_TRY_ASSIGN(const int64_t key_heads, Size("ssm.group_count"));
    HAYPILE_TRY_ASSIGN(const int64_t value_heads, Size("ssm.time_step_rank"));
    HAYPILE_TRY_ASSIGN(const int64_t period, Size("full_attention_interval", architecture_->period));
    state_.conv_kernel = static_cast<int>(kernel);
    state_.key_heads = static_cast<int>(key_heads);
    state_.value_heads = static_cast<int>(value_heads);
    state_.key_head_dim = static_cast<int>(key_dim);
    state_.value_head_dim = static_cast<int>(inner / value_heads);
    for (size_t i = 0; i < full_.size(); ++i) full_[i] = static_cast<int64_t>(i + 1) % period == 0;
    // Multi-token-prediction layers attend.
    for (int64_t i = layer_count_ - mtp_count_; i < layer_count_; ++i) full_[static_cast<size_t>(i)] = true;
    return {};
  }

  bool HasFeedForward(size_t i) const {
    const std::string prefix = fmt::format("blk.{}.ffn_", i);
    const auto tensors = file_.tensors();
    return std::any_of(tensors.begin(), tensors.end(),
                       [&](const StoredTensor& t) { return t.name.rfind(prefix, 0) == 0; });
  }

  LayerGeometry StateLayer(size_t i) const {
    LayerGeometry layer;
    // Nemotron-H has layers that only feed forward: they have neither heads nor a state.
    const bool feed_forward_only = architecture_->name.substr(0, 10) == "nemotron_h" && HasFeedForward(i);
    layer.cache = feed_forward_only ? CacheKind::kNone : CacheKind::kStateSpace;
    if (!feed_forward_only) layer.state = state_;
    return layer;
  }

  LayerGeometry Layer(size_t i) const {
    const Family family = architecture_->family;
    const bool by_heads = family == Family::kMamba1 || family == Family::kMamba2 || family == Family::kShortConv;
    if (by_heads && kv_heads_[i] == 0) return StateLayer(i);
    LayerGeometry layer;
    if (family == Family::kGatedDeltaNet && !full_[i]) {
      layer.cache = CacheKind::kStateSpace;
      layer.state = state_;
      return layer;
    }
    layer.kv_heads = static_cast<int>(kv_heads_[i]);
    layer.head_dim_k = static_cast<int>(full_[i] ? key_length_ : key_length_window_);
    layer.head_dim_v = static_cast<int>(full_[i] ? value_length_ : value_length_window_);
    if (family == Family::kMla) {
      layer.cache = CacheKind::kMla;
      layer.kv_lora_rank = static_cast<int>(kv_lora_rank_);
      layer.rope_dim = static_cast<int>(rope_dim_);
    } else if (kv_heads_[i] == 0) {
      layer.cache = CacheKind::kNone;
    } else if (!full_[i]) {
      layer.cache = family == Family::kChunked ? CacheKind::kChunkedAttention : CacheKind::kSlidingWindow;
      layer.window = static_cast<int>(window_);
    }
    return layer;
  }

  // Bytes as they lie in the file; a mixture's experts count by the share that one token uses.
  void ReadWeights() {
    double active_experts = 1.0;
    const auto count = file_.GetInt(Key("expert_count"));
    const auto used = file_.GetInt(Key("expert_used_count"));
    if (count.ok() && used.ok() && *count > 0 && *used > 0) {
      active_experts = std::min(1.0, static_cast<double>(*used) / static_cast<double>(*count));
    }
    int64_t bytes = 0;
    double active = 0.0;
    for (const StoredTensor& tensor : file_.tensors()) {
      const int64_t elements = ElementCount(tensor.shape).value_or(0);
      model_.parameters += elements;
      bytes += static_cast<int64_t>(tensor.bytes.size());
      const bool expert = tensor.name.find("_exps") != std::string::npos;
      active += static_cast<double>(elements) * (expert ? active_experts : 1.0);
    }
    model_.active_parameters = static_cast<int64_t>(active);
    model_.weight_bytes = bytes;
    model_.tied_embeddings = file_.FindTensor("output.weight") == nullptr;
    model_.weights.name = "gguf";
    if (model_.parameters > 0)
      model_.weights.bits = 8.0 * static_cast<double>(bytes) / static_cast<double>(model_.parameters);
    model_.attention_sinks = architecture_->name == "gpt-oss";
  }

  const GgufFile& file_;
  const Architecture* architecture_ = nullptr;
  ModelGeometry model_;
  int64_t layer_count_ = 0, mtp_count_ = 0, window_ = 0;
  int64_t key_length_ = 0, value_length_ = 0, key_length_window_ = 0, value_length_window_ = 0;
  int64_t kv_lora_rank_ = 0, rope_dim_ = 0;
  std::vector<int64_t> kv_heads_;
  std::vector<bool> full_;
  StateShape state_;
};

}  // namespace

Result<ModelGeometry> GeometryFromGguf(const GgufFile& file) { return GeometryReader(file).Read(); }

}  // namespace haypile
