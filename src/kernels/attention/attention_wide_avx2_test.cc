// The 512-bit algorithm with its vectors emulated in two halves, so that a machine with AVX2 alone tests it too; and
// what the kernels keep to themselves.
#if defined(__x86_64__)
#define HAYPILE_EMULATES_WIDE_VECTORS
#include "kernels/attention/attention_span_vector.h"
#include "kernels/attention/attention_wide_test.h"

namespace haypile {

void AttendSpanEmulated512(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kDirect>(span).Run(); }
void AttendSpanEmulated512Bf16(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kBf16>(span).Run(); }
void AttendSpanEmulatedAmx(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kAmx>(span).Run(); }

void Exp2OfEight(const float* from, float* to) { StoreVec(to, Exp2<8>(LoadVec<Vec<8>::F>(from))); }

}  // namespace haypile
#endif
