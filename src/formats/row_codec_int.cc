#include <cmath>

#include "formats/fp16.h"
#include "formats/row_codec_families.h"

namespace haypile::row_codec {
namespace {

constexpr size_t kBlock = 32;  // of q8_0 and q4_0
constexpr uint32_t kFp32Nan = 0x7fc00000u;
constexpr uint32_t kFp16Nan = 0x7e00u;
constexpr float kFp16Max = 65504.0f;

// Nearest integer, ties to even, for |value| < 2^22: adding 1.5 * 2^23 leaves a last bit worth one.
inline int32_t RoundEven(float value) {
  return static_cast<int32_t>(std::bit_cast<uint32_t>(value + 0x1.8p23f) - std::bit_cast<uint32_t>(0x1.8p23f));
}

// Nearest integer, ties away from zero (C's roundf), for |value| < 2^22.
inline int32_t RoundAway(float value) {
  const int32_t whole = static_cast<int32_t>(value);
  const float rest = value - static_cast<float>(whole);
  return whole + static_cast<int32_t>(rest >= 0.5f) - static_cast<int32_t>(rest <= -0.5f);
}

inline uint16_t Int8Code(int32_t value) { return static_cast<uint8_t>(value); }

// A q8_0 or q4_0 block scale: the stored FP16 bits and the reciprocal that the elements are made with. As llama.cpp has
// it, the reciprocal is of the float before it is rounded to FP16. Beyond FP16 the scale saturates and so do the
// elements; where 1/d overflows, d is far below FP16's smallest value and the block is zero.
struct Fp16Scale {
  uint32_t bits;
  float reciprocal;
};
inline Fp16Scale MakeFp16Scale(float d) {
  const uint16_t bits = Fp16FromFloatSaturating(d);
  const bool saturated = (Fp16FromFloat(d) & 0x7fffu) == 0x7c00u;
  const float reciprocal = 1.0f / (saturated ? std::clamp(d, -kFp16Max, kFp16Max) : d);
  return {bits, std::isfinite(reciprocal) ? reciprocal : 0.0f};
}

void StoreNan(QuantizedRow row, size_t block, uint16_t code) {
  row.scales[block] = kFp16Nan;
  std::fill_n(row.codes.begin() + static_cast<ptrdiff_t>(block * kBlock), kBlock, code);
}

// The first value of largest magnitude, with its sign.
float SignedMax(Values values, int32_t amax_bits) {
  for (const float value : values) {
    if (static_cast<int32_t>(std::bit_cast<uint32_t>(value) & 0x7fffffffu) == amax_bits) return value;
  }
  return 0.0f;
}

}  // namespace

void EncodeInt8PerTokenHead(Values values, QuantizedRow row) {
  const int32_t amax_bits = AbsMaxBits(values);
  if (amax_bits > kInfBits) {
    row.scales[0] = kFp32Nan;
    std::fill_n(row.codes.begin(), values.size(), uint16_t{0});
    return;
  }
  // At 2^127 it stops, so that 127 scales, rounded, are still a finite float.
  const float scale = std::min(std::bit_cast<float>(amax_bits), 0x1p127f) / 127.0f;
  row.scales[0] = std::bit_cast<uint32_t>(scale);
  for (size_t i = 0; i < values.size(); ++i) {
    const float quotient = scale == 0.0f ? 0.0f : values[i] / scale;
    row.codes[i] = Int8Code(RoundEven(std::min(std::max(quotient, -127.0f), 127.0f)));
  }
}

void EncodeQ8_0(Values values, QuantizedRow row) {
  for (size_t block = 0; block < values.size() / kBlock; ++block) {
    const Values in = values.subspan(block * kBlock, kBlock);
    const int32_t amax_bits = AbsMaxBits(in);
    if (amax_bits > kInfBits) {
      StoreNan(row, block, 0);
      continue;
    }
    const Fp16Scale scale = MakeFp16Scale(std::bit_cast<float>(amax_bits) / 127.0f);
    row.scales[block] = scale.bits;
    for (size_t i = 0; i < kBlock; ++i) {
      const float quotient = scale.reciprocal == 0.0f ? 0.0f : in[i] * scale.reciprocal;
      row.codes[block * kBlock + i] = Int8Code(RoundAway(std::min(std::max(quotient, -127.0f), 127.0f)));
    }
  }
}

void EncodeQ4_0(Values values, QuantizedRow row) {
  for (size_t block = 0; block < values.size() / kBlock; ++block) {
    const Values in = values.subspan(block * kBlock, kBlock);
    const int32_t amax_bits = AbsMaxBits(in);
    if (amax_bits > kInfBits) {
      StoreNan(row, block, 8);
      continue;
    }
    const Fp16Scale scale = MakeFp16Scale(SignedMax(in, amax_bits) / -8.0f);
    row.scales[block] = scale.bits;
    for (size_t i = 0; i < kBlock; ++i) {
      const float shifted = (scale.reciprocal == 0.0f ? 0.0f : in[i] * scale.reciprocal) + 8.5f;
      row.codes[block * kBlock + i] = static_cast<uint16_t>(std::min(std::max(shifted, 0.0f), 15.5f));
    }
  }
}

void DecodeInt8PerTokenHead(Codes codes, Scales scales, Decoded values) {
  const float scale = std::bit_cast<float>(scales[0]);
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * scale;
}

void DecodeQ8_0(Codes codes, Scales scales, Decoded values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = FloatFromFp16(static_cast<uint16_t>(scales[i / kBlock]));
    values[i] = static_cast<float>(static_cast<int8_t>(codes[i])) * scale;
  }
}

void DecodeQ4_0(Codes codes, Scales scales, Decoded values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float scale = FloatFromFp16(static_cast<uint16_t>(scales[i / kBlock]));
    values[i] = static_cast<float>(static_cast<int>(codes[i] & 0xf) - 8) * scale;
  }
}

}  // namespace haypile::row_codec
