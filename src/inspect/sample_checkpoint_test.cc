#include "inspect/sample_checkpoint_test.h"

#include <bit>
#include <cstdint>

namespace haypile::inspect_samples {

const char* const kCompressedTensorsFp8 =
    R"(, "quantization_config": {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups":
    {"group_0": {"targets": ["Linear"], "weights": {"num_bits": 8, "type": "float", "symmetric": true, "strategy":
    "tensor", "dynamic": false}}}, "ignore": ["lm_head"], "kv_cache_scheme": {"num_bits": 8, "type": "float", "strategy":
    "tensor", "dynamic": false, "symmetric": true}})";

const char* const kModelOptFp8 =
    R"(, "quantization_config": {"quant_method": "modelopt", "quant_algo": "FP8", "producer": {"name": "modelopt",
    "version": "0.44.0"}, "ignore": ["lm_head"], "kv_cache_scheme": {"dynamic": false, "num_bits": 8, "type": "float"}})";

namespace {

std::string Replaced(std::string text, const std::string& what, const std::string& by) {
  const size_t at = text.find(what);
  return at == std::string::npos ? text : text.replace(at, what.size(), by);
}

std::string Encoded(const std::string& dtype, float value) {
  if (dtype == "F32") return testing_files::Raw(value);
  // The upper half of a float32: values that bfloat16 holds come through whole.
  if (dtype == "BF16") return testing_files::Raw(static_cast<uint16_t>(std::bit_cast<uint32_t>(value) >> 16));
  return std::string(1, '\0');
}

}  // namespace

std::vector<SampleTensor> ScalesOf(const std::string& pattern, int layers, const std::vector<float>& values,
                                   const std::string& dtype, const std::vector<int>& shape) {
  std::vector<SampleTensor> tensors;
  for (int layer = 0; layer < layers; ++layer) {
    const float value = values[static_cast<size_t>(layer) % values.size()];
    for (const auto& [side, scale] : {std::pair("k", value), std::pair("v", value / 2)}) {
      std::string name = Replaced(pattern, "{layer}", std::to_string(layer));
      name = Replaced(Replaced(name, "{side}", side), "{side}", side);
      tensors.push_back({name, dtype, shape, {scale}});
    }
  }
  return tensors;
}

std::string FileOf(const std::vector<SampleTensor>& tensors) {
  testing_files::SafetensorsWriter writer;
  for (const SampleTensor& tensor : tensors) {
    size_t count = 1;
    std::string shape;
    for (const int extent : tensor.shape) {
      count *= static_cast<size_t>(extent);
      shape += (shape.empty() ? "" : ",") + std::to_string(extent);
    }
    std::string data;
    for (size_t i = 0; i < count; ++i) {
      data += Encoded(tensor.dtype, tensor.values.empty() ? 0.0f : tensor.values[i % tensor.values.size()]);
    }
    writer.Add(tensor.name, tensor.dtype, "[" + shape + "]", data);
  }
  return writer.Build();
}

std::string LlamaConfig(int layers, const std::string& more) {
  return R"({"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 1024,
    "intermediate_size": 2048, "num_attention_heads": 16, "num_key_value_heads": 8, "head_dim": 64, "vocab_size": 1000,
    "max_position_embeddings": 4096, "torch_dtype": "bfloat16", "num_hidden_layers": )" +
         std::to_string(layers) + more + "}";
}

}  // namespace haypile::inspect_samples
