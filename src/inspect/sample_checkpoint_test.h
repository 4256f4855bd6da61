#pragma once

#include <string>
#include <vector>

#include "checkpoint/test_files.h"

namespace haypile::inspect_samples {

// A tensor of a sample; `values` of scales, repeated until it is full; without them it is zeros.
struct SampleTensor {
  std::string name;
  std::string dtype;       // "F32", "BF16" or "U8"
  std::vector<int> shape;  // {}: one value
  std::vector<float> values = {};
};

// k_scale and v_scale (`pattern` holds "{layer}" and "{side}") of `layers` layers; K's are values[layer], V's half of
// it.
std::vector<SampleTensor> ScalesOf(const std::string& pattern, int layers, const std::vector<float>& values,
                                   const std::string& dtype = "F32", const std::vector<int>& shape = {});

// Bytes of a safetensors file of these tensors.
std::string FileOf(const std::vector<SampleTensor>& tensors);

// A config.json of a Llama of `layers` layers with 16 query and 8 KV heads of 64; `more` is put before its last brace.
std::string LlamaConfig(int layers, const std::string& more = "");

// ", \"quantization_config\": {...}" of an exporter that quantizes the cache to FP8 as well as weights.
extern const char* const kCompressedTensorsFp8;
extern const char* const kModelOptFp8;

}  // namespace haypile::inspect_samples
