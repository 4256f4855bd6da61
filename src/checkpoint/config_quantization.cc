#include "checkpoint/config_quantization.h"

#include <array>
#include <charconv>

#include "base/json.h"
#include "base/text.h"
#include "checkpoint/weight_type.h"

namespace haypile {
namespace {

constexpr const char* kAdvice =
    "; weights must be plain (F32, F16 or BF16): start from the checkpoint before its weights were quantized, or from "
    "a GGUF file";

constexpr int kFp8 = 448, kNvfp4 = 6 * 448;

bool IsEmpty(const Json& value) { return value.is_null() || (value.is_structured() && value.empty()); }

Error Quantized(const ConfigFields& fields, const std::string& what) { return fields.Unsupported(what + kAdvice); }

// A group changes the model when it has targets and a scheme for their weights or activations.
Status CheckGroups(const ConfigFields& fields) {
  if (!fields.Has("config_groups")) return {};
  HAYPILE_TRY_ASSIGN(const ConfigFields groups, fields.Nested("config_groups"));
  for (const auto& [name, group] : groups.json().items()) {
    if (IsEmpty(group)) continue;
    if (group.is_object()) {
      const Json targets = group.value("targets", Json());
      if (IsEmpty(targets)) continue;
      const bool plain =
          std::ranges::all_of(std::array{"weights", "input_activations", "output_activations"},
                              [&group = group](const char* part) { return IsEmpty(group.value(part, Json())); });
      if (plain) continue;
    }
    return Quantized(fields, "the group " + QuotedName(name) + " in field " + fields.Quoted("config_groups") +
                                 " quantizes more than the KV cache");
  }
  return {};
}

// "fp8" for 8-bit float, "nvfp4" for 4-bit float, else type and width.
Result<std::string> FormatOfScheme(const ConfigFields& scheme) {
  HAYPILE_TRY_ASSIGN(const int64_t bits, scheme.Int("num_bits", 8));
  HAYPILE_TRY_ASSIGN(const std::string type, scheme.String("type", "int"));
  HAYPILE_TRY_ASSIGN(const bool dynamic, scheme.Bool("dynamic", false));
  HAYPILE_TRY_ASSIGN(const bool symmetric, scheme.Bool("symmetric", true));
  if (dynamic) return std::string("a dynamic format");
  if (!symmetric) return std::string("an asymmetric format");
  if (type == "float" && bits == 8) return std::string("fp8");
  if (type == "float" && bits == 4) return std::string("nvfp4");
  return LowerCase(type) + std::to_string(bits);
}

Result<std::string> KvFormatOf(const ConfigFields& fields) {
  const Json* scheme = fields.Find("kv_cache_scheme");
  if (scheme != nullptr && scheme->is_object()) {
    HAYPILE_TRY_ASSIGN(const ConfigFields nested, fields.Nested("kv_cache_scheme"));
    return FormatOfScheme(nested);
  }
  if (scheme != nullptr) {
    HAYPILE_TRY_ASSIGN(std::string name, fields.String("kv_cache_scheme"));
    return LowerCase(std::move(name));
  }
  HAYPILE_TRY_ASSIGN(std::string algorithm, fields.String("kv_cache_quant_algo", ""));
  return LowerCase(std::move(algorithm));
}

Status ReadProducer(const ConfigFields& fields, KvQuantization* out) {
  if (!fields.Has("producer")) return {};
  HAYPILE_TRY_ASSIGN(const ConfigFields producer, fields.Nested("producer"));
  HAYPILE_TRY_ASSIGN(const std::string name, producer.String("name", ""));
  HAYPILE_TRY_ASSIGN(out->producer_version, producer.String("version", ""));
  out->producer = LowerCase(name);
  return {};
}

Result<KvQuantization> CompressedTensors(const ConfigFields& fields) {
  KvQuantization out{"compressed-tensors", {}, {}, {}};
  HAYPILE_TRY(CheckGroups(fields));
  if (fields.Has("sparsity_config")) {
    HAYPILE_TRY_ASSIGN(const ConfigFields sparsity, fields.Nested("sparsity_config"));
    HAYPILE_TRY_ASSIGN(const std::string format, sparsity.String("format", "dense"));
    if (format != "dense") return Quantized(fields, "weights are stored sparsely, in format " + QuotedName(format));
  }
  const Json* transforms = fields.Find("transform_config");
  if (transforms != nullptr && transforms->is_object() && !IsEmpty(transforms->value("config_groups", Json()))) {
    return Quantized(fields, "field " + fields.Quoted("transform_config") + " transforms weights");
  }
  HAYPILE_TRY_ASSIGN(out.kv_format, KvFormatOf(fields));
  return out;
}

Result<KvQuantization> ModelOpt(const ConfigFields& fields) {
  KvQuantization out{"modelopt", {}, {}, {}};
  HAYPILE_TRY_ASSIGN(const std::string algorithm, fields.String("quant_algo", ""));
  if (!algorithm.empty()) {
    return Quantized(fields,
                     "weights are quantized: field " + fields.Quoted("quant_algo") + " is " + QuotedName(algorithm));
  }
  HAYPILE_TRY(CheckGroups(fields));
  const Json* layers = fields.Find("quantized_layers");
  if (layers != nullptr && !IsEmpty(*layers)) {
    return Quantized(fields, "field " + fields.Quoted("quantized_layers") + " quantizes weights of single layers");
  }
  HAYPILE_TRY_ASSIGN(out.kv_format, KvFormatOf(fields));
  HAYPILE_TRY(ReadProducer(fields, &out));
  return out;
}

// hf_quant_config.json, and a quantization_config that has its form.
Result<KvQuantization> ModelOptFile(const ConfigFields& fields) {
  HAYPILE_TRY_ASSIGN(const ConfigFields quantization, fields.Nested("quantization"));
  HAYPILE_TRY_ASSIGN(KvQuantization out, ModelOpt(quantization));
  HAYPILE_TRY(ReadProducer(fields, &out));
  return out;
}

Result<KvQuantization> FromQuantization(const ConfigFields& fields, const ConfigFields& config, const char* field) {
  if (fields.json().empty()) return KvQuantization{};
  HAYPILE_TRY_ASSIGN(const std::string stated, fields.String("quant_method", ""));
  const std::string method = LowerCase(stated);
  if (method == "compressed-tensors") return CompressedTensors(fields);
  const bool modelopt_form = fields.Has("quantization");
  const bool unnamed = method.empty() && (fields.Has("quant_algo") || fields.Has("kv_cache_quant_algo"));
  if (method.starts_with("modelopt") || (method.empty() && modelopt_form) || unnamed) {
    return modelopt_form ? ModelOptFile(fields) : ModelOpt(fields);
  }
  return Quantized(config, "quantized weights: field " + config.Quoted(field) + " has quant_method " +
                               QuotedName(stated) +
                               "; only compressed-tensors and ModelOpt can be read, where they "
                               "quantize the KV cache alone");
}

Result<ConfigFields> ObjectOf(const Json& json, const std::string& file) {
  if (!json.is_object()) return Error(ErrorCode::kMalformed, "'" + file + "': not a JSON object");
  return ConfigFields(json, file);
}

// The minor of "0.43.1"; nothing when the version is not 0.x.
std::optional<int> MinorOf(const std::string& version) {
  if (!version.starts_with("0.")) return std::nullopt;
  int minor = 0;
  const auto [end, error] = std::from_chars(version.data() + 2, version.data() + version.size(), minor);
  if (error != std::errc() || end == version.data() + 2) return std::nullopt;
  return minor;
}

}  // namespace

Result<KvQuantization> KvQuantizationFromConfig(const ConfigFields& config) {
  if (config.Has("quantization_config")) {
    HAYPILE_TRY_ASSIGN(const ConfigFields fields, config.Nested("quantization_config"));
    return FromQuantization(fields, config, "quantization_config");
  }
  if (config.Has("compression_config")) {
    HAYPILE_TRY_ASSIGN(const ConfigFields fields, config.Nested("compression_config"));
    return FromQuantization(fields, config, "compression_config");
  }
  return KvQuantization{};
}

Result<KvQuantization> ReadKvQuantization(const std::string& folder, std::string_view config,
                                          std::string_view hf_quant_config) {
  const std::string config_file = folder + "/config.json";
  Result<Json> json = ParseJson(config);
  if (!json.ok()) return std::move(json).error().WithContext("'" + config_file + "'");
  HAYPILE_TRY_ASSIGN(const ConfigFields fields, ObjectOf(*json, config_file));
  HAYPILE_TRY_ASSIGN(KvQuantization out, KvQuantizationFromConfig(fields));
  if (out.method.empty() && fields.Has("text_config")) {
    HAYPILE_TRY_ASSIGN(const ConfigFields text, fields.Nested("text_config"));
    HAYPILE_TRY_ASSIGN(out, KvQuantizationFromConfig(text));
  }
  if (hf_quant_config.empty()) return out;
  const std::string file = folder + "/hf_quant_config.json";
  Result<Json> other = ParseJson(hf_quant_config);
  if (!other.ok()) return std::move(other).error().WithContext("'" + file + "'");
  HAYPILE_TRY_ASSIGN(const ConfigFields other_fields, ObjectOf(*other, file));
  HAYPILE_TRY_ASSIGN(const KvQuantization beside, ModelOptFile(other_fields));
  if (out.method.empty()) return beside;
  if (out.kv_format.empty()) out.kv_format = beside.kv_format;
  if (out.producer.empty()) {
    out.producer = beside.producer;
    out.producer_version = beside.producer_version;
  }
  return out;
}

std::optional<int> Nvfp4ScaleDivisor(const std::string& stated_producer, const std::string& version,
                                     bool attention_names) {
  const std::string producer = LowerCase(stated_producer);
  if (attention_names || producer == "haypile" || producer.find("auto-round") != std::string::npos) return kNvfp4;
  const std::optional<int> minor = MinorOf(version);
  if (producer != "modelopt" || !minor) return std::nullopt;
  if (*minor >= 43) return kFp8;
  return *minor < 40 ? std::optional(kNvfp4) : std::nullopt;
}

KvScaleDivisor DivisorOfKvScales(const KvQuantization& quantization, bool attention_names) {
  if (!quantization.kv_format.starts_with("nvfp4")) return {static_cast<float>(kFp8), "amax/448"};
  const std::string by =
      quantization.producer.empty()
          ? "an exporter that is not named"
          : quantization.producer + (quantization.producer_version.empty() ? "" : " ") + quantization.producer_version;
  const auto divisor = Nvfp4ScaleDivisor(quantization.producer, quantization.producer_version, attention_names);
  if (!divisor)
    return {static_cast<float>(kNvfp4), "taken as amax/2688; by " + by + ", whose may be amax/448, 6 times larger"};
  const bool by_names = attention_names && quantization.producer != "haypile";
  return {static_cast<float>(*divisor),
          "amax/" + std::to_string(*divisor) + (by_names ? ", as names like self_attn.k_scale have it" : " by " + by)};
}

}  // namespace haypile
