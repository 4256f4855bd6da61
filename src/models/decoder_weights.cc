#include "models/decoder_weights.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <optional>
#include <string>

namespace haypile {
namespace {

constexpr int64_t kAlignment = 64;

// A tensor to be read: where its matrix or vector is wanted, and its place in memory once all sizes are known.
struct PlannedTensor {
  std::string name;
  std::vector<int64_t> shape;
  Bf16Matrix* matrix = nullptr;    // BF16, or
  const float** vector = nullptr;  // FP32
  int64_t offset = 0;

  int64_t elements() const { return shape.size() == 2 ? shape[0] * shape[1] : shape[0]; }
  int64_t bytes() const { return elements() * (matrix != nullptr ? 2 : 4); }
};

class LoadPlan {
 public:
  explicit LoadPlan(const ModelSpec& spec) : spec_(spec) {}

  void Add(DecoderWeights& weights) {
    const int64_t v = spec_.vocabulary_size, h = spec_.hidden_size;
    AddMatrix("embed_tokens.weight", v, h, &weights.embedding);
    if (!spec_.tied_output) AddMatrix("lm_head.weight", v, h, &weights.output);
    AddVector("norm.weight", h, &weights.final_norm);
    for (int i = 0; i < spec_.layer_count; ++i) AddLayer(fmt::format("layers.{}.", i), weights.layers[i]);
  }

  // Gives every tensor its place; returns the bytes of all.
  int64_t Place() {
    int64_t offset = 0;
    for (auto& tensor : tensors_) {
      tensor.offset = offset;
      offset += (tensor.bytes() + kAlignment - 1) / kAlignment * kAlignment;
    }
    return offset;
  }

  const std::vector<PlannedTensor>& tensors() const { return tensors_; }

 private:
  void AddMatrix(std::string name, int64_t rows, int64_t columns, Bf16Matrix* matrix) {
    tensors_.push_back({std::move(name), {rows, columns}, matrix, nullptr, 0});
  }
  void AddVector(std::string name, int64_t n, const float** vector) {
    tensors_.push_back({std::move(name), {n}, nullptr, vector, 0});
  }

  void AddLayer(const std::string& prefix, LayerWeights& layer) {
    const int64_t h = spec_.hidden_size, d = spec_.head_dim, f = spec_.feed_forward_size;
    const int64_t q = spec_.query_heads * d, kv = spec_.kv_heads * d;
    const std::string attention = prefix + "self_attn.", mlp = prefix + "mlp.";
    AddVector(prefix + "input_layernorm.weight", h, &layer.input_norm);
    if (spec_.family == ModelFamily::kGemma3) {
      AddVector(prefix + "post_attention_layernorm.weight", h, &layer.attention_output_norm);
      AddVector(prefix + "pre_feedforward_layernorm.weight", h, &layer.mlp_input_norm);
      AddVector(prefix + "post_feedforward_layernorm.weight", h, &layer.mlp_output_norm);
    } else {
      AddVector(prefix + "post_attention_layernorm.weight", h, &layer.mlp_input_norm);
    }
    AddMatrix(attention + "q_proj.weight", q, h, &layer.q);
    AddMatrix(attention + "k_proj.weight", kv, h, &layer.k);
    AddMatrix(attention + "v_proj.weight", kv, h, &layer.v);
    AddMatrix(attention + "o_proj.weight", h, q, &layer.o);
    if (spec_.qkv_bias) {
      AddVector(attention + "q_proj.bias", q, &layer.q_bias);
      AddVector(attention + "k_proj.bias", kv, &layer.k_bias);
      AddVector(attention + "v_proj.bias", kv, &layer.v_bias);
    }
    if (spec_.qk_norm) {
      AddVector(attention + "q_norm.weight", d, &layer.q_norm);
      AddVector(attention + "k_norm.weight", d, &layer.k_norm);
    }
    AddMatrix(mlp + "gate_proj.weight", f, h, &layer.gate);
    AddMatrix(mlp + "up_proj.weight", f, h, &layer.up);
    AddMatrix(mlp + "down_proj.weight", h, f, &layer.down);
  }

  const ModelSpec& spec_;
  std::vector<PlannedTensor> tensors_;
};

Status CheckShape(const Checkpoint& checkpoint, const PlannedTensor& tensor) {
  if (!checkpoint.Has(tensor.name)) {
    return Error(ErrorCode::kNotFound, fmt::format("the model has no tensor '{}', which its architecture ({}) needs",
                                                   tensor.name, checkpoint.spec().architecture));
  }
  HAYPILE_TRY_ASSIGN(const auto shape, checkpoint.Shape(tensor.name));
  if (shape == tensor.shape) return {};
  return Error(ErrorCode::kMalformed, fmt::format("tensor '{}' has shape [{}], expected [{}]", tensor.name,
                                                  fmt::join(shape, ", "), fmt::join(tensor.shape, ", ")));
}

Status ReadTensor(const Checkpoint& checkpoint, const PlannedTensor& tensor, uint8_t* memory) {
  const auto elements = static_cast<size_t>(tensor.elements());
  if (tensor.matrix != nullptr) {
    auto* data = reinterpret_cast<uint16_t*>(memory + tensor.offset);
    *tensor.matrix = {data, tensor.shape[0], tensor.shape[1]};
    return checkpoint.ReadBf16(tensor.name, {data, elements});
  }
  auto* data = reinterpret_cast<float*>(memory + tensor.offset);
  *tensor.vector = data;
  return checkpoint.ReadF32(tensor.name, {data, elements});
}

}  // namespace

Result<DecoderWeights> DecoderWeights::Load(const Checkpoint& checkpoint, ThreadPool& pool) {
  const ModelSpec& spec = checkpoint.spec();
  DecoderWeights weights;
  weights.layers.resize(spec.layer_count);
  LoadPlan plan(spec);
  plan.Add(weights);
  for (const auto& tensor : plan.tensors()) HAYPILE_TRY(CheckShape(checkpoint, tensor));
  HAYPILE_TRY_ASSIGN(weights.memory, AlignedBuffer::Allocate(plan.Place()));

  std::vector<Status> read(plan.tensors().size());
  pool.ParallelFor(read.size(), [&](size_t i, int /*worker*/) {
    read[i] = ReadTensor(checkpoint, plan.tensors()[i], weights.memory.data());
  });
  for (auto& status : read) HAYPILE_TRY(std::move(status));
  if (spec.tied_output) weights.output = weights.embedding;
  return weights;
}

}  // namespace haypile
