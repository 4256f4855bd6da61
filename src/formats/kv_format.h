#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace haypile {

// The formats a KV cache can be stored in. Names, sizes and scale layouts stand in the table of kv_format.cc;
// docs/formats/ has a page for each.
enum class KvFormat {
  kBf16,
  kFp16,
  kFp8E4m3,
  kFp8E4m3Fnuz,
  kFp8E5m2,
  kNvfp4,
  kNvfp4FourOverSix,  // the bytes of nvfp4; only the encoder differs
  kMxfp4,
  kInt8PerTokenHead,
  kQ8_0,
  kQ4_0,
};
inline constexpr int kKvFormatCount = 11;

// How one block scale is stored beside the elements.
enum class BlockScale { kNone, kE4m3, kE8m0, kFp16, kFp32 };

struct KvFormatInfo {
  KvFormat format;
  std::string_view name;  // as in flags, files and JSON, e.g. "fp8_e4m3"
  int element_bits;       // 16, 8 or 4
  // Elements along the head that share one block scale; 0: the whole head (of one token); ignored when kNone.
  int block_elements;
  BlockScale block_scale;
  int block_scale_bytes;   // 0, 1, 2 or 4
  bool has_global_scale;   // one FP32 scale per tensor or head outside the pages (1.0 by default)
  double largest_element;  // largest finite element, before scales
  std::string_view summary;
};

const KvFormatInfo& InfoOf(KvFormat format);
std::span<const KvFormatInfo> AllKvFormats();

// By name or alias ("fp8" = "fp8_e4m3"); nothing for an unknown name.
std::optional<KvFormat> KvFormatByName(std::string_view name);
// "bf16, fp16, fp8_e4m3 (= fp8), ..." for error messages and help.
std::string KvFormatNames();

// Number of block scales for one token and head of `head_dim`; 0 when the format has none. head_dim must fit.
int BlockScalesPerHead(const KvFormatInfo& info, int head_dim);
// Whether rows of head_dim can be stored: head_dim a multiple of the block and of 16.
bool FitsHeadDim(const KvFormatInfo& info, int head_dim);

}  // namespace haypile
