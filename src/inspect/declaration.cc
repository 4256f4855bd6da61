#include "inspect/declaration.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>

#include "base/json.h"
#include "base/text.h"

namespace haypile {
namespace {

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

bool IsWordCharacter(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

// Python writes Infinity and NaN, which are no JSON; outside strings they become null. Byte positions change, so the
// text is not for messages.
std::string WithoutPythonNumbers(std::string_view text) {
  std::string json;
  bool in_string = false;
  for (size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string && c == '\\' && i + 1 < text.size()) {
      json += c;
      json += text[++i];
      continue;
    }
    if (c == '"') in_string = !in_string;
    const bool starts = !in_string && (i == 0 || !IsWordCharacter(text[i - 1]));
    std::string_view word;
    for (const std::string_view candidate : {"-Infinity", "Infinity", "NaN"}) {
      if (starts && text.substr(i, candidate.size()) == candidate) word = candidate;
      if (!word.empty()) break;
    }
    if (word.empty()) {
      json += c;
    } else {
      json += "null";
      i += word.size() - 1;
    }
  }
  return json;
}

Result<Json> ParseObject(std::string_view text, const std::string& name) {
  Result<Json> json = ParseJson(text);
  if (!json.ok()) {
    Result<Json> lenient = ParseJson(WithoutPythonNumbers(text));
    if (lenient.ok()) json = std::move(lenient);
  }
  if (!json.ok()) return std::move(json).error().WithContext("'" + name + "'");
  if (!json->is_object()) {
    return Error(ErrorCode::kMalformed,
                 "'" + name + "': expected a JSON object ({...}), found " + std::string(json->type_name()));
  }
  return json;
}

// The exporters' names of a KV dtype, as one: "FP8", "float8_e4m3fn" and "fp8_e4m3" are "fp8".
std::string KvDtypeOf(const std::string& text) {
  const std::string lower = LowerCase(text);
  if (lower == "none" || lower == "null" || lower == "auto") return "";
  return lower == "fp8_e4m3" || lower == "float8_e4m3fn" || lower == "float8" ? "fp8" : lower;
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
    out->kv_in_config = KvDtypeOf(scheme.get<std::string>());
    // AutoFP8 says how the scales are made and means FP8.
    if (out->method == "fp8" && out->kv_in_config == "static") out->kv_in_config = "fp8";
    return;
  }
  if (!scheme.is_object()) {
    out->scheme_faults.push_back({"kv_cache_scheme", out->scheme, "an object or a name"});
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
  out->kv_in_config = IsFloat(scheme, 8)
                          ? "fp8"
                          : LowerCase(TextOf(scheme, "type")) + (bits == nullptr     ? ""
                                                                 : bits->is_string() ? bits->get<std::string>()
                                                                                     : DumpJson(*bits, -1));
}

// Quark keeps the cache's scheme under its own names.
void ReadQuark(const Json& quantization, QuantizationDeclaration* out) {
  const Json* cache = Member(quantization, "kv_cache_quant_config");
  if (cache == nullptr || !cache->is_object()) return;
  out->scheme = DumpJson(*cache, -1);
  for (const auto& [pattern, layer] : cache->items()) {
    const Json* tensors = Member(layer, "output_tensors");
    if (tensors == nullptr || !tensors->is_object()) continue;
    const std::string dtype = LowerCase(TextOf(*tensors, "dtype"));
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

// The modules that one file leaves unquantized, whatever it calls the list; nothing when it has none.
using Excluded = std::optional<std::set<std::string>>;

Excluded ReadExcluded(const Json& quantization, QuantizationDeclaration* out) {
  Excluded names;
  for (const char* key : {"ignore", "exclude_modules", "modules_to_not_convert", "ignored_layers", "exclude"}) {
    const Json* list = Member(quantization, key);
    if (list == nullptr || !list->is_array()) continue;
    if (out->excluded_key.empty()) out->excluded_key = key;
    if (!names) names.emplace();
    for (const Json& entry : *list) {
      if (!entry.is_string()) continue;
      const auto name = entry.get<std::string>();
      names->insert(name);
      if (std::find(out->excluded.begin(), out->excluded.end(), name) == out->excluded.end()) {
        out->excluded.push_back(name);
      }
    }
  }
  return names;
}

void ReadProducer(const Json& object, QuantizationDeclaration* out) {
  const Json* producer = Member(object, "producer");
  if (producer == nullptr || !out->producer.empty()) return;
  out->producer = TextOf(*producer, "name");
  out->producer_version = TextOf(*producer, "version");
}

Excluded ReadQuantizationConfig(const Json& outer, QuantizationDeclaration* out) {
  out->in_config = true;
  out->method = LowerCase(TextOf(outer, "quant_method"));
  ReadProducer(outer, out);
  // Some exports put the content of hf_quant_config.json here whole.
  const Json* inner = Member(outer, "quantization");
  const Json& quantization = inner != nullptr && inner->is_object() ? *inner : outer;
  if (out->method.empty() && &quantization != &outer) out->method = "modelopt";
  out->algorithm = TextOf(quantization, "quant_algo");
  Excluded excluded = ReadExcluded(quantization, out);
  if (const Json* scheme = Member(quantization, "kv_cache_scheme")) {
    ReadScheme(*scheme, out);
  } else if (const Json* algorithm = Member(quantization, "kv_cache_quant_algo")) {
    out->kv_in_config = algorithm->is_string() ? KvDtypeOf(algorithm->get<std::string>()) : "";
  } else if (out->method == "quark") {
    ReadQuark(quantization, out);
  }
  const bool compressed = out->method == "compressed-tensors" || out->method == "compressed_tensors";
  const bool weights = compressed ? !GroupsAreEmpty(quantization) : !out->algorithm.empty();
  out->kv_only = (compressed || out->method.starts_with("modelopt")) && !out->kv_in_config.empty() && !weights;
  return excluded;
}

Result<Excluded> ReadHfQuantConfig(const Json& root, const std::string& name, QuantizationDeclaration* out) {
  out->in_hf_config = true;
  ReadProducer(root, out);
  const Json* quantization = Member(root, "quantization");
  if (quantization == nullptr) return Excluded();
  const auto wrong = [&name](const char* field, const Json& value, const char* expected) {
    return Error(ErrorCode::kMalformed, "'" + name + "': field '" + field + "' is " +
                                            DumpJson(value, -1).substr(0, 60) + "; expected " + expected);
  };
  if (!quantization->is_object()) return wrong("quantization", *quantization, "an object");
  const Json* cache = Member(*quantization, "kv_cache_quant_algo");
  if (cache != nullptr && !cache->is_string()) {
    return wrong("quantization.kv_cache_quant_algo", *cache, "a name such as FP8");
  }
  const std::string algorithm = TextOf(*quantization, "quant_algo");
  if (out->algorithm.empty()) out->algorithm = algorithm;
  if (out->method.empty()) out->method = "modelopt";
  out->kv_in_hf_config = KvDtypeOf(TextOf(*quantization, "kv_cache_quant_algo"));
  if (!algorithm.empty()) out->kv_only = false;
  if (!out->in_config) out->kv_only = algorithm.empty() && !out->kv_in_hf_config.empty();
  return ReadExcluded(*quantization, out);
}

// A name of a KV dtype that is neither FP8 nor NVFP4 (ModelOpt's INT8, NVFP4_AFFINE).
void CheckNamedDtype(QuantizationDeclaration* out) {
  const std::string dtype = out->KvDtype();
  const bool named = !out->in_config || out->scheme.empty() || out->scheme.starts_with('"');
  if (!named || !out->scheme_faults.empty() || dtype.empty() || dtype == "fp8" || dtype == "nvfp4") return;
  out->scheme_faults.push_back({"kv_cache_quant_algo", '"' + dtype + '"', "FP8 or NVFP4"});
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

// Of the file or of one of the parts in which multimodal models keep their decoder's fields.
bool NamesLayers(const Json& config, int depth = 0) {
  for (const char* key : {"num_hidden_layers", "n_layer", "n_layers", "num_layers", "hybrid_override_pattern"}) {
    if (Member(config, key) != nullptr) return true;
  }
  if (!config.is_object() || depth > 2) return false;
  return std::any_of(config.begin(), config.end(),
                     [depth](const Json& part) { return part.is_object() && NamesLayers(part, depth + 1); });
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
  declaration.layers_by_known_name = NamesLayers(config);
  declaration.k_eq_v = FlagOf(config, "attention_k_eq_v");
  Excluded excluded;
  if (const Json* quantization = QuantizationOf(config)) {
    if (!quantization->is_object()) {
      return Error(ErrorCode::kMalformed,
                   "'" + folder + "/config.json': field 'quantization_config': expected an object");
    }
    excluded = ReadQuantizationConfig(*quantization, &declaration);
  }
  if (!hf_quant_config.empty()) {
    HAYPILE_TRY_ASSIGN(const Json quant, ParseObject(hf_quant_config, folder + "/hf_quant_config.json"));
    HAYPILE_TRY_ASSIGN(const Excluded excluded_hf,
                       ReadHfQuantConfig(quant, folder + "/hf_quant_config.json", &declaration));
    declaration.excluded_conflict = excluded && excluded_hf && *excluded != *excluded_hf;
  }
  CheckNamedDtype(&declaration);
  declaration.kv_conflict =
      declaration.in_config && declaration.in_hf_config && declaration.kv_in_config != declaration.kv_in_hf_config;
  return declaration;
}

CheckpointFindings DeclarationFindings(const QuantizationDeclaration& declaration) {
  CheckpointFindings findings;
  const auto shown = [](const std::string& value) { return value.empty() ? std::string("none") : value; };
  if (declaration.kv_conflict) {
    findings.push_back({FindingLevel::kWarning, "kv_dtype_conflict",
                        "the KV dtype differs between the two files: config.json says " +
                            shown(declaration.kv_in_config) + ", hf_quant_config.json says " +
                            shown(declaration.kv_in_hf_config) + "; a tool that reads one file sizes the cache " +
                            "differently from one that reads the other",
                        "name the dtype yourself (--kv-cache-dtype), or make the files agree"});
  }
  if (!declaration.in_config && !declaration.kv_in_hf_config.empty()) {
    findings.push_back({FindingLevel::kWarning, "kv_dtype_in_one_file",
                        "only hf_quant_config.json declares a cache of " + declaration.kv_in_hf_config +
                            "; config.json has no quantization_config, so a tool that reads it alone sees none",
                        "name the dtype yourself (--kv-cache-dtype)"});
  }
  for (const SchemeFault& fault : declaration.scheme_faults) {
    const bool scheme = !fault.field.starts_with("kv_cache");
    findings.push_back({FindingLevel::kError, "kv_cache_scheme_unsupported",
                        (scheme ? "kv_cache_scheme: field '" : "'") + fault.field + "' is " + fault.value +
                            "; engines run only " + fault.expected,
                        "do not serve it with this scheme: remove kv_cache_scheme or quantize the cache anew to 8-bit "
                        "float, symmetric, static"});
  }
  if (declaration.kv_only) {
    findings.push_back(
        {FindingLevel::kNote, "kv_only_quantization",
         "KV only: the cache is quantized and no weight is (no config group has a target, or there is no "
         "algorithm for weights)",
         ""});
  }
  if (declaration.excluded_conflict) {
    findings.push_back(
        {FindingLevel::kWarning, "excluded_modules_differ",
         "config.json and hf_quant_config.json list different modules to leave unquantized: a loader that "
         "reads one file takes a layer for quantized that is not, or the reverse",
         "make the lists equal ('ignore' in config.json, 'exclude_modules' in hf_quant_config.json)"});
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
