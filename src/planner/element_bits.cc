#include "planner/element_bits.h"

#include "formats/kv_format.h"
#include "spec/kv_geometry.h"

namespace haypile {
namespace {

// Engines' spellings of formats that this program stores itself.
const char* OwnName(const std::string& dtype) {
  if (dtype == "bfloat16" || dtype == "float16" || dtype == "f16") return "bf16";
  if (dtype == "fp8" || dtype == "fp8_inc") return "fp8_e4m3";
  if (dtype == "fp8_per_token_head") return "int8_per_token_head";  // a byte an element and an FP32 scale
  if (dtype == "fp4_mx_block16") return "nvfp4";                    // a one-byte scale for 16 elements
  return dtype.c_str();
}

// The rest. ggml: bytes of a block of 32 (docs of ggml-common.h); vLLM's TurboQuant: rows of D elements with FP16
// norms, scales and zero points; MLA rows by their published layouts.
std::optional<double> OtherBits(const std::string& dtype, int head_dim) {
  const double d = head_dim;
  if (dtype == "f32" || dtype == "float32") return 32.0;
  if (dtype == "q5_1") return 24.0 * 8 / 32;
  if (dtype == "q5_0") return 22.0 * 8 / 32;
  if (dtype == "q4_1") return 20.0 * 8 / 32;
  if (dtype == "iq4_nl") return 18.0 * 8 / 32;
  if (dtype == "mxfp8") return 8.25;
  if (dtype == "fp8_ds_mla") return 8.0 * 656 / 576;
  if (head_dim <= 0) return std::nullopt;
  if (dtype == "int4_per_token_head") return 4.0 + 32.0 / d;
  if (dtype == "turboquant_k8v4") return (8.0 + 4.0 + 32.0 / d) / 2;
  if (dtype == "turboquant_4bit_nc") return (4.0 + 4.0 + 48.0 / d) / 2;
  if (dtype == "turboquant_k3v4_nc") return (3.0 + 4.0 + 48.0 / d) / 2;
  if (dtype == "turboquant_3bit_nc") return (3.0 + 3.0 + 48.0 / d) / 2;
  return std::nullopt;
}

}  // namespace

std::optional<double> ElementBits(const std::string& dtype, int head_dim) {
  if (const size_t slash = dtype.find('/'); slash != std::string::npos) {
    const auto keys = ElementBits(dtype.substr(0, slash), head_dim);
    const auto values = ElementBits(dtype.substr(slash + 1), head_dim);
    return keys && values ? std::optional<double>((*keys + *values) / 2) : std::nullopt;
  }
  const std::optional<KvFormat> format = KvFormatByName(OwnName(dtype));
  if (!format) return OtherBits(dtype, head_dim);
  if (head_dim > 0 && FitsHeadDim(InfoOf(*format), head_dim)) {
    return 8.0 * static_cast<double>(RowBytes(*format, head_dim)) / head_dim;
  }
  const KvFormatInfo& info = InfoOf(*format);
  const double scale = info.block_elements > 0 ? 8.0 * info.block_scale_bytes / info.block_elements : 0.0;
  return info.element_bits + scale;
}

}  // namespace haypile
