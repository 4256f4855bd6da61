#include "checkpoint/kv_scale_name.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <vector>

namespace haypile {
namespace {

using Parts = std::vector<std::string_view>;

Parts Split(std::string_view text) {
  Parts parts;
  while (true) {
    const size_t dot = text.find('.');
    parts.push_back(text.substr(0, dot));
    if (dot == std::string_view::npos) return parts;
    text.remove_prefix(dot + 1);
  }
}

template <size_t N>
bool OneOf(std::string_view word, const std::array<std::string_view, N>& words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

std::optional<int> Number(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || value < 0) return std::nullopt;
  return value;
}

constexpr std::array<std::string_view, 7> kContainers = {"layers", "h",   "blocks",        "block",
                                                         "layer",  "blk", "decoder_layers"};
// Qwen's omni models speak through decoders of their own, whose layer numbers are not the text model's.
constexpr std::array<std::string_view, 9> kTowerWords = {"vision",    "visual", "audio",     "image",   "speech",
                                                         "resampler", "talker", "token2wav", "code2wav"};
constexpr std::array<std::string_view, 4> kDrafterWords = {"mtp", "nextn", "eagle", "medusa"};
constexpr std::array<std::string_view, 8> kFusedProjections = {
    "qkv_proj", "qkqkv_proj", "query_key_value", "c_attn", "linear_qkv", "W_pack", "wqkv", "Wqkv"};

bool HoldsAny(std::string_view text, auto words) {
  return std::any_of(words.begin(), words.end(),
                     [text](std::string_view word) { return text.find(word) != std::string_view::npos; });
}

LayerStack StackOf(std::string_view prefix) {
  if (HoldsAny(prefix, kTowerWords)) return LayerStack::kTower;
  if (HoldsAny(prefix, kDrafterWords)) return LayerStack::kMtp;
  // ChatGLM's decoder is called transformer.encoder.
  const bool encoder =
      prefix.find("encoder") != std::string_view::npos && prefix.find("transformer.encoder") == std::string_view::npos;
  const bool decoder =
      prefix.find("decoder") != std::string_view::npos || prefix.find("language_model") != std::string_view::npos;
  return encoder && !decoder ? LayerStack::kEncoder : LayerStack::kDecoder;
}

// "k_scale" with suffix "_scale" is K's; nothing for another word.
std::optional<KvScaleSide> SideOf(std::string_view word, std::string_view suffix) {
  if (word.size() != suffix.size() + 1 || !word.ends_with(suffix)) return std::nullopt;
  switch (word.front()) {
    case 'k':
      return KvScaleSide::kK;
    case 'v':
      return KvScaleSide::kV;
    case 'q':
      return KvScaleSide::kQ;
    default:
      return std::nullopt;
  }
}

// The family of "<module>.k_scale" by its module and that module's parent.
std::optional<KvScaleFamily> FamilyOfModule(std::string_view module, std::string_view parent) {
  if (SideOf(module, "_proj")) return KvScaleFamily::kProjection;
  if (OneOf(module, kFusedProjections)) return KvScaleFamily::kFused;
  const bool attention_parent = parent.find("attn") != std::string_view::npos || parent.find("attention") == 0;
  if ((module == "attn" || module == "mla_attn") && attention_parent) return KvScaleFamily::kEngine;
  if (module.find("index") != std::string_view::npos) return std::nullopt;  // sparse attention's own cache
  return KvScaleFamily::kAttention;
}

struct Shape {
  KvScaleFamily family;
  KvScaleSide side;
  KvScaleKind kind;
};

std::optional<Shape> ShapeOfQuantizer(std::string_view leaf, std::string_view module) {
  const auto side = SideOf(module, "_bmm_quantizer");
  if (!side) return std::nullopt;
  if (leaf == "_amax" || leaf == "amax") return Shape{KvScaleFamily::kBmmQuantizer, *side, KvScaleKind::kAmax};
  if (leaf == "_bias_value") return Shape{KvScaleFamily::kBmmQuantizer, *side, KvScaleKind::kBias};
  if (leaf == "_scale" || leaf == "scale") return Shape{KvScaleFamily::kBmmQuantizer, *side, KvScaleKind::kScale};
  return std::nullopt;
}

std::optional<Shape> ShapeOfLeaf(std::string_view leaf, std::string_view module, std::string_view parent) {
  if (leaf == "kv_scale") return Shape{KvScaleFamily::kShared, KvScaleSide::kBoth, KvScaleKind::kScale};
  if (leaf == "kv_cache_scaling_factor") return Shape{KvScaleFamily::kTrtLlm, KvScaleSide::kBoth, KvScaleKind::kScale};
  if (leaf == "prob_output_scale") {
    return Shape{KvScaleFamily::kOutput, KvScaleSide::kProbability, KvScaleKind::kScale};
  }
  if (leaf == "output_scale") {
    if (const auto side = SideOf(module, "_proj")) return Shape{KvScaleFamily::kOutput, *side, KvScaleKind::kScale};
    return std::nullopt;
  }
  if (leaf == "scale") {
    if (const auto side = SideOf(module, "_cache")) {
      return Shape{KvScaleFamily::kCacheModule, *side, KvScaleKind::kScale};
    }
    if (module == "q") return Shape{KvScaleFamily::kCacheModule, KvScaleSide::kQ, KvScaleKind::kScale};
  }
  const auto bias_side = SideOf(leaf, "_bias");
  if (bias_side && SideOf(module, "_proj") == bias_side) {
    return Shape{KvScaleFamily::kProjection, *bias_side, KvScaleKind::kBias};
  }
  const auto scale_side = SideOf(leaf, "_scale");
  const auto zero_side = SideOf(leaf, "_zero_point");
  if (!scale_side && !zero_side) return ShapeOfQuantizer(leaf, module);
  const auto family = FamilyOfModule(module, parent);
  if (!family) return std::nullopt;
  if (zero_side) return Shape{*family, *zero_side, KvScaleKind::kZeroPoint};
  return Shape{*family, *scale_side, KvScaleKind::kScale};
}

}  // namespace

TensorPlace PlaceOfTensor(std::string_view tensor) {
  const Parts parts = Split(tensor);
  for (size_t i = 1; i < parts.size(); ++i) {
    if (!OneOf(parts[i - 1], kContainers)) continue;
    const std::optional<int> layer = Number(parts[i]);
    if (!layer) continue;
    const auto length = static_cast<size_t>(parts[i].data() - tensor.data()) - 1;
    TensorPlace place{.layer = *layer, .prefix = std::string(tensor.substr(0, length)), .stack = LayerStack::kDecoder};
    place.stack = StackOf(place.prefix);
    return place;
  }
  return {.layer = -1, .prefix = std::string(tensor), .stack = StackOf(tensor)};
}

std::optional<KvScaleName> ParseKvScaleName(std::string_view tensor) {
  // Most names of a checkpoint are of weights; the last letters tell that of nearly all.
  constexpr std::array<std::string_view, 6> kEndings = {"scale", "_factor", "amax", "_point", "_bias", "_value"};
  if (std::none_of(kEndings.begin(), kEndings.end(), [&](std::string_view end) { return tensor.ends_with(end); })) {
    return std::nullopt;
  }
  const Parts parts = Split(tensor);
  if (parts.size() < 2) return std::nullopt;
  const std::string_view parent = parts.size() < 3 ? std::string_view() : parts[parts.size() - 3];
  const auto shape = ShapeOfLeaf(parts.back(), parts[parts.size() - 2], parent);
  if (!shape) return std::nullopt;
  return KvScaleName{.family = shape->family, .side = shape->side, .kind = shape->kind, .place = PlaceOfTensor(tensor)};
}

std::string_view KvScaleFamilyName(KvScaleFamily family) {
  switch (family) {
    case KvScaleFamily::kAttention:
      return "k_scale";
    case KvScaleFamily::kEngine:
      return "attn.k_scale";
    case KvScaleFamily::kProjection:
      return "k_proj.k_scale";
    case KvScaleFamily::kFused:
      return "qkv_proj.k_scale";
    case KvScaleFamily::kOutput:
      return "k_proj.output_scale";
    case KvScaleFamily::kShared:
      return "kv_scale";
    case KvScaleFamily::kTrtLlm:
      return "kv_cache_scaling_factor";
    case KvScaleFamily::kBmmQuantizer:
      return "k_bmm_quantizer._amax";
    case KvScaleFamily::kCacheModule:
      return "k_cache.scale";
  }
  return "";
}

}  // namespace haypile
