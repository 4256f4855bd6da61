#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "checkpoint/kv_scale_name.h"

namespace haypile {

// What an engine does with KV scales.
enum class ScaleOutcome { kLoaded, kRenamed, kDropped, kRefused, kAtOne, kWrong, kNotApplicable, kUnknown };

std::string_view ScaleOutcomeName(
    ScaleOutcome outcome);  // "loaded", "renamed", "dropped", "refused", "run at 1.0", ...

// What is true of a checkpoint, as bits.
enum ScaleTrait : uint32_t {
  kHasScales = 1u << 0,  // of the family in question
  kNoScales = 1u << 1,   // of any family
  kPerHead = 1u << 2,    // or another shape than one value
  kNoConfig = 1u << 3,   // no quantization_config
  kCompressedTensors = 1u << 4,
  kModelOpt = 1u << 5,
  kFp8Method = 1u << 6,
  kQuark = 1u << 7,
  kOtherMethod = 1u << 8,     // AWQ, GPTQ, FBGEMM, MXFP4, ...
  kSchemeDeclared = 1u << 9,  // the checkpoint asks for a quantized cache
  kSchemeUnsupported = 1u << 10,
  kSchemePerHead = 1u << 11,  // strategy attn_head
  kNvfp4Cache = 1u << 12,
  kKvOnly = 1u << 13,
  kOtherLayerNames = 1u << 14,  // layers are not named <...>layers.N
  kKEqualsV = 1u << 15,
  kBadValues = 1u << 16,        // zero, negative, NaN, or of a dtype that no scale has
  kBy448 = 1u << 17,            // scales are known to be amax / 448
  kBy2688 = 1u << 18,           // scales are known to be amax / 2688
  kSharedLayers = 1u << 19,     // layers that read another layer's cache
  kPlainWeights = 1u << 21,     // nothing but, at most, the cache is quantized
  kBadShape = 1u << 22,         // neither one value nor one for each KV head
  kLatent = 1u << 23,           // MLA
  kModuleNotMapped = 1u << 20,  // the scale hangs on a module of another name than vLLM's mapper knows
};

constexpr uint32_t FamilyBit(KvScaleFamily family) { return 1u << static_cast<int>(family); }

// One row of the table. Rows of one engine and version stand together; the first that matches holds.
struct EngineRule {
  std::string_view engine;
  std::string_view versions;
  uint32_t families;               // FamilyBit of those it speaks of; 0: all, and none
  uint32_t all_of;                 // traits that must be there
  uint32_t none_of;                // traits that must not
  std::string_view architectures;  // words parted by spaces, of which the architecture holds one; empty: all
  ScaleOutcome outcome;
  std::string_view why;
  std::string_view source;  // an issue, a pull request, or a file of the engine's source
};

std::span<const EngineRule> EngineRules();

}  // namespace haypile
