#include "formats/kv_format.h"

#include <array>

#include "base/check.h"

namespace haypile {
namespace {

constexpr std::array<KvFormatInfo, kKvFormatCount> kTable = {{
    {KvFormat::kBf16, "bf16", 16, 0, BlockScale::kNone, 0, false, 3.3895313892515355e38, "bfloat16, no scale"},
    {KvFormat::kFp16, "fp16", 16, 0, BlockScale::kNone, 0, false, 65504, "IEEE half, no scale"},
    {KvFormat::kFp8E4m3, "fp8_e4m3", 8, 0, BlockScale::kNone, 0, true, 448, "OCP E4M3, FP32 scale per tensor or head"},
    {KvFormat::kFp8E4m3Fnuz, "fp8_e4m3fnuz", 8, 0, BlockScale::kNone, 0, true, 240,
     "E4M3 without -0 (MI300), FP32 scale per tensor or head"},
    {KvFormat::kFp8E5m2, "fp8_e5m2", 8, 0, BlockScale::kNone, 0, true, 57344,
     "OCP E5M2, FP32 scale per tensor or head"},
    {KvFormat::kNvfp4, "nvfp4", 4, 16, BlockScale::kE4m3, 1, true, 6,
     "E2M1, E4M3 scale per 16, FP32 global scale per tensor or head"},
    {KvFormat::kNvfp4FourOverSix, "nvfp4_4over6", 4, 16, BlockScale::kE4m3, 1, true, 6,
     "nvfp4, block maximum put on 4 or 6, whichever errs less"},
    {KvFormat::kMxfp4, "mxfp4", 4, 32, BlockScale::kE8m0, 1, false, 6, "E2M1, E8M0 scale per 32 (OCP MX)"},
    {KvFormat::kInt8PerTokenHead, "int8_per_token_head", 8, 0, BlockScale::kFp32, 4, false, 127,
     "int8, FP32 scale per token and head"},
    {KvFormat::kQ8_0, "q8_0", 8, 32, BlockScale::kFp16, 2, false, 127, "int8, FP16 scale per 32 (llama.cpp)"},
    {KvFormat::kQ4_0, "q4_0", 4, 32, BlockScale::kFp16, 2, false, 8, "int4, FP16 scale per 32 (llama.cpp)"},
}};

}  // namespace

const KvFormatInfo& InfoOf(KvFormat format) { return kTable[static_cast<size_t>(format)]; }

std::span<const KvFormatInfo> AllKvFormats() { return kTable; }

std::optional<KvFormat> KvFormatByName(std::string_view name) {
  if (name == "fp8") return KvFormat::kFp8E4m3;
  for (const auto& info : kTable) {
    if (info.name == name) return info.format;
  }
  return std::nullopt;
}

std::string KvFormatNames() {
  std::string names;
  for (const auto& info : kTable) {
    if (!names.empty()) names += ", ";
    names += info.name;
    if (info.format == KvFormat::kFp8E4m3) names += " (= fp8)";
  }
  return names;
}

int BlockScalesPerHead(const KvFormatInfo& info, int head_dim) {
  if (info.block_scale == BlockScale::kNone) return 0;
  if (info.block_elements == 0) return 1;
  HAYPILE_CHECK_EQ(head_dim % info.block_elements, 0);
  return head_dim / info.block_elements;
}

bool FitsHeadDim(const KvFormatInfo& info, int head_dim) {
  if (head_dim <= 0 || head_dim % 16 != 0) return false;
  return info.block_elements == 0 || head_dim % info.block_elements == 0;
}

}  // namespace haypile
