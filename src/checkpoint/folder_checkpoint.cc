#include <filesystem>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "base/file.h"
#include "checkpoint/checkpoint_kv_scales.h"
#include "checkpoint/config_quantization.h"
#include "checkpoint/config_spec.h"
#include "checkpoint/kv_scale_name.h"
#include "checkpoint/safetensors.h"
#include "checkpoint/tensor_checkpoint.h"

namespace haypile {
namespace {

constexpr uint64_t kLargestConfigBytes = 4 << 20;

// Where a model's tensors hang: alone, behind an image model of either generation, or as a bare decoder.
struct Layout {
  std::string_view decoder;  // before "layers.0...", "norm.weight", "embed_tokens.weight"
  std::string_view output;   // before "lm_head.weight"
};
constexpr Layout kLayouts[] = {
    {"model.", ""},
    {"language_model.model.", "language_model."},
    {"model.language_model.", ""},
    {"", ""},
};

std::string StoredName(const Layout& layout, const std::string& name) {
  return std::string(name == "lm_head.weight" ? layout.output : layout.decoder).append(name);
}

Result<Layout> FindLayout(const SafetensorsFolder& tensors, const std::string& folder) {
  for (const Layout& layout : kLayouts) {
    if (tensors.Find(StoredName(layout, "embed_tokens.weight")) != nullptr) return layout;
  }
  return Error(ErrorCode::kMalformed, "'" + folder + "': tensor 'model.embed_tokens.weight' is absent");
}

// What calibrators leave beside weights; a bias of a K or V projection is a weight.
bool IsOfCalibration(std::string_view name) {
  const auto parsed = ParseKvScaleName(name);
  return parsed && (parsed->kind != KvScaleKind::kBias || parsed->family == KvScaleFamily::kBmmQuantizer);
}

// hf_quant_config.json, empty when there is none.
Result<std::string> ReadModelOptFile(const std::string& folder) {
  const std::string path = folder + "/hf_quant_config.json";
  std::error_code ignored;
  if (!std::filesystem::exists(path, ignored)) return std::string();
  return ReadFile(path, kLargestConfigBytes);
}

// Derived tables and scales that quantizers add, a tied output's second copy, and what belongs to an image model.
bool MayBeIgnored(const std::string& name, const Layout& layout) {
  const std::string_view view(name);
  if (view.ends_with(".rotary_emb.inv_freq") || IsOfCalibration(view)) return true;
  if (name == StoredName(layout, "lm_head.weight")) return true;
  return !view.starts_with(StoredName(layout, "layers.")) && layout.decoder != "model.";
}

Status CheckNothingElse(const SafetensorsFolder& tensors, const Layout& layout, const ModelSpec& spec,
                        const std::unordered_set<std::string>& planned) {
  for (const auto& [name, tensor] : tensors.tensors()) {
    if (planned.contains(name) || MayBeIgnored(name, layout)) continue;
    const std::string file = tensors.FileOf(name);
    return Error(ErrorCode::kUnsupported, "'" + file + "': byte " + std::to_string(tensor.file_offset) + ": tensor " +
                                              QuotedName(name) + " has no place in architecture '" + spec.architecture +
                                              "' as it is supported");
  }
  return {};
}

}  // namespace

Result<std::unique_ptr<Checkpoint>> OpenFolderCheckpoint(const std::string& folder) {
  const std::string config_path = folder + "/config.json";
  HAYPILE_TRY_ASSIGN(const std::string config, ReadFile(config_path, kLargestConfigBytes));
  HAYPILE_TRY_ASSIGN(const ModelSpec spec, ModelSpecFromConfig(config_path, config));
  HAYPILE_TRY_ASSIGN(const std::string model_opt, ReadModelOptFile(folder));
  HAYPILE_TRY_ASSIGN(const KvQuantization quantization, ReadKvQuantization(folder, config, model_opt));
  HAYPILE_TRY_ASSIGN(SafetensorsFolder opened, SafetensorsFolder::Open(folder));
  const auto tensors = std::make_shared<const SafetensorsFolder>(std::move(opened));
  HAYPILE_TRY_ASSIGN(const Layout layout, FindLayout(*tensors, folder));

  auto checkpoint = std::make_unique<TensorCheckpoint>();
  std::unordered_set<std::string> planned_names;
  for (const PlannedTensor& planned : PlanTensors(spec)) {
    const std::string name = StoredName(layout, planned.name);
    const StoredTensor* tensor = tensors->Find(name);
    if (tensor == nullptr) {
      return Error(ErrorCode::kMalformed, "'" + folder + "': tensor '" + name +
                                              "' is absent; the model needs it with shape " + ShapeText(planned.shape));
    }
    TensorSource source{*tensor, tensors->FileOf(name)};
    if (spec.family == ModelFamily::kGemma3 && planned.is_norm) source.addend = 1.0f;
    HAYPILE_TRY(checkpoint->Add(planned, std::move(source)));
    planned_names.insert(name);
  }
  HAYPILE_TRY(CheckNothingElse(*tensors, layout, spec, planned_names));
  checkpoint->set_spec(spec);
  checkpoint->set_folder(folder);
  checkpoint->set_kv_scales(CollectKvScales(*tensors, quantization, spec));
  checkpoint->Keep(tensors);
  return std::unique_ptr<Checkpoint>(std::move(checkpoint));
}

}  // namespace haypile
