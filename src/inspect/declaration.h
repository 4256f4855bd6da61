#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "inspect/finding.h"

namespace haypile {

// A field of kv_cache_scheme with a value that no engine takes.
struct SchemeFault {
  std::string field;
  std::string value;  // as JSON
  std::string expected;
};

// What config.json and hf_quant_config.json say of quantization. Empty strings: not said.
struct QuantizationDeclaration {
  std::string architecture;  // "architectures"[0], whether or not its geometry is understood
  std::string model_type;
  bool layers_by_known_name = false;  // num_hidden_layers, or one of its usual synonyms, is there
  bool in_config = false;             // config.json has a quantization_config
  bool in_hf_config = false;          // hf_quant_config.json exists
  std::string method;                 // quant_method, lower case
  std::string algorithm;              // quant_algo, upper case
  std::string producer;
  std::string producer_version;
  std::string kv_in_config;     // the KV dtype by config.json: "fp8", "nvfp4", "int8", or what it says
  std::string kv_in_hf_config;  // by hf_quant_config.json
  bool kv_conflict = false;     // one says what the other does not
  std::string scheme;           // kv_cache_scheme as JSON
  std::string strategy;         // of the scheme: "tensor", "attn_head", ...
  std::vector<SchemeFault> scheme_faults;
  bool kv_only = false;               // a KV cache scheme, and no weight is quantized
  std::string excluded_key;           // which key lists the modules that are left unquantized
  std::vector<std::string> excluded;  // of both files, each once
  bool excluded_conflict = false;     // both files list modules, and not the same
  bool k_eq_v = false;                // attention_k_eq_v

  std::string KvDtype() const { return kv_in_config.empty() ? kv_in_hf_config : kv_in_config; }
};

// `hf_quant_config` is empty when there is no such file. kMalformed: not JSON, or a field of the wrong type.
Result<QuantizationDeclaration> ReadDeclaration(std::string_view config_json, std::string_view hf_quant_config,
                                                const std::string& folder);

// What is odd about the declaration by itself.
CheckpointFindings DeclarationFindings(const QuantizationDeclaration& declaration);

}  // namespace haypile
