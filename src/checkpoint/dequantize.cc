#include "checkpoint/dequantize.h"

#include <bit>
#include <cstring>

#include "base/check.h"

namespace haypile {
namespace {

static_assert(std::endian::native == std::endian::little, "checkpoints are read in place as little-endian");

constexpr int kBlock = 32;        // elements of the Q*_0 and Q*_1 blocks
constexpr int kSuperBlock = 256;  // elements of the K-quant blocks

template <typename T>
T Load(const uint8_t* bytes) {
  T value;
  std::memcpy(&value, bytes, sizeof(T));
  return value;
}

// IEEE binary16 to binary32, exact; NaN keeps its payload. The product rebases the exponent and is exact for
// subnormals too.
inline float Fp16ToFloat(uint16_t half) {
  const uint32_t sign = static_cast<uint32_t>(half & 0x8000) << 16;
  const uint32_t magnitude = static_cast<uint32_t>(half & 0x7fff) << 13;
  const float rebased = std::bit_cast<float>(magnitude) * 0x1p112f;
  const bool special = (half & 0x7c00) == 0x7c00;
  const uint32_t bits = special ? (magnitude | 0x7f800000) : std::bit_cast<uint32_t>(rebased);
  return std::bit_cast<float>(bits | sign);
}

inline float LoadFp16(const uint8_t* bytes) { return Fp16ToFloat(Load<uint16_t>(bytes)); }

// Q8_0, 34 bytes: fp16 d; int8 q[32]. x = d*q
void DequantizeQ8_0(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const auto* q = reinterpret_cast<const int8_t*>(block + 2);
  for (int i = 0; i < kBlock; ++i) out[i] = d * static_cast<float>(q[i]);
}

// Q4_0, 18 bytes: fp16 d; 16 bytes, byte i holds element i in its low and i+16 in its high nibble. x = d*(q-8)
void DequantizeQ4_0(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const uint8_t* q = block + 2;
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = d * static_cast<float>((q[i] & 15) - 8);
    out[i + 16] = d * static_cast<float>((q[i] >> 4) - 8);
  }
}

// Q4_1, 20 bytes: fp16 d; fp16 m; nibbles as in Q4_0. x = d*q + m
void DequantizeQ4_1(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const float m = LoadFp16(block + 2);
  const uint8_t* q = block + 4;
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = d * static_cast<float>(q[i] & 15) + m;
    out[i + 16] = d * static_cast<float>(q[i] >> 4) + m;
  }
}

// Element i of Q5_0 and Q5_1: nibble as in Q4_0, bit 4 from bit i of the 32-bit word `high`.
inline int FiveBits(int nibble, uint32_t high, int i) { return nibble | static_cast<int>((high >> i & 1) << 4); }

// Q5_0, 22 bytes: fp16 d; uint32 high; nibbles. x = d*(q-16)
void DequantizeQ5_0(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const auto high = Load<uint32_t>(block + 2);
  const uint8_t* q = block + 6;
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = d * static_cast<float>(FiveBits(q[i] & 15, high, i) - 16);
    out[i + 16] = d * static_cast<float>(FiveBits(q[i] >> 4, high, i + 16) - 16);
  }
}

// Q5_1, 24 bytes: fp16 d; fp16 m; uint32 high; nibbles. x = d*q + m
void DequantizeQ5_1(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const float m = LoadFp16(block + 2);
  const auto high = Load<uint32_t>(block + 4);
  const uint8_t* q = block + 8;
  for (int i = 0; i < kBlock / 2; ++i) {
    out[i] = d * static_cast<float>(FiveBits(q[i] & 15, high, i)) + m;
    out[i + 16] = d * static_cast<float>(FiveBits(q[i] >> 4, high, i + 16)) + m;
  }
}

struct ScaleAndMin {
  float scale;
  float min;
};

// The eight 6-bit scales and mins of Q4_K and Q5_K in 12 bytes: scales 0-3 are the low 6 bits of bytes 0-3, mins 0-3
// those of bytes 4-7; for j >= 4 byte j+4 holds the low 4 bits of scale j (low nibble) and min j (high nibble), and
// the two top bits of bytes j-4 and j hold their bits 4 and 5.
inline ScaleAndMin SixBitScale(const uint8_t* packed, int j) {
  if (j < 4) return {static_cast<float>(packed[j] & 63), static_cast<float>(packed[j + 4] & 63)};
  const int scale = (packed[j + 4] & 15) | (packed[j - 4] >> 6) << 4;
  const int min = (packed[j + 4] >> 4) | (packed[j] >> 6) << 4;
  return {static_cast<float>(scale), static_cast<float>(min)};
}

// Q4_K, 144 bytes: fp16 d; fp16 dmin; 12 bytes of scales and mins for 8 groups of 32; 128 bytes, 32 for each two
// groups: the first in the low nibbles, the second in the high ones. x = (d*scale)*q - dmin*min
void DequantizeQ4K(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const float dmin = LoadFp16(block + 2);
  for (int pair = 0; pair < 4; ++pair) {
    const uint8_t* q = block + 16 + 32 * pair;
    const ScaleAndMin low = SixBitScale(block + 4, 2 * pair);
    const ScaleAndMin high = SixBitScale(block + 4, 2 * pair + 1);
    const float low_scale = d * low.scale, low_min = dmin * low.min;
    const float high_scale = d * high.scale, high_min = dmin * high.min;
    float* y = out + 64 * pair;
    for (int i = 0; i < 32; ++i) {
      y[i] = low_scale * static_cast<float>(q[i] & 15) - low_min;
      y[i + 32] = high_scale * static_cast<float>(q[i] >> 4) - high_min;
    }
  }
}

