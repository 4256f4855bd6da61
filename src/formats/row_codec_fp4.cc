#include <cmath>

#include "formats/e2m1.h"
#include "formats/e4m3fn.h"
#include "formats/e8m0.h"
#include "formats/row_codec_families.h"

namespace haypile::row_codec {
namespace {

constexpr size_t kNvfp4Block = 16;
constexpr size_t kMxfp4Block = 32;
constexpr uint32_t kE4m3fnNan = 0x7f;
constexpr int kE2m1Emax = 2;

using Nvfp4Values = std::span<const float, kNvfp4Block>;

// The block's E4M3 scale code that puts amax on the element `target` (6 or 4), and its elements. A scale that rounds to
// zero zeroes the block.
struct Nvfp4Candidate {
  uint8_t scale;
  uint8_t codes[kNvfp4Block];

  Nvfp4Candidate(Nvfp4Values values, float amax, float target, float global_scale)
      : scale(E4m3fnFromFloat(amax / (target * global_scale))) {
    const float step = Step(global_scale);
    for (size_t i = 0; i < kNvfp4Block; ++i) {
      codes[i] = static_cast<uint8_t>(step == 0.0f ? 0u : E2m1FromNumber(values[i] / step));
    }
  }

  float Step(float global_scale) const { return FloatFromE4m3fn(scale) * global_scale; }

  // Sum of squared differences to what decodes; in double, where no finite input over- or underflows.
  double SquaredError(Nvfp4Values values, float global_scale) const {
    const float step = Step(global_scale);
    double sum = 0;
    for (size_t i = 0; i < kNvfp4Block; ++i) {
      const double error = static_cast<double>(values[i]) - static_cast<double>(FloatFromE2m1(codes[i]) * step);
      sum += error * error;
    }
    return sum;
  }

  void Store(QuantizedRow row, size_t block) const {
    row.scales[block] = scale;
    std::copy_n(codes, kNvfp4Block, row.codes.begin() + static_cast<ptrdiff_t>(block * kNvfp4Block));
  }
};

template <size_t kBlock>
void StoreNan(QuantizedRow row, size_t block, uint32_t nan_scale) {
  row.scales[block] = nan_scale;
  std::fill_n(row.codes.begin() + static_cast<ptrdiff_t>(block * kBlock), kBlock, uint16_t{0});
}

template <bool kTryFour>
void EncodeNvfp4Row(Values values, float global_scale, QuantizedRow row) {
  for (size_t block = 0; block < values.size() / kNvfp4Block; ++block) {
    const auto in = values.subspan(block * kNvfp4Block).first<kNvfp4Block>();
    const int32_t amax_bits = AbsMaxBits(in);
    if (amax_bits > kInfBits || std::isnan(global_scale)) {
      StoreNan<kNvfp4Block>(row, block, kE4m3fnNan);
      continue;
    }
    const float amax = std::bit_cast<float>(amax_bits);
    const Nvfp4Candidate six(in, amax, 6.0f, global_scale);
    if constexpr (kTryFour) {
      // An infinity leaves no error to compare: both sums are infinite and six stays.
      const Nvfp4Candidate four(in, amax, 4.0f, global_scale);
      if (four.SquaredError(in, global_scale) < six.SquaredError(in, global_scale)) {
        four.Store(row, block);
        continue;
      }
    }
    six.Store(row, block);
  }
}

}  // namespace

void EncodeNvfp4(Values values, float global_scale, QuantizedRow row) {
  EncodeNvfp4Row<false>(values, global_scale, row);
}

void EncodeNvfp4FourOverSix(Values values, float global_scale, QuantizedRow row) {
  EncodeNvfp4Row<true>(values, global_scale, row);
}

void EncodeMxfp4(Values values, QuantizedRow row) {
  for (size_t block = 0; block < values.size() / kMxfp4Block; ++block) {
    const Values in = values.subspan(block * kMxfp4Block, kMxfp4Block);
    const uint8_t scale = E8m0SharedScale(std::bit_cast<float>(AbsMaxBits(in)), kE2m1Emax);
    if (scale == kE8m0Nan) {
      StoreNan<kMxfp4Block>(row, block, kE8m0Nan);
      continue;
    }
    row.scales[block] = scale;
    // A product with a power of two: the quotient exactly, or too small to matter to E2M1's smallest step.
    const float reciprocal = ReciprocalOfE8m0(scale);
    for (size_t i = 0; i < kMxfp4Block; ++i) {
      row.codes[block * kMxfp4Block + i] = static_cast<uint16_t>(E2m1FromNumber(in[i] * reciprocal));
    }
  }
}

void DecodeNvfp4(Codes codes, Scales scales, float global_scale, Decoded values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float step = FloatFromE4m3fn(static_cast<uint8_t>(scales[i / kNvfp4Block])) * global_scale;
    values[i] = FloatFromE2m1(static_cast<uint8_t>(codes[i])) * step;
  }
}

void DecodeMxfp4(Codes codes, Scales scales, Decoded values) {
  for (size_t i = 0; i < values.size(); ++i) {
    const float step = FloatFromE8m0(static_cast<uint8_t>(scales[i / kMxfp4Block]));
    values[i] = FloatFromE2m1(static_cast<uint8_t>(codes[i])) * step;
  }
}

}  // namespace haypile::row_codec
