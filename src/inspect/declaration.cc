#include "inspect/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/json.h"

namespace haypile {
namespace {

std::string Lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::tolower(c); });
  return text;
}

// The text of a member; empty when it is absent, null or no string.
std::string TextOf(const Json& object, const char* key) {
  const auto found = object.is_object() ? object.find(key) : object.end();
  return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

const Json* Member(const Json& object, const char* key) {
  if (!object.is_object()) return nullptr;
  const auto found = object.find(key);
  return found == object.end() || found->is_null() ? nullptr : &*found;
}

Result<Json> ParseObject(std::string_view text, const std::string& name) {
  Result<Json> json = ParseJson(text);
  if (!json.ok()) return std::move(json).error().WithContext("'" + name + "'");
  if (!json->is_object()) return Error(ErrorCode::kMalformed, "'" + name + "': expected a JSON object");
  return json;
}

// The only scheme that engines run: 8-bit float, symmetric, static, per tensor or per head.
struct SchemeRule {
  const char* field;
  bool required;
  std::vector<Json> allowed;
  const char* expected;
};

std::vector<SchemeFault> FaultsOf(const Json& scheme) {
  const std::vector<SchemeRule> rules = {
      {"num_bits", true, {8}, "8"},
      {"type", true, {"float"}, "\"float\""},
      {"symmetric", false, {true}, "true"},
      {"dynamic", false, {false}, "false (static scales)"},
      {"strategy", false, {"tensor", "attn_head"}, "\"tensor\" or \"attn_head\""},
  };
  std::vector<SchemeFault> faults;
  for (const SchemeRule& rule : rules) {
    const Json* value = Member(scheme, rule.field);
    if (value == nullptr && !rule.required) continue;
    const bool fits =
        value != nullptr && std::find(rule.allowed.begin(), rule.allowed.end(), *value) != rule.allowed.end();
    if (!fits) faults.push_back({rule.field, value == nullptr ? "absent" : DumpJson(*value, -1), rule.expected});
  }
  for (const char* field : {"group_size", "block_structure"}) {
    if (const Json* value = Member(scheme, field)) faults.push_back({field, DumpJson(*value, -1), "null"});
  }
  return faults;
}

bool IsFloat(const Json& scheme, int bits) {
  const Json* width = Member(scheme, "num_bits");
  return width != nullptr && width->is_number_integer() && *width == bits && TextOf(scheme, "type") == "float";
}

void ReadScheme(const Json& scheme, QuantizationDeclaration* out) {
  out->scheme = DumpJson(scheme, -1);
  if (scheme.is_string()) {
    out->kv_in_config = Lower(scheme.get<std::string>());
    return;
  }
  out->strategy = TextOf(scheme, "strategy");
  // ModelOpt describes NVFP4 as 4-bit float; compressed-tensors has no such cache.
  const bool modelopt = out->method.starts_with("modelopt");
  if (modelopt && IsFloat(scheme, 4)) {
    out->kv_in_config = "nvfp4";
    return;
  }
  out->scheme_faults = FaultsOf(scheme);
  const Json* bits = Member(scheme, "num_bits");
  out->kv_in_config =
      IsFloat(scheme, 8) ? "fp8" : Lower(TextOf(scheme, "type")) + (bits == nullptr ? "" : DumpJson(*bits, -1));
}

// Quark keeps the cache's scheme under its own names.
void ReadQuark(const Json& quantization, QuantizationDeclaration* out) {
  const Json* cache = Member(quantization, "kv_cache_quant_config");
  if (cache == nullptr || !cache->is_object()) return;
  out->scheme = DumpJson(*cache, -1);
  for (const auto& [pattern, layer] : cache->items()) {
    const Json* tensors = Member(layer, "output_tensors");
    if (tensors == nullptr || !tensors->is_object()) continue;
    const std::string dtype = Lower(TextOf(*tensors, "dtype"));
    out->kv_in_config = dtype == "fp8_e4m3" ? "fp8" : dtype;
    if (dtype != "fp8_e4m3") out->scheme_faults.push_back({"dtype", '"' + dtype + '"', "\"fp8_e4m3\""});
    const std::string scheme = TextOf(*tensors, "qscheme");
    out->strategy = scheme == "per_tensor" ? "tensor" : scheme;
    if (scheme != "per_tensor") out->scheme_faults.push_back({"qscheme", '"' + scheme + '"', "\"per_tensor\""});
    return;
  }
}

// True when no group has a target: nothing but the cache is quantized.
bool GroupsAreEmpty(const Json& quantization) {
  const Json* groups = Member(quantization, "config_groups");
  if (groups == nullptr || !groups->is_object()) return true;
  return std::all_of(groups->begin(), groups->end(), [](const Json& group) {
    const Json* targets = Member(group, "targets");
    return targets == nullptr || (targets->is_array() && targets->empty());
  });
}

void ReadExcluded(const Json& quantization, QuantizationDeclaration* out) {
  for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "exclude"}) {
    const Json* list = Member(quantization, key);
    if (list == nullptr || !list->is_array()) continue;
    if (out->excluded_key.empty()) out->excluded_key = key;
    for (const Json& entry : *list) {
      if (!entry.is_string()) continue;
      const auto name = entry.get<std::string>();
      if (std::find(out->excluded.begin(), out->excluded.end(), name) == out->excluded.end()) {
        out->excluded.push_back(name);
      }
    }
  }
}

