#include "base/check.h"
#include "formats/bf16.h"
#include "formats/e4m3fn.h"
#include "formats/e4m3fnuz.h"
#include "formats/e5m2.h"
#include "formats/fp16.h"
#include "formats/row_codec_families.h"

namespace haypile::row_codec {
namespace {

template <typename Encode>
void EncodeEach(Values values, QuantizedRow row, Encode encode) {
  for (size_t i = 0; i < values.size(); ++i) row.codes[i] = encode(values[i]);
}

template <typename Decode>
void DecodeEach(Codes codes, Decoded values, Decode decode) {
  for (size_t i = 0; i < values.size(); ++i) values[i] = decode(codes[i]);
}

}  // namespace

void EncodeBf16(Values values, QuantizedRow row) {
  EncodeEach(values, row, [](float value) { return Bf16FromFloatSaturating(value); });
}

void EncodeFp16(Values values, QuantizedRow row) {
  EncodeEach(values, row, [](float value) { return Fp16FromFloatSaturating(value); });
}

void EncodeFp8(KvFormat format, Values values, float global_scale, QuantizedRow row) {
  switch (format) {
    case KvFormat::kFp8E4m3:
      return EncodeEach(values, row, [=](float value) { return E4m3fnFromFloat(value / global_scale); });
    case KvFormat::kFp8E4m3Fnuz:
      return EncodeEach(values, row, [=](float value) { return E4m3fnuzFromFloat(value / global_scale); });
    case KvFormat::kFp8E5m2:
      return EncodeEach(values, row, [=](float value) { return E5m2FromFloat(value / global_scale); });
    default:
      HAYPILE_CHECK(false);
  }
}

void DecodeBf16(Codes codes, Decoded values) {
  DecodeEach(codes, values, [](uint16_t code) { return FloatFromBf16(code); });
}

void DecodeFp16(Codes codes, Decoded values) {
  DecodeEach(codes, values, [](uint16_t code) { return FloatFromFp16(code); });
}

void DecodeFp8(KvFormat format, Codes codes, float global_scale, Decoded values) {
  DecodeEach(codes, values, [=](uint16_t code) { return ElementValue(format, code) * global_scale; });
}

}  // namespace haypile::row_codec
