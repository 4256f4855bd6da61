#include "engines/launch_input.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.h"
#include "engines/doctor.h"
#include "engines/log_scan.h"

namespace haypile {
namespace {

constexpr int kHighestSm = 130;

// The method of a drafter, whoever spells it.
std::string DraftKind(const std::string& method) {
  const std::string name = LowerCase(method);
  if (Contains(name, "mtp") || Contains(name, "nextn")) return "mtp";
  if (Contains(name, "eagle")) return "eagle";
  if (Contains(name, "dflash") || Contains(name, "dspark")) return "dflash";
  if (Contains(name, "ngram")) return "ngram";
  return Contains(name, "draft") || Contains(name, "standalone") ? "model" : "other";
}

void AddModel(const LaunchInput& input, std::set<std::string>& features) {
  const ModelTraits traits = TraitsOf(input.model);
  features.insert(traits.Layout() == "heads" ? "heads" : "mla");
  if (traits.windows) features.insert("windows");
  if (traits.sinks) features.insert("sinks");
  if (traits.states) features.insert("states");
  if (traits.kv_shared) features.insert("kv_shared");
  if (traits.heads_differ) features.insert("heads_differ");
  for (const LayerGeometry& layer : input.model.layers) {
    const bool known = layer.cache == CacheKind::kMla && layer.head_dim_k > 0 && layer.head_dim_v > 0;
    if (known && layer.head_dim_k != layer.head_dim_v) features.insert("mla_heads_differ");
  }
  for (const int heads : traits.kv_heads) {
    if (heads % input.tensor_parallel == 0) continue;
    features.insert(input.tensor_parallel % heads == 0 ? "ranks_replicate" : "ranks_indivisible");
  }
  features.insert("model:" + (input.model_dtype.empty() ? std::string("unknown") : input.model_dtype));
}

void AddCheckpoint(const LaunchInput& input, std::set<std::string>& features) {
  const ModelGeometry& model = input.model;
  const std::string weights = LowerCase(model.weights.name);
  const CheckpointScales* scales = input.checkpoint;
  if (Contains(weights, "fp8") || model.quantization_method == "fp8") features.insert("weights:fp8");
  if (!model.quantization_method.empty()) {
    features.insert("quant:" + (model.quantization_method.starts_with("modelopt") ? std::string("modelopt")
                                                                                  : model.quantization_method));
  }
  if (!model.checkpoint_kv_dtype.empty()) {
    features.insert("checkpoint_kv");
    features.insert(Contains(LowerCase(model.checkpoint_kv_dtype), "fp4") ? "checkpoint_kv:nvfp4"
                                                                          : "checkpoint_kv:fp8");
  }
  if (scales == nullptr || !scales->files_read) {
    features.insert("scales:unknown");
  } else {
    features.insert(scales->tensors > 0 ? "scales:present" : "scales:none");
    if (scales->per_head) features.insert("scales:per_head");
    for (const KvScaleFamily family : scales->families)
      features.insert("scales:" + std::string(KvScaleFamilyName(family)));
  }
  if (!input.key_bias) {
    features.insert("key_bias:unknown");
  } else {
    features.insert(input.key_bias->outliers.empty() ? "key_bias:even" : "key_bias:outliers");
  }
}

void AddFlags(const LaunchInput& input, std::set<std::string>& features) {
  const LaunchDtypes dtypes = DtypesOf(input);
  const bool k = IsQuantizedDtype(dtypes.k).value_or(false), v = IsQuantizedDtype(dtypes.v).value_or(false);
  if (k || v) features.insert("quantized");
  if (v) features.insert("v_quantized");
  if (dtypes.k != dtypes.v) features.insert("types_differ");
  const std::string& fa = input.flash_attention;
  features.insert("flash_attention:" + (fa.empty() || fa == "auto" ? std::string("default")
                                        : fa == "off" || fa == "0" ? std::string("off")
                                                                   : std::string("on")));
  if (!input.speculative_method.empty()) {
    features.insert("drafts");
    features.insert("drafts:" + DraftKind(input.speculative_method));
    if (input.speculative_tokens >= 3) features.insert("draft_tokens>=3");
  }
  features.insert(!input.prefix_caching ? "prefix:default" : *input.prefix_caching ? "prefix:on" : "prefix:off");
  if (input.eager) features.insert("eager");
  if (input.calculate_scales) features.insert("calculate_scales");
  if (input.decode_context_parallel > 1) features.insert("context_parallel");
}

constexpr std::array<std::string_view, 38> kWords = {"heads",
                                                     "mla",
                                                     "windows",
                                                     "sinks",
                                                     "states",
                                                     "kv_shared",
                                                     "heads_differ",
                                                     "ranks_replicate",
                                                     "ranks_indivisible",
                                                     "model:unknown",
                                                     "model:bfloat16",
                                                     "model:float16",
                                                     "weights:fp8",
                                                     "checkpoint_kv",
                                                     "checkpoint_kv:fp8",
                                                     "checkpoint_kv:nvfp4",
                                                     "key_bias:unknown",
                                                     "key_bias:even",
                                                     "key_bias:outliers",
                                                     "quantized",
                                                     "v_quantized",
                                                     "types_differ",
                                                     "flash_attention:default",
                                                     "flash_attention:on",
                                                     "flash_attention:off",
                                                     "drafts",
                                                     "draft_tokens>=3",
                                                     "prefix:default",
                                                     "prefix:on",
                                                     "prefix:off",
                                                     "eager",
                                                     "context_parallel",
                                                     "flash_attn_served",
                                                     "scales:unknown",
                                                     "mla_heads_differ",
                                                     "calculate_scales",
                                                     "scales:none",
                                                     "scales:present"};

}  // namespace

std::vector<std::string> LaunchEngines() {
  return {"vllm", "sglang", "trtllm", "llamacpp", "haypile", "transformers", "mistralrs"};
}

std::optional<EngineKind> PlannedEngine(const std::string& engine) {
  const auto kind = ParseEngine(engine);
  return kind.ok() ? std::optional(*kind) : std::nullopt;
}

EngineVersion LaunchVersion(const LaunchInput& input) {
  if (input.version) return *input.version;
  const auto kind = PlannedEngine(input.engine);
  return kind ? NewestKnownVersion(*kind) : EngineVersion{};
}

std::string LaunchVersionText(const LaunchInput& input) {
  const EngineVersion version = LaunchVersion(input);
  return input.engine == "llamacpp" ? "b" + std::to_string(version.major) : version.Text();
}

LaunchDtypes DtypesOf(const LaunchInput& input) {
  const size_t slash = input.kv_cache_dtype.find('/');
  LaunchDtypes dtypes{input.kv_cache_dtype.substr(0, slash),
                      slash == std::string::npos ? input.kv_cache_dtype : input.kv_cache_dtype.substr(slash + 1)};
  const std::string wish = LowerCase(input.model.checkpoint_kv_dtype);
  if (input.kv_cache_dtype != "auto" || wish.empty()) return dtypes;
  const bool modelopt = input.model.quantization_method.starts_with("modelopt");
  const bool four_bits = Contains(wish, "fp4");
  if (input.engine == "vllm" || input.engine == "trtllm") {
    dtypes.k = dtypes.v = four_bits ? "nvfp4" : "fp8";
  } else if (input.engine == "sglang" && modelopt && !four_bits) {
    dtypes.k = dtypes.v = "fp8_e4m3";
  }
  return dtypes;
}

Result<GpuSpec> LaunchGpu(const std::string& name, const GpuCatalogue& catalogue) {
  auto found = catalogue.Find(name);
  if (found.ok()) return found;
  std::string digits = LowerCase(name);
  if (digits.starts_with("sm")) digits.erase(0, digits.starts_with("sm_") ? 3 : 2);
  const size_t point = digits.find('.');
  if (point != std::string::npos && digits.size() == point + 2) digits.erase(point, 1);
  const bool number = digits.size() >= 2 && digits.size() <= 3 &&
                      std::all_of(digits.begin(), digits.end(), [](char c) { return c >= '0' && c <= '9'; });
  const int sm = number ? std::stoi(digits) : 0;
  if (sm < 50 || sm > kHighestSm || (point == std::string::npos && !LowerCase(name).starts_with("sm"))) return found;
  GpuSpec gpu;
  gpu.name = fmt::format("SM{}", sm);
  gpu.vendor = "nvidia";
  gpu.sm = sm;
  gpu.fp8 = sm >= 89;
  gpu.fp4 = sm >= 100;
  return gpu;
}

std::set<std::string> LaunchFeatures(const LaunchInput& input, const std::string& predicted_backend) {
  std::set<std::string> features;
  AddModel(input, features);
  AddCheckpoint(input, features);
  AddFlags(input, features);
  if (predicted_backend == "FLASH_ATTN") features.insert("flash_attn_served");
  return features;
}

bool IsLaunchFeature(std::string_view word) {
  if (word.starts_with('!')) word.remove_prefix(1);
  return word.starts_with("scales:") || word.starts_with("quant:") || word.starts_with("drafts:") ||
         std::find(kWords.begin(), kWords.end(), word) != kWords.end();
}

std::vector<std::string_view> FeaturesOf(std::string_view word) {
  std::vector<std::string_view> features;
  for (size_t bar = word.find('|'); bar != std::string_view::npos; bar = word.find('|')) {
    features.push_back(word.substr(0, bar));
    word.remove_prefix(bar + 1);
  }
  features.push_back(word);
  return features;
}

}  // namespace haypile
