#include "models/tiny_model_test.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <random>

namespace haypile {
namespace {

uint16_t ToBf16(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return static_cast<uint16_t>((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

float RoundedToBf16(double value) {
  const uint32_t bits = uint32_t{ToBf16(static_cast<float>(value))} << 16;
  float rounded;
  std::memcpy(&rounded, &bits, sizeof(rounded));
  return rounded;
}

}  // namespace

TinyModel::TinyModel(ModelFamily family, unsigned seed) : seed_(seed) {
  const bool gemma = family == ModelFamily::kGemma3;
  spec_.family = family;
  spec_.architecture = FamilyName(family);
  spec_.layer_count = 3;
  spec_.hidden_size = 48;
  spec_.query_heads = 4;
  spec_.kv_heads = 2;
  spec_.head_dim = 16;
  spec_.feed_forward_size = 80;
  spec_.vocabulary_size = 97;
  spec_.max_positions = 160;
  spec_.norm_epsilon = 1e-6f;
  spec_.query_scale = gemma ? 0.3f : 0.25f;
  spec_.tied_output = gemma || family == ModelFamily::kQwen2;
  spec_.qkv_bias = family == ModelFamily::kQwen2;
  spec_.qk_norm = gemma || family == ModelFamily::kQwen3;
  spec_.embedding_scale = gemma ? std::sqrt(48.0f) : 1.0f;
  spec_.rope.theta = 50000;
  spec_.local_rope.theta = 3000;
  spec_.layers.resize(3);
  // One full layer between two sliding ones.
  if (gemma) spec_.layers[0] = spec_.layers[2] = {.window = 20, .uses_local_rope = true};

  AddMatrix("embed_tokens.weight", 97, 48, gemma ? 0.2 : 1);
  if (!spec_.tied_output) AddMatrix("lm_head.weight", 97, 48, 0.3);
  AddVector("norm.weight", 48, 1, 0.2);
  for (int i = 0; i < spec_.layer_count; ++i) AddLayer("layers." + std::to_string(i) + ".");
}

void TinyModel::AddLayer(const std::string& prefix) {
  const int64_t h = spec_.hidden_size, q = 64, kv = 32, f = spec_.feed_forward_size;
  AddVector(prefix + "input_layernorm.weight", h, 1, 0.2);
  AddVector(prefix + "post_attention_layernorm.weight", h, 1, 0.2);
  if (spec_.family == ModelFamily::kGemma3) {
    AddVector(prefix + "pre_feedforward_layernorm.weight", h, 1, 0.2);
    AddVector(prefix + "post_feedforward_layernorm.weight", h, 1, 0.2);
  }
  const std::string attention = prefix + "self_attn.";
  AddMatrix(attention + "q_proj.weight", q, h, 0.2);
  AddMatrix(attention + "k_proj.weight", kv, h, 0.2);
  AddMatrix(attention + "v_proj.weight", kv, h, 0.2);
  AddMatrix(attention + "o_proj.weight", h, q, 0.2);
  if (spec_.qkv_bias) {
    AddVector(attention + "q_proj.bias", q, 0, 0.5);
    AddVector(attention + "k_proj.bias", kv, 0, 0.5);
    AddVector(attention + "v_proj.bias", kv, 0, 0.5);
  }
  if (spec_.qk_norm) {
    AddVector(attention + "q_norm.weight", spec_.head_dim, 1, 0.2);
    AddVector(attention + "k_norm.weight", spec_.head_dim, 1, 0.2);
  }
  AddMatrix(prefix + "mlp.gate_proj.weight", f, h, 0.2);
  AddMatrix(prefix + "mlp.up_proj.weight", f, h, 0.2);
  AddMatrix(prefix + "mlp.down_proj.weight", h, f, 0.2);
}

void TinyModel::AddMatrix(const std::string& name, int64_t rows, int64_t columns, double spread) {
  std::mt19937 random(seed_++);
  std::normal_distribution<double> normal(0, spread);
  Tensor tensor{{rows, columns}, std::vector<float>(rows * columns)};
  for (auto& value : tensor.values) value = RoundedToBf16(normal(random));
  tensors_[name] = std::move(tensor);
}

void TinyModel::AddVector(const std::string& name, int64_t n, double centre, double spread) {
  std::mt19937 random(seed_++);
  std::normal_distribution<double> normal(centre, spread);
  Tensor tensor{{n}, std::vector<float>(n)};
  for (auto& value : tensor.values) value = static_cast<float>(normal(random));
  tensors_[name] = std::move(tensor);
}

Status TinyModel::ReadBf16(const std::string& name, std::span<uint16_t> out) const {
  std::transform(tensors_.at(name).values.begin(), tensors_.at(name).values.end(), out.begin(), ToBf16);
  return {};
}

Status TinyModel::ReadF32(const std::string& name, std::span<float> out) const {
  std::copy(tensors_.at(name).values.begin(), tensors_.at(name).values.end(), out.begin());
  return {};
}

TinyModel::Rows TinyModel::Linear(const Rows& x, const std::string& name) const {
  const Tensor& w = tensors_.at(name + ".weight");
  const auto bias = tensors_.find(name + ".bias");
  Rows y(x.size(), std::vector<double>(w.shape[0]));
  for (size_t t = 0; t < x.size(); ++t) {
    for (int64_t n = 0; n < w.shape[0]; ++n) {
      double sum = bias != tensors_.end() ? bias->second.values[n] : 0;
      for (int64_t k = 0; k < w.shape[1]; ++k) sum += x[t][k] * w.values[n * w.shape[1] + k];
      y[t][n] = sum;
    }
  }
  return y;
}

TinyModel::Rows TinyModel::Normed(const Rows& x, const std::string& name) const {
  const auto& weight = tensors_.at(name + ".weight").values;
  Rows y = x;
  for (auto& row : y) {
    double squares = 0;
    for (double value : row) squares += value * value;
    const double scale = 1 / std::sqrt(squares / static_cast<double>(row.size()) + spec_.norm_epsilon);
    for (size_t i = 0; i < row.size(); ++i) row[i] *= scale * weight[i];
  }
  return y;
}

void TinyModel::NormHeads(Rows& x, const std::string& name) const {
  const int d = spec_.head_dim;
  for (auto& row : x) {
    for (size_t head = 0; head < row.size() / d; ++head) {
      const Rows normed = Normed({{row.begin() + head * d, row.begin() + (head + 1) * d}}, name);
      std::copy(normed[0].begin(), normed[0].end(), row.begin() + head * d);
    }
  }
}

void TinyModel::Rotate(Rows& x, const RopeSpec& rope) const {
  const int d = spec_.head_dim, half = d / 2;
  for (size_t t = 0; t < x.size(); ++t) {
    for (size_t head = 0; head < x[t].size() / d; ++head) {
      for (int i = 0; i < half; ++i) {
        const double angle = static_cast<double>(t) * std::pow(rope.theta, -2.0 * i / d);
        double& a = x[t][head * d + i];
        double& b = x[t][head * d + half + i];
        const double turned_a = a * std::cos(angle) - b * std::sin(angle);
        b = b * std::cos(angle) + a * std::sin(angle);
        a = turned_a;
      }
    }
  }
}

TinyModel::Rows TinyModel::Attend(const Rows& x, int layer) const {
  const std::string name = "layers." + std::to_string(layer) + ".self_attn.";
  const int d = spec_.head_dim, group = spec_.query_heads / spec_.kv_heads, window = spec_.layers[layer].window;
  Rows q = Linear(x, name + "q_proj"), k = Linear(x, name + "k_proj"), v = Linear(x, name + "v_proj");
  if (spec_.qk_norm) {
    NormHeads(q, name + "q_norm");
    NormHeads(k, name + "k_norm");
  }
  const RopeSpec& rope = spec_.layers[layer].uses_local_rope ? spec_.local_rope : spec_.rope;
  Rotate(q, rope);
  Rotate(k, rope);
  for (Rows* cached : {&k, &v}) {
    for (auto& row : *cached) {
      for (double& value : row) value = RoundedToBf16(value);
    }
  }
  Rows out(x.size(), std::vector<double>(q[0].size()));
  for (size_t t = 0; t < x.size(); ++t) {
    const size_t first = window > 0 && t + 1 > static_cast<size_t>(window) ? t + 1 - window : 0;
    for (int head = 0; head < spec_.query_heads; ++head) {
      const int kv_head = head / group;
      std::vector<double> weights;
      double total = 0;
      for (size_t s = first; s <= t; ++s) {
        double score = 0;
        for (int i = 0; i < d; ++i) score += q[t][head * d + i] * k[s][kv_head * d + i];
        weights.push_back(std::exp(score * spec_.query_scale));
        total += weights.back();
      }
      for (size_t s = first; s <= t; ++s) {
        for (int i = 0; i < d; ++i) out[t][head * d + i] += weights[s - first] / total * v[s][kv_head * d + i];
      }
    }
  }
  return Linear(out, name + "o_proj");
}

TinyModel::Rows TinyModel::FeedForward(const Rows& x, const std::string& prefix) const {
  Rows gate = Linear(x, prefix + "mlp.gate_proj");
  const Rows up = Linear(x, prefix + "mlp.up_proj");
  for (size_t t = 0; t < gate.size(); ++t) {
    for (size_t i = 0; i < gate[t].size(); ++i) {
      const double g = gate[t][i];
      const double tanh_argument = std::sqrt(2 / M_PI) * (g + 0.044715 * g * g * g);
      const double activated =
          spec_.family == ModelFamily::kGemma3 ? 0.5 * g * (1 + std::tanh(tanh_argument)) : g / (1 + std::exp(-g));
      gate[t][i] = activated * up[t][i];
    }
  }
  return Linear(gate, prefix + "mlp.down_proj");
}

std::vector<double> TinyModel::ReferenceHidden(const std::vector<int32_t>& tokens) const {
  const bool gemma = spec_.family == ModelFamily::kGemma3;
  const int64_t h = spec_.hidden_size;
  const auto& embedding = tensors_.at("embed_tokens.weight").values;
  Rows x;
  for (int32_t token : tokens) {
    x.emplace_back(embedding.begin() + token * h, embedding.begin() + (token + 1) * h);
    for (double& value : x.back()) value *= spec_.embedding_scale;
  }
  const auto add = [&](const Rows& y) {
    for (size_t t = 0; t < x.size(); ++t) {
      for (int64_t i = 0; i < h; ++i) x[t][i] += y[t][i];
    }
  };
  for (int layer = 0; layer < spec_.layer_count; ++layer) {
    const std::string prefix = "layers." + std::to_string(layer) + ".";
    const Rows attended = Attend(Normed(x, prefix + "input_layernorm"), layer);
    add(gemma ? Normed(attended, prefix + "post_attention_layernorm") : attended);
    const Rows mlp =
        FeedForward(Normed(x, prefix + (gemma ? "pre_feedforward_layernorm" : "post_attention_layernorm")), prefix);
    add(gemma ? Normed(mlp, prefix + "post_feedforward_layernorm") : mlp);
  }
  std::vector<double> hidden;
  for (const auto& row : Normed(x, "norm")) hidden.insert(hidden.end(), row.begin(), row.end());
  return hidden;
}

std::vector<double> TinyModel::ReferenceLogits(const double* hidden) const {
  const Rows x = {{hidden, hidden + spec_.hidden_size}};
  return Linear(x, spec_.tied_output ? "embed_tokens" : "lm_head")[0];
}

}  // namespace haypile
