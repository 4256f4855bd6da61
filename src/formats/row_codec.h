#pragma once

#include <cstdint>
#include <span>

#include "formats/kv_format.h"

namespace haypile {

// One token's K or V of one head, quantized: the meaning of every KV format, independent of where a page puts the
// bytes. The scalar reference that all kernels are held to; never optimized at the cost of clarity. Each format has a
// page with layout, formulas and error bound: docs/formats/README.md.
//
// codes:  head_dim entries, one element each, in the low element_bits (bf16 and fp16 bit patterns for 16 bits; int8 as
//         two's complement; q4_0 as its unsigned nibble 0..15 that means code - 8).
// scales: BlockScalesPerHead entries of the stored bits (E4M3 or E8M0 code, FP16 bits, FP32 bits).
// global_scale: the FP32 decode multiplier outside the page (ignored by formats without one).
//               value = element(code) * (block_scale * global_scale), in float, rounded after each product.
//
// Rules for all: round to nearest even (q8_0 and q4_0: as llama.cpp rounds); finite values and infinities beyond the
// range saturate and always decode to finite values; NaN stays NaN where the format has one. The formats without NaN
// elements carry it in the block scale (FP32/FP16/E4M3/E8M0 NaN), and then the whole block decodes to NaN. A global
// scale that is not IsUsableGlobalScale decodes to NaN too.
struct QuantizedRow {
  std::span<uint16_t> codes;
  std::span<uint32_t> scales;
};

// `row` has room for values.size() codes and BlockScalesPerHead scales; values.size() satisfies FitsHeadDim.
void EncodeRow(KvFormat format, std::span<const float> values, float global_scale, QuantizedRow row);
void DecodeRow(KvFormat format, std::span<const uint16_t> codes, std::span<const uint32_t> scales, float global_scale,
               std::span<float> values);

// Whether a code of an 8-bit float format is NaN or infinite; other formats have no codes that kernels look for.
bool AnySpecialFp8Code(KvFormat format, std::span<const uint16_t> codes);

// The value of one element code without scales, and of one stored block scale (1 for kNone).
float ElementValue(KvFormat format, uint16_t code);
float BlockScaleValue(BlockScale kind, uint32_t bits);

// The largest magnitude times its share that a dynamic global scale maps amax to: amax / GlobalScaleDivisor is the
// usual calibrated scale (448 for fp8_e4m3, 240 fnuz, 57344 e5m2, 6*448 nvfp4, 6*256 nvfp4_4over6; 0 without scale).
double GlobalScaleDivisor(KvFormat format);

// Global scales lie in [2^-100, 2^100]: inside it no product of scales is subnormal or overflows. Whoever reads scales
// from input rejects others.
inline constexpr float kSmallestGlobalScale = 0x1p-100f;
inline constexpr float kLargestGlobalScale = 0x1p100f;
inline bool IsUsableGlobalScale(float scale) { return scale >= kSmallestGlobalScale && scale <= kLargestGlobalScale; }

// The calibrated scale for data whose largest magnitude is amax: amax / GlobalScaleDivisor, held inside the usable
// range; 1 when amax is 0 or not finite, or the format has no global scale.
float GlobalScaleForAmax(KvFormat format, float amax);

}  // namespace haypile
