#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "checkpoint/config_fields.h"

namespace haypile {

// What quantization_config, or hf_quant_config.json, says of a model whose weights are plain. Empty strings: not said.
struct KvQuantization {
  std::string method;     // "compressed-tensors", "modelopt"
  std::string kv_format;  // of the cache, lower case: "fp8", "nvfp4", "int8", or what it says
  std::string producer, producer_version;
};

// From the object of a config.json that may hold quantization_config (or compression_config). Understood are
// compressed-tensors and ModelOpt where they leave every weight and activation as it is. kUnsupported names the group
// or the algorithm that does not, or another method; kMalformed a field of the wrong type.
Result<KvQuantization> KvQuantizationFromConfig(const ConfigFields& config);

// Both files of a folder; `hf_quant_config` is the text of hf_quant_config.json, empty when there is none. What
// config.json says of the cache goes before what the other file says.
Result<KvQuantization> ReadKvQuantization(const std::string& folder, std::string_view config,
                                          std::string_view hf_quant_config);

// A KV scale is amax / value; `words` names the convention and what speaks for it.
struct KvScaleDivisor {
  float value = 448;
  std::string words;
};

// What amax is divided by in NVFP4 scales: 2688, or 448 in ModelOpt's Hugging Face export since 2026-01-20 (releases up
// to 0.39 are older than the change, 0.43 is younger); its Megatron export names scales `attention_names`
// (self_attn.k_scale, not k_proj.k_scale) and keeps 2688, as auto-round and Haypile do. Nothing where producer,
// version and names leave it open.
std::optional<int> Nvfp4ScaleDivisor(const std::string& producer, const std::string& version, bool attention_names);

// FP8 scales are amax/448; NVFP4's by Nvfp4ScaleDivisor. Where that leaves it open, amax/2688 is taken, and `words`
// says so.
KvScaleDivisor DivisorOfKvScales(const KvQuantization& quantization, bool attention_names);

}  // namespace haypile
