#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>

#include "formats/row_codec.h"

// The parts of row_codec.cc, one file for each family of formats. Sizes are checked, and an unusable global scale
// has become NaN, before any of them is called.
namespace haypile::row_codec {

using Values = std::span<const float>;
using Codes = std::span<const uint16_t>;
using Scales = std::span<const uint32_t>;
using Decoded = std::span<float>;

// row_codec_float.cc: elements that are floats without block scale.
void EncodeBf16(Values values, QuantizedRow row);
void EncodeFp16(Values values, QuantizedRow row);
void EncodeFp8(KvFormat format, Values values, float global_scale, QuantizedRow row);
void DecodeBf16(Codes codes, Decoded values);
void DecodeFp16(Codes codes, Decoded values);
void DecodeFp8(KvFormat format, Codes codes, float global_scale, Decoded values);

// row_codec_fp4.cc: E2M1 elements.
void EncodeNvfp4(Values values, float global_scale, QuantizedRow row);
void EncodeNvfp4FourOverSix(Values values, float global_scale, QuantizedRow row);
void EncodeMxfp4(Values values, QuantizedRow row);
void DecodeNvfp4(Codes codes, Scales scales, float global_scale, Decoded values);
void DecodeMxfp4(Codes codes, Scales scales, Decoded values);

// row_codec_int.cc: integer elements.
void EncodeInt8PerTokenHead(Values values, QuantizedRow row);
void EncodeQ8_0(Values values, QuantizedRow row);
void EncodeQ4_0(Values values, QuantizedRow row);
void DecodeInt8PerTokenHead(Codes codes, Scales scales, Decoded values);
void DecodeQ8_0(Codes codes, Scales scales, Decoded values);
void DecodeQ4_0(Codes codes, Scales scales, Decoded values);

// Bits of the largest magnitude. Bits of floats without sign order as the floats do, with infinity and then every NaN
// on top, so one integer maximum finds amax, infinities and NaN alike.
inline int32_t AbsMaxBits(Values values) {
  int32_t largest = 0;
  for (const float value : values) {
    largest = std::max(largest, static_cast<int32_t>(std::bit_cast<uint32_t>(value) & 0x7fffffffu));
  }
  return largest;
}
inline constexpr int32_t kInfBits = 0x7f800000;

}  // namespace haypile::row_codec
