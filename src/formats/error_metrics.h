#pragma once

#include <cstdint>
#include <span>

#include "formats/kv_format.h"

namespace haypile {

// Signal to quantization noise ratio in dB: 10 log10(sum reference^2 / sum (reference - decoded)^2). Infinity when they
// are equal; NaN when any entry is NaN. Both spans have the same size.
double SqnrDb(std::span<const float> reference, std::span<const float> decoded);

// SQNR of a format on N(0,1), measured through EncodeRow and DecodeRow: `tokens` rows of `head_dim` drawn from `seed`
// (the same numbers on every machine up to the last bit of the C library's log and cos). Global scale 1 for the FP8
// formats, amax / GlobalScaleDivisor over all rows for the NVFP4 ones. The facts' table of expected values stands in
// docs/formats/README.md.
struct GaussianData {
  int head_dim = 128;
  int tokens = 4096;
  uint64_t seed = 20261129;
};
double MeasureGaussianSqnrDb(KvFormat format, const GaussianData& data = {});

}  // namespace haypile
