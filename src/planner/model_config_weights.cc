#include "planner/model_config_weights.h"

#include "base/json.h"
#include "base/text.h"

namespace haypile {
namespace {

// "torch.bfloat16" and "bfloat16" are one name.
std::string PlainDtype(std::string name) {
  if (name.starts_with("torch.")) name.erase(0, 6);
  return name;
}

Result<int> DtypeBytes(const ConfigObject& config, std::string_view field, const std::string& name) {
  if (name == "bfloat16" || name == "float16" || name == "half") return 2;
  if (name == "float32" || name == "float") return 4;
  return config.Unsupported("field " + config.Quoted(field) + " is '" + name +
                            "'; bfloat16, float16 and float32 are understood");
}

// "dtype" or "torch_dtype" of the text part, else of the whole file.
Status ReadModelDtype(const ConfigObject& text, const ConfigObject& outer, ModelGeometry* model) {
  model->weights = {.name = "bfloat16", .bits = 16, .assumed = true};
  for (const ConfigObject* config : {&text, &outer}) {
    const std::string_view field = config->FirstOf({"dtype", "torch_dtype"});
    if (field.empty()) continue;
    HAYPILE_TRY_ASSIGN(const std::string spelled, config->String(field));
    const std::string name = PlainDtype(spelled);
    if (name == "auto") continue;
    HAYPILE_TRY_ASSIGN(const int bytes, DtypeBytes(*config, field, name));
    // Engines run a float32 checkpoint in 16 bits; its weights still take 32 on disk only.
    model->model_dtype_bytes = 2;
    model->weights = {.name = name, .bits = 8.0 * bytes, .assumed = false};
    return {};
  }
  return {};
}

Status ReadStateDtype(const ConfigObject& text, ModelGeometry* model) {
  const std::string_view field = text.FirstOf({"mamba_ssm_dtype", "mamba_ssm_cache_dtype"});
  if (field.empty()) return {};
  HAYPILE_TRY_ASSIGN(const std::string name, text.String(field));
  if (name == "auto") return {};
  HAYPILE_TRY_ASSIGN(model->state_dtype_bytes, DtypeBytes(text, field, PlainDtype(name)));
  return {};
}

// Bits of one weight with its share of the group's scale (and zero point).
double WithScale(double bits, double group, double scale_bits) { return group <= 0 ? bits : bits + scale_bits / group; }

// ModelOpt's names of weight formats.
std::optional<WeightFormat> ByAlgorithm(const std::string& algorithm) {
  const std::string name = LowerCase(algorithm);
  if (name == "fp8" || name.starts_with("fp8_")) return WeightFormat{.name = "fp8", .bits = 8};
  if (name == "mxfp8") return WeightFormat{.name = "mxfp8", .bits = WithScale(8, 32, 8)};
  if (name.find("nvfp4") != std::string::npos) return WeightFormat{.name = "nvfp4", .bits = WithScale(4, 16, 8)};
  if (name.find("mxfp4") != std::string::npos) return WeightFormat{.name = "mxfp4", .bits = WithScale(4, 32, 8)};
  if (name == "w4a16_awq" || name == "w4a8_awq") return WeightFormat{.name = "int4", .bits = WithScale(4, 128, 16)};
  if (name.starts_with("w8a8") || name.starts_with("w8a16") || name == "int8_sq")
    return WeightFormat{.name = "int8", .bits = 8};
  return std::nullopt;
}

// compressed-tensors and ModelOpt describe weights by number type and group.
Result<WeightFormat> ByScheme(const ConfigObject& weights) {
  HAYPILE_TRY_ASSIGN(const int64_t bits, weights.Int("num_bits", 1, 16));
  HAYPILE_TRY_ASSIGN(const std::string type, weights.String("type", "int"));
  HAYPILE_TRY_ASSIGN(const int64_t group, weights.Int("group_size", -1, kMaxWidth, 0));
  if (type == "float" && bits == 4 && group == 16) return WeightFormat{.name = "nvfp4", .bits = WithScale(4, 16, 8)};
  if (type == "float" && bits == 4 && group == 32) return WeightFormat{.name = "mxfp4", .bits = WithScale(4, 32, 8)};
  if (type == "float" && bits == 8) return WeightFormat{.name = "fp8", .bits = 8};
  if (type == "int") {
    return WeightFormat{.name = "int" + std::to_string(bits),
                        .bits = WithScale(static_cast<double>(bits), static_cast<double>(group), 16)};
  }
  return weights.Unsupported("weights of " + std::to_string(bits) + " bits and type '" + type +
                             "' are not understood (field " + weights.Quoted("num_bits") + ")");
}

// Of several groups the one with the fewest bits: experts and feed-forward layers, which hold most weights.
Result<std::optional<WeightFormat>> FromConfigGroups(const ConfigObject& quantization) {
  std::optional<WeightFormat> found;
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> groups, quantization.Object("config_groups"));
  if (!groups) return found;
  for (const auto& [name, value] : groups->json().items()) {
    HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> group, groups->Object(name));
    if (!group) continue;
    const Json* targets = group->Find("targets");
    if (targets != nullptr && targets->is_array() && targets->empty()) continue;  // a KV cache scheme only
    HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> weights, group->Object("weights"));
    if (!weights) continue;
    HAYPILE_TRY_ASSIGN(WeightFormat format, ByScheme(*weights));
    if (found) format.assumed = format.name != found->name;
    if (!found || format.bits < found->bits) found = format;
    if (found->name != format.name) found->assumed = true;
  }
  return found;
}

