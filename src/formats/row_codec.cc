#include "formats/row_codec.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "formats/bf16.h"
#include "formats/e2m1.h"
#include "formats/e4m3fn.h"
#include "formats/e4m3fnuz.h"
#include "formats/e5m2.h"
#include "formats/e8m0.h"
#include "formats/fp16.h"
#include "formats/row_codec_families.h"

namespace haypile {
namespace {

void CheckSizes(const KvFormatInfo& info, size_t head_dim, size_t codes, size_t scales) {
  HAYPILE_CHECK(FitsHeadDim(info, static_cast<int>(head_dim)));
  HAYPILE_CHECK_LE(head_dim, codes);
  HAYPILE_CHECK_LE(static_cast<size_t>(BlockScalesPerHead(info, static_cast<int>(head_dim))), scales);
}

}  // namespace

void EncodeRow(KvFormat format, std::span<const float> values, float global_scale, QuantizedRow row) {
  CheckSizes(InfoOf(format), values.size(), row.codes.size(), row.scales.size());
  // Nothing can be decoded with such a scale: NaN spreads to the codes or block scales and says so.
  if (!IsUsableGlobalScale(global_scale)) global_scale = std::numeric_limits<float>::quiet_NaN();
  switch (format) {
    case KvFormat::kBf16:
      return row_codec::EncodeBf16(values, row);
    case KvFormat::kFp16:
      return row_codec::EncodeFp16(values, row);
    case KvFormat::kFp8E4m3:
    case KvFormat::kFp8E4m3Fnuz:
    case KvFormat::kFp8E5m2:
      return row_codec::EncodeFp8(format, values, global_scale, row);
    case KvFormat::kNvfp4:
      return row_codec::EncodeNvfp4(values, global_scale, row);
    case KvFormat::kNvfp4FourOverSix:
      return row_codec::EncodeNvfp4FourOverSix(values, global_scale, row);
    case KvFormat::kMxfp4:
      return row_codec::EncodeMxfp4(values, row);
    case KvFormat::kInt8PerTokenHead:
      return row_codec::EncodeInt8PerTokenHead(values, row);
    case KvFormat::kQ8_0:
      return row_codec::EncodeQ8_0(values, row);
    case KvFormat::kQ4_0:
      return row_codec::EncodeQ4_0(values, row);
  }
}

void DecodeRow(KvFormat format, std::span<const uint16_t> codes, std::span<const uint32_t> scales, float global_scale,
               std::span<float> values) {
  CheckSizes(InfoOf(format), values.size(), codes.size(), scales.size());
  switch (format) {
    case KvFormat::kBf16:
      return row_codec::DecodeBf16(codes, values);
    case KvFormat::kFp16:
      return row_codec::DecodeFp16(codes, values);
    case KvFormat::kFp8E4m3:
    case KvFormat::kFp8E4m3Fnuz:
    case KvFormat::kFp8E5m2:
      return row_codec::DecodeFp8(format, codes, global_scale, values);
    case KvFormat::kNvfp4:
    case KvFormat::kNvfp4FourOverSix:
      return row_codec::DecodeNvfp4(codes, scales, global_scale, values);
    case KvFormat::kMxfp4:
      return row_codec::DecodeMxfp4(codes, scales, values);
    case KvFormat::kInt8PerTokenHead:
      return row_codec::DecodeInt8PerTokenHead(codes, scales, values);
    case KvFormat::kQ8_0:
      return row_codec::DecodeQ8_0(codes, scales, values);
    case KvFormat::kQ4_0:
      return row_codec::DecodeQ4_0(codes, scales, values);
  }
}

bool AnySpecialFp8Code(KvFormat format, std::span<const uint16_t> codes) {
  // Special codes are those of the largest magnitudes; of E4M3FNUZ it is 0x80 alone, which the flip makes 0xff.
  unsigned flip = 0, mask = 0x7f, first = 0;
  switch (format) {
    case KvFormat::kFp8E4m3:
      first = 0x7f;
      break;
    case KvFormat::kFp8E4m3Fnuz:
      flip = 0x7f;
      mask = first = 0xff;
      break;
    case KvFormat::kFp8E5m2:
      first = 0x7c;
      break;
    default:
      return false;
  }
  unsigned any = 0;
  for (const uint16_t code : codes) any |= static_cast<unsigned>(((code ^ flip) & mask) >= first);
  return any != 0;
}

float ElementValue(KvFormat format, uint16_t code) {
  const uint8_t byte = static_cast<uint8_t>(code);
  switch (format) {
    case KvFormat::kBf16:
      return FloatFromBf16(code);
    case KvFormat::kFp16:
      return FloatFromFp16(code);
    case KvFormat::kFp8E4m3:
      return FloatFromE4m3fn(byte);
    case KvFormat::kFp8E4m3Fnuz:
      return FloatFromE4m3fnuz(byte);
    case KvFormat::kFp8E5m2:
      return FloatFromE5m2(byte);
    case KvFormat::kNvfp4:
    case KvFormat::kNvfp4FourOverSix:
    case KvFormat::kMxfp4:
      return FloatFromE2m1(byte);
    case KvFormat::kInt8PerTokenHead:
    case KvFormat::kQ8_0:
      return static_cast<float>(static_cast<int8_t>(byte));
    case KvFormat::kQ4_0:
      return static_cast<float>(static_cast<int>(byte & 0xf) - 8);
  }
  HAYPILE_CHECK(false);
}

float BlockScaleValue(BlockScale kind, uint32_t bits) {
  switch (kind) {
    case BlockScale::kNone:
      return 1.0f;
    case BlockScale::kE4m3:
      return FloatFromE4m3fn(static_cast<uint8_t>(bits));
    case BlockScale::kE8m0:
      return FloatFromE8m0(static_cast<uint8_t>(bits));
    case BlockScale::kFp16:
      return FloatFromFp16(static_cast<uint16_t>(bits));
    case BlockScale::kFp32:
      return std::bit_cast<float>(bits);
  }
  HAYPILE_CHECK(false);
}

double GlobalScaleDivisor(KvFormat format) {
  // Four-over-six needs room for a block scale half as large again: 256 * 6/4 = 384 is still an E4M3 value.
  if (format == KvFormat::kNvfp4FourOverSix) return 6.0 * 256.0;
  if (format == KvFormat::kNvfp4) return 6.0 * 448.0;
  const KvFormatInfo& info = InfoOf(format);
  return info.has_global_scale ? info.largest_element : 0.0;
}

float GlobalScaleForAmax(KvFormat format, float amax) {
  const double divisor = GlobalScaleDivisor(format);
  if (divisor == 0 || !(amax > 0) || !std::isfinite(amax)) return 1.0f;
  return std::clamp(static_cast<float>(amax / divisor), kSmallestGlobalScale, kLargestGlobalScale);
}

}  // namespace haypile
