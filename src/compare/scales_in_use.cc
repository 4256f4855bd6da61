#include "compare/scales_in_use.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "formats/row_codec.h"
#include "kvcache/kv_scales_file.h"

namespace haypile {
namespace {

bool HasScale(KvDtype dtype) { return InfoOf(dtype.k).has_global_scale || InfoOf(dtype.v).has_global_scale; }

// From amax / `divisor` to amax / the format's own.
std::vector<std::vector<float>> ForFormat(KvFormat format, float divisor, std::vector<std::vector<float>> scales,
                                          const std::vector<int>& layers_without) {
  const double own = GlobalScaleDivisor(format);
  if (own == 0 || own == divisor) return scales;
  for (size_t layer = 0; layer < scales.size(); ++layer) {
    if (std::ranges::find(layers_without, static_cast<int>(layer)) != layers_without.end()) continue;
    for (float& scale : scales[layer]) {
      scale = std::clamp(static_cast<float>(scale * (divisor / own)), kSmallestGlobalScale, kLargestGlobalScale);
    }
  }
  return scales;
}

}  // namespace

const char* NameOf(ScaleSource source) {
  switch (source) {
    case ScaleSource::kFile:
      return "file";
    case ScaleSource::kModel:
      return "model";
    case ScaleSource::kDefault:
      break;
  }
  return "default";
}

Result<ScalesInUse> FindScalesInUse(const ModelSpec& spec, const CheckpointKvScales& own, const std::string& path,
                                    KvDtype dtype) {
  ScalesInUse in_use;
  if (!path.empty()) {
    HAYPILE_TRY_ASSIGN(in_use.scales, ReadKvScales(path, spec.layer_count, spec.kv_heads));
    in_use.source = ScaleSource::kFile;
    return in_use;
  }
  if (!HasScale(dtype) || own.tensors == 0) return in_use;
  if (!own.bad.empty()) {
    return Error(ErrorCode::kMalformed, "the model's KV scales cannot be used: tensor " + own.bad +
                                            "; give a file with --kv-scales (haypile calibrate makes one)");
  }
  if (own.k.empty()) return in_use;
  in_use.scales.k = ForFormat(dtype.k, own.divisor.value, own.k, own.layers_without);
  in_use.scales.v = ForFormat(dtype.v, own.divisor.value, own.v, own.layers_without);
  in_use.source = ScaleSource::kModel;
  return in_use;
}

std::string OwnScalesNotice(const CheckpointKvScales& own, const std::string& path, std::span<const KvDtype> dtypes) {
  if (own.tensors == 0 || !path.empty() || std::ranges::none_of(dtypes, HasScale)) return "";
  if (own.k.empty()) {
    return fmt::format(
        "warning: the model's {} tensors of KV scales are not used: {}; every scale is 1.0; give a file "
        "with --kv-scales",
        own.tensors, own.unused);
  }
  std::string text = fmt::format("the model's own KV scales are in use: {} tensors such as '{}', {}", own.tensors,
                                 own.example, own.divisor.words);
  if (!own.layers_without.empty()) {
    text += fmt::format("; layers {} lack one or both, which are 1.0 there", fmt::join(own.layers_without, ","));
  }
  return text;
}

}  // namespace haypile
