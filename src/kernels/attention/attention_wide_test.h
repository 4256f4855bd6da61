#pragma once

#include "kernels/attention/attention_span.h"

namespace haypile {

// SpanKernel<16> compiled for AVX2 (attention_wide_avx2_test.cc), the others with BF16 products and as with AMX.
void AttendSpanEmulated512(const AttentionSpan& span);
void AttendSpanEmulated512Bf16(const AttentionSpan& span);
void AttendSpanEmulatedAmx(const AttentionSpan& span);
// Exp2 of simd.h, eight lanes.
void Exp2OfEight(const float* from, float* to);

}  // namespace haypile
