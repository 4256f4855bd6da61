#if defined(__x86_64__)
#include "kernels/attention/attention_span_vector.h"

namespace haypile {

void AttendSpanAmx(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kAmx>(span).Run(); }

}  // namespace haypile
#endif
