#include "planner/llamacpp_types.h"

#include <array>

#include "formats/kv_format.h"

namespace haypile {
namespace {

// A format that Haypile has too: its sizes stand in the table of formats.
LlamacppType Shared(std::string_view name, KvFormat format) {
  const KvFormatInfo& info = InfoOf(format);
  if (info.block_elements == 0) return {name, 1, info.element_bits / 8};
  return {name, info.block_elements, info.block_elements * info.element_bits / 8 + info.block_scale_bytes};
}

// In the order of llama-server's help. q4_1 and q5_1 have an FP16 minimum beside the FP16 scale, q5_* a fifth bit per
// element, iq4_nl is q4_0 with another table of values.
const std::array<LlamacppType, 9>& Types() {
  static const std::array<LlamacppType, 9> types = {{
      {"f32", 1, 4},
      Shared("f16", KvFormat::kFp16),
      Shared("bf16", KvFormat::kBf16),
      Shared("q8_0", KvFormat::kQ8_0),
      Shared("q4_0", KvFormat::kQ4_0),
      {"q4_1", 32, 16 + 2 + 2},
      {"iq4_nl", 32, 16 + 2},
      {"q5_0", 32, 16 + 4 + 2},
      {"q5_1", 32, 16 + 4 + 2 + 2},
  }};
  return types;
}

}  // namespace

std::optional<LlamacppType> FindLlamacppType(std::string_view name) {
  if (name == "auto" || name == "fp16" || name == "float16") name = "f16";
  if (name == "fp32" || name == "float32") name = "f32";
  if (name == "bfloat16") name = "bf16";
  for (const LlamacppType& type : Types()) {
    if (type.name == name) return type;
  }
  return std::nullopt;
}

std::string LlamacppTypeNames() {
  std::string names;
  for (const LlamacppType& type : Types()) {
    if (!names.empty()) names += ", ";
    names += type.name;
  }
  return names;
}

}  // namespace haypile
