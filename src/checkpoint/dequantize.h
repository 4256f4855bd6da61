#pragma once

#include <cstdint>
#include <span>

#include "checkpoint/weight_type.h"

namespace haypile {

// Expands `out.size()` elements, a multiple of the type's block, from whole blocks at `blocks` (any alignment).
// `type` must have a decoder (not kOther). Block layouts stand beside each decoder in dequantize.cc.
void DequantizeToFloat(WeightType type, const uint8_t* blocks, std::span<float> out);

// FP32 to BF16, to nearest even; NaN becomes a quiet NaN of the same sign, infinity stays.
void RoundToBf16(std::span<const float> values, uint16_t* out);

}  // namespace haypile
