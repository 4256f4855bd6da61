#pragma once

#include "kernels/attention/attention_span.h"

namespace haypile {

// SpanKernel<16> compiled for AVX2 (attention_wide_avx2_test.cc).
void AttendSpanEmulated512(const AttentionSpan& span);

}  // namespace haypile
