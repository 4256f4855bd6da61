#if defined(__aarch64__)
#include "kernels/attention/attention_span_vector.h"

namespace haypile {

void AttendSpanNeon(const AttentionSpan& span) { SpanKernel<4, FloatProducts::kDirect>(span).Run(); }

}  // namespace haypile
#endif