// "MIXED_PRECISION": modules name their own formats; the one that most modules have stands for all.
Result<std::optional<WeightFormat>> FromLayerList(const ConfigObject& quantization) {
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> layers, quantization.Object("quantized_layers"));
  std::optional<WeightFormat> found;
  if (!layers) return found;
  for (const auto& [name, value] : layers->json().items()) {
    const auto algorithm = value.is_object() ? value.find("quant_algo") : value.end();
    if (algorithm == value.end() || !algorithm->is_string()) continue;
    const std::optional<WeightFormat> format = ByAlgorithm(algorithm->get<std::string>());
    if (format && (!found || format->bits < found->bits)) found = format;
  }
  if (found) found->assumed = true;
  return found;
}

Result<std::optional<WeightFormat>> FromAlgorithm(const ConfigObject& quantization) {
  HAYPILE_TRY_ASSIGN(const std::string algorithm, quantization.String("quant_algo"));
  if (algorithm.empty()) return std::optional<WeightFormat>();
  if (LowerCase(algorithm) == "mixed_precision") return FromLayerList(quantization);
  const std::optional<WeightFormat> format = ByAlgorithm(algorithm);
  if (format) return format;
  return quantization.Unsupported("field " + quantization.Quoted("quant_algo") + " is '" + algorithm +
                                  "', a weight format that is not understood");
}

// Integer weights in groups with a 16-bit scale and a zero point of their own width (AWQ, GPTQ and their kin).
Result<WeightFormat> GroupedIntegers(const ConfigObject& quantization, std::string_view bits_field) {
  HAYPILE_TRY_ASSIGN(const int64_t bits, quantization.Int(bits_field, 1, 16));
  HAYPILE_TRY_ASSIGN(const int64_t group, quantization.IntOf({"group_size", "q_group_size"}, -1, kMaxWidth, 128));
  const double width = static_cast<double>(bits);
  return WeightFormat{.name = "int" + std::to_string(bits),
                      .bits = WithScale(width, static_cast<double>(group), 16 + width)};
}

Result<WeightFormat> BitsAndBytes(const ConfigObject& quantization) {
  HAYPILE_TRY_ASSIGN(const bool eight, quantization.Bool("load_in_8bit", false));
  if (eight) return WeightFormat{.name = "int8", .bits = 8};
  HAYPILE_TRY_ASSIGN(const std::string type, quantization.String("bnb_4bit_quant_type", "fp4"));
  HAYPILE_TRY_ASSIGN(const bool twice, quantization.Bool("bnb_4bit_use_double_quant", false));
  // Groups of 64 with an FP32 scale; quantized twice, the scales take 8 bits and FP32 for every 256 of them.
  return WeightFormat{.name = type, .bits = twice ? WithScale(4, 64, 8 + 32.0 / 256) : WithScale(4, 64, 32)};
}