void ReadProducer(const Json& object, QuantizationDeclaration* out) {
  const Json* producer = Member(object, "producer");
  if (producer == nullptr || !out->producer.empty()) return;
  out->producer = TextOf(*producer, "name");
  out->producer_version = TextOf(*producer, "version");
}

void ReadQuantizationConfig(const Json& quantization, QuantizationDeclaration* out) {
  out->in_config = true;
  out->method = Lower(TextOf(quantization, "quant_method"));
  out->algorithm = TextOf(quantization, "quant_algo");
  ReadProducer(quantization, out);
  ReadExcluded(quantization, out);
  if (const Json* scheme = Member(quantization, "kv_cache_scheme")) {
    ReadScheme(*scheme, out);
  } else if (const Json* algorithm = Member(quantization, "kv_cache_quant_algo")) {
    out->kv_in_config = algorithm->is_string() ? Lower(algorithm->get<std::string>()) : "";
  } else if (out->method == "quark") {
    ReadQuark(quantization, out);
  }
  out->kv_only = out->method == "compressed-tensors" && !out->scheme.empty() && GroupsAreEmpty(quantization);
}

void ReadHfQuantConfig(const Json& root, QuantizationDeclaration* out) {
  out->in_hf_config = true;
  ReadProducer(root, out);
  const Json* quantization = Member(root, "quantization");
  if (quantization == nullptr) return;
  if (out->algorithm.empty()) out->algorithm = TextOf(*quantization, "quant_algo");
  if (out->method.empty()) out->method = "modelopt";
  out->kv_in_hf_config = Lower(TextOf(*quantization, "kv_cache_quant_algo"));
  ReadExcluded(*quantization, out);
}

// quantization_config of the whole file or of the part that describes the decoder.
const Json* QuantizationOf(const Json& config) {
  for (const char* key : {"quantization_config", "compression_config"}) {
    if (const Json* found = Member(config, key)) return found;
    const Json* text = Member(config, "text_config");
    const Json* nested = text == nullptr ? nullptr : Member(*text, key);
    if (nested != nullptr) return nested;
  }
  return nullptr;
}

bool FlagOf(const Json& config, const char* key) {
  const Json* value = Member(config, key);
  if (value == nullptr) {
    const Json* text = Member(config, "text_config");
    value = text == nullptr ? nullptr : Member(*text, key);
  }
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

}  // namespace

Result<QuantizationDeclaration> ReadDeclaration(std::string_view config_json, std::string_view hf_quant_config,
                                                const std::string& folder) {
  QuantizationDeclaration declaration;
  HAYPILE_TRY_ASSIGN(const Json config, ParseObject(config_json, folder + "/config.json"));
  const Json* architectures = Member(config, "architectures");
  if (architectures != nullptr && architectures->is_array() && !architectures->empty() &&
      architectures->front().is_string()) {
    declaration.architecture = architectures->front().get<std::string>();
  }
  declaration.model_type = TextOf(config, "model_type");
  declaration.k_eq_v = FlagOf(config, "attention_k_eq_v");
  if (const Json* quantization = QuantizationOf(config)) {
    if (!quantization->is_object()) {
      return Error(ErrorCode::kMalformed,
                   "'" + folder + "/config.json': field 'quantization_config': expected an object");
    }
    ReadQuantizationConfig(*quantization, &declaration);
  }
  if (!hf_quant_config.empty()) {
    HAYPILE_TRY_ASSIGN(const Json quant, ParseObject(hf_quant_config, folder + "/hf_quant_config.json"));
    ReadHfQuantConfig(quant, &declaration);
  }
  declaration.kv_conflict =
      declaration.in_config && declaration.in_hf_config && declaration.kv_in_config != declaration.kv_in_hf_config;
  return declaration;
}

Findings DeclarationFindings(const QuantizationDeclaration& declaration) {
  Findings findings;
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
  if (declaration.kv_conflict) {
    findings.push_back({FindingLevel::kWarning, "kv_dtype_conflict",
                        "the KV dtype differs between the two files: config.json says " +
                            shown(declaration.kv_in_config) + ", hf_quant_config.json says " +
                            shown(declaration.kv_in_hf_config) + "; a tool that reads one file sizes the cache " +
                            "differently from one that reads the other",
                        "name the dtype yourself (--kv-cache-dtype), or make the files agree"});
  }
  for (const SchemeFault& fault : declaration.scheme_faults) {
    findings.push_back(
        {FindingLevel::kError, "kv_cache_scheme_unsupported",
         "kv_cache_scheme: field '" + fault.field + "' is " + fault.value + "; engines run only " + fault.expected,
         "do not serve it with this scheme: remove kv_cache_scheme or quantize the cache anew to 8-bit "
         "float, symmetric, static"});
  }
  if (declaration.kv_only) {
    findings.push_back({FindingLevel::kNote, "kv_only_quantization",
                        "KV only: the cache is quantized and no weight is (no config group has a target)", ""});
  }
  if (!declaration.excluded_key.empty()) {
    findings.push_back({FindingLevel::kNote, "excluded_modules",
                        fmt::format("{} module patterns are left unquantized (key '{}')", declaration.excluded.size(),
                                    declaration.excluded_key),
                        ""});
  }
  return findings;
}

}  // namespace haypile