// Q5_K, 176 bytes: as Q4_K, with 32 bytes between scales and nibbles: bit g of byte i is bit 4 of element i of group g.
void DequantizeQ5K(const uint8_t* block, float* out) {
  const float d = LoadFp16(block);
  const float dmin = LoadFp16(block + 2);
  const uint8_t* top = block + 16;
  for (int pair = 0; pair < 4; ++pair) {
    const uint8_t* q = block + 48 + 32 * pair;
    const ScaleAndMin low = SixBitScale(block + 4, 2 * pair);
    const ScaleAndMin high = SixBitScale(block + 4, 2 * pair + 1);
    const float low_scale = d * low.scale, low_min = dmin * low.min;
    const float high_scale = d * high.scale, high_min = dmin * high.min;
    float* y = out + 64 * pair;
    for (int i = 0; i < 32; ++i) {
      const int low_q = (q[i] & 15) | (top[i] >> (2 * pair) & 1) << 4;
      const int high_q = (q[i] >> 4) | (top[i] >> (2 * pair + 1) & 1) << 4;
      y[i] = low_scale * static_cast<float>(low_q) - low_min;
      y[i + 32] = high_scale * static_cast<float>(high_q) - high_min;
    }
  }
}

// Q6_K, 210 bytes: 128 bytes of low nibbles; 64 bytes of 2-bit tops; int8 scale for each of 16 groups of 16; fp16 d.
// In each half of 128 elements, quarter k (32 elements) takes its nibbles from bytes 32*(k%2).. of the half's 64, low
// for k < 2 and high for k >= 2, and its tops from bits 2k and 2k+1 of the half's 32. x = (d*scale)*(q-32)
void DequantizeQ6K(const uint8_t* block, float* out) {
  const float d = LoadFp16(block + 208);
  for (int half = 0; half < 2; ++half) {
    const uint8_t* nibbles = block + 64 * half;
    const uint8_t* tops = block + 128 + 32 * half;
    const auto* scales = reinterpret_cast<const int8_t*>(block + 192 + 8 * half);
    for (int quarter = 0; quarter < 4; ++quarter) {
      const uint8_t* q = nibbles + 32 * (quarter % 2);
      const int nibble_shift = quarter < 2 ? 0 : 4;
      float* y = out + 128 * half + 32 * quarter;
      for (int part = 0; part < 2; ++part) {
        const float scale = d * static_cast<float>(scales[2 * quarter + part]);
        for (int i = 16 * part; i < 16 * part + 16; ++i) {
          const int value = (q[i] >> nibble_shift & 15) | (tops[i] >> (2 * quarter) & 3) << 4;
          y[i] = scale * static_cast<float>(value - 32);
        }
      }
    }
  }
}

template <typename BlockDecoder>
void DecodeBlocks(const uint8_t* blocks, size_t block_bytes, size_t block_elements, std::span<float> out,
                  BlockDecoder decode) {
  HAYPILE_CHECK_EQ(out.size() % block_elements, size_t{0});
  for (size_t i = 0; i < out.size(); i += block_elements, blocks += block_bytes) decode(blocks, out.data() + i);
}

}  // namespace

void DequantizeToFloat(WeightType type, const uint8_t* blocks, std::span<float> out) {
  switch (type) {
    case WeightType::kF32:
      if (!out.empty()) std::memcpy(out.data(), blocks, out.size_bytes());
      return;
    case WeightType::kF16:
      for (size_t i = 0; i < out.size(); ++i) out[i] = LoadFp16(blocks + 2 * i);
      return;
    case WeightType::kBf16:
      for (size_t i = 0; i < out.size(); ++i) {
        out[i] = std::bit_cast<float>(static_cast<uint32_t>(Load<uint16_t>(blocks + 2 * i)) << 16);
      }
      return;
    case WeightType::kQ8_0:
      return DecodeBlocks(blocks, 34, kBlock, out, DequantizeQ8_0);
    case WeightType::kQ4_0:
      return DecodeBlocks(blocks, 18, kBlock, out, DequantizeQ4_0);
    case WeightType::kQ4_1:
      return DecodeBlocks(blocks, 20, kBlock, out, DequantizeQ4_1);
    case WeightType::kQ5_0:
      return DecodeBlocks(blocks, 22, kBlock, out, DequantizeQ5_0);
    case WeightType::kQ5_1:
      return DecodeBlocks(blocks, 24, kBlock, out, DequantizeQ5_1);
    case WeightType::kQ4K:
      return DecodeBlocks(blocks, 144, kSuperBlock, out, DequantizeQ4K);
    case WeightType::kQ5K:
      return DecodeBlocks(blocks, 176, kSuperBlock, out, DequantizeQ5K);
    case WeightType::kQ6K:
      return DecodeBlocks(blocks, 210, kSuperBlock, out, DequantizeQ6K);
    case WeightType::kOther:
      break;
  }
  HAYPILE_CHECK(type != WeightType::kOther);
}

void RoundToBf16(std::span<const float> values, uint16_t* out) {
  for (size_t i = 0; i < values.size(); ++i) {
    const auto bits = std::bit_cast<uint32_t>(values[i]);
    const uint32_t rounded = bits + 0x7fff + (bits >> 16 & 1);
    const bool nan = (bits & 0x7fffffff) > 0x7f800000;
    out[i] = static_cast<uint16_t>((nan ? (bits | 0x400000) : rounded) >> 16);
  }
}

}  // namespace haypile