// Nothing when weights stay as the model's dtype: a scheme for the KV cache alone, or a method that names no width.
Result<std::optional<WeightFormat>> FromMethod(const ConfigObject& quantization, const std::string& method) {
  HAYPILE_TRY_ASSIGN(std::optional<WeightFormat> format, FromAlgorithm(quantization));
  if (format) return format;
  HAYPILE_TRY_ASSIGN(format, FromConfigGroups(quantization));
  if (format) return format;
  if (method == "fp8" || method == "fbgemm_fp8") return std::optional(WeightFormat{.name = "fp8", .bits = 8});
  if (method == "mxfp4" || method == "gpt_oss_mxfp4") return ByAlgorithm("mxfp4");
  if (method == "awq" || method == "gptq" || method == "auto-round" || method == "gptqmodel") {
    HAYPILE_TRY_ASSIGN(format, GroupedIntegers(quantization, quantization.Has("w_bit") ? "w_bit" : "bits"));
  } else if (method == "bitsandbytes") {
    HAYPILE_TRY_ASSIGN(format, BitsAndBytes(quantization));
  }
  return format;
}

// A ModelOpt or compressed-tensors scheme of the KV cache: "fp8", "nvfp4" or an error that names what is not served.
Result<std::string> KvSchemeName(const ConfigObject& quantization, std::string_view field) {
  const Json* value = quantization.Find(field);
  if (value == nullptr) return std::string();
  if (value->is_string()) {
    const std::string name = LowerCase(value->get<std::string>());
    if (name == "none" || name.empty()) return std::string();
    if (name == "fp8" || name == "fp8_e4m3") return std::string("fp8");
    if (name == "nvfp4") return std::string("nvfp4");
    if (name == "int8") return std::string("int8");
    return quantization.Unsupported("field " + quantization.Quoted(field) + " is " + ShortText(*value) +
                                    "; FP8, NVFP4 and INT8 are understood");
  }
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> scheme, quantization.Object(field));
  HAYPILE_TRY_ASSIGN(const int64_t bits, scheme->Int("num_bits", 1, 16));
  HAYPILE_TRY_ASSIGN(const std::string type, scheme->String("type", "int"));
  HAYPILE_TRY_ASSIGN(const bool dynamic, scheme->Bool("dynamic", false));
  HAYPILE_TRY_ASSIGN(const bool symmetric, scheme->Bool("symmetric", true));
  HAYPILE_TRY_ASSIGN(const std::string strategy, scheme->String("strategy", "tensor"));
  const auto refuse = [&scheme](std::string_view part) {
    return scheme->Unsupported(
        "field " + scheme->Quoted(part) + " is " + ShortText(*scheme->Find(part)) +
        ": engines serve KV caches of 8-bit or 4-bit float, static, symmetric, by tensor or head");
  };
  if (type != "float") return scheme->Has("type") ? refuse("type") : refuse("num_bits");
  if (bits != 8 && bits != 4) return refuse("num_bits");
  if (dynamic) return refuse("dynamic");
  if (!symmetric) return refuse("symmetric");
  HAYPILE_TRY_ASSIGN(const std::string method, quantization.String("quant_method"));
  if (bits == 4 && !method.empty() && !LowerCase(method).starts_with("modelopt")) return refuse("num_bits");
  if (bits == 8 && strategy != "tensor" && strategy != "attn_head") return refuse("strategy");
  return std::string(bits == 8 ? "fp8" : "nvfp4");
}

// The KV dtype that one metadata object asks for; without a value when it does not speak of the cache at all.
Result<std::optional<std::string>> KvDtypeOf(const ConfigObject& quantization) {
  for (const std::string_view field : {"kv_cache_scheme", "kv_cache_quant_algo"}) {
    if (!quantization.json().contains(std::string(field))) continue;
    HAYPILE_TRY_ASSIGN(const std::string name, KvSchemeName(quantization, field));
    return std::optional<std::string>(name);
  }
  return std::optional<std::string>();
}

