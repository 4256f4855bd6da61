#pragma once

#include <string>
#include <vector>

#include "inspect/scale_summary.h"

namespace haypile {

// The divisor that scales betray. A calibration's amax is a value of 16-bit activations, so it has 8 significant bits
// (bfloat16) or 11 (float16). scale * divisor gives such a number back for the exporter's own divisor; for another,
// each value does so by chance once in 2^13 (8 bits) or 2^10 (11 bits). Scales rounded to 16 bits themselves, averages
// and percentiles tell nothing.
//
// "amax/448" (also for the divisors 224 and 57344, which differ by a power of two), "amax/2688" (NVFP4: 6 * 448),
// "amax/240" (FP8 FNUZ), "amax/127" and "amax/127.5" (INT8), "amax/6"; empty: the values do not tell.
std::string DivisorOfValues(const std::vector<const FamilySummary*>& families);

}  // namespace haypile