std::string Spoken(const std::optional<std::string>& dtype) {
  if (!dtype) return "says nothing";
  return dtype->empty() ? "says none" : "says " + *dtype;
}

// What config.json says of quantization.
struct ConfigQuantization {
  bool present = false;
  std::optional<std::string> kv_dtype;  // without a value: it does not speak of the cache
};

Result<ConfigQuantization> ReadQuantizationConfig(const WeightMetadata& metadata, ModelGeometry* model,
                                                  KeptShares* kept) {
  for (const ConfigObject* config : {&metadata.outer, &metadata.text}) {
    const std::string_view field = config->FirstOf({"quantization_config", "compression_config"});
    if (field.empty()) continue;
    HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> quantization, config->Object(field));
    HAYPILE_TRY_ASSIGN(const std::string method, quantization->String("quant_method"));
    const bool unnamed_modelopt = method.empty() && quantization->Has("quant_algo");
    model->quantization_method = unnamed_modelopt ? "modelopt" : LowerCase(method);
    HAYPILE_TRY_ASSIGN(const std::optional<WeightFormat> format, FromMethod(*quantization, model->quantization_method));
    if (format) model->weights = *format;
    *kept = ReadKeptShares(*quantization, metadata.blocks);
    ConfigQuantization result;
    result.present = true;
    HAYPILE_TRY_ASSIGN(result.kv_dtype, KvDtypeOf(*quantization));
    return result;
  }
  // Reduced rows name the method alone.
  HAYPILE_TRY_ASSIGN(const std::string method, metadata.text.String("quant_method"));
  model->quantization_method = LowerCase(method);
  HAYPILE_TRY_ASSIGN(const std::optional<WeightFormat> format, FromMethod(metadata.text, model->quantization_method));
  if (format && !method.empty()) model->weights = *format;
  return ConfigQuantization{};
}

// hf_quant_config.json decides where config.json is silent; where both speak, config.json, as engines read it first.
Status ReadHfQuantConfig(const WeightMetadata& metadata, const ConfigQuantization& config, ModelGeometry* model,
                         KeptShares* kept) {
  if (metadata.hf_quant_config.empty()) return {};
  Result<Json> json = ParseJson(metadata.hf_quant_config);
  if (!json.ok()) return metadata.outer.Malformed("hf_quant_config.json: " + json.error().message());
  if (!json->is_object()) return metadata.outer.Malformed("hf_quant_config.json is not a JSON object");
  const ConfigObject file(*json, metadata.outer.model(), "hf_quant_config.json: ");
  HAYPILE_TRY_ASSIGN(const std::optional<ConfigObject> quantization, file.Object("quantization"));
  if (!quantization) return {};
  HAYPILE_TRY_ASSIGN(const std::optional<std::string> kv_dtype, KvDtypeOf(*quantization));
  if (!config.kv_dtype && kv_dtype) model->checkpoint_kv_dtype = *kv_dtype;
  if (config.present && config.kv_dtype.value_or("") != kv_dtype.value_or("")) {
    model->checkpoint_kv_conflict = "the checkpoint's files disagree about its KV cache: config.json " +
                                    Spoken(config.kv_dtype) + ", hf_quant_config.json " + Spoken(kv_dtype);
  }
  if (config.present) return {};
  model->quantization_method = "modelopt";
  HAYPILE_TRY_ASSIGN(const std::optional<WeightFormat> format, FromAlgorithm(*quantization));
  if (format) model->weights = *format;
  *kept = ReadKeptShares(*quantization, metadata.blocks);
  return {};
}

}  // namespace

Status ReadWeightFormat(const WeightMetadata& metadata, ModelGeometry* model, KeptShares* kept) {
  HAYPILE_TRY(ReadModelDtype(metadata.text, metadata.outer, model));
  HAYPILE_TRY(ReadStateDtype(metadata.text, model));
  HAYPILE_TRY_ASSIGN(const ConfigQuantization config, ReadQuantizationConfig(metadata, model, kept));
  model->checkpoint_kv_dtype = config.kv_dtype.value_or("");
  return ReadHfQuantConfig(metadata, config, model, kept);
}

}  // namespace haypile
