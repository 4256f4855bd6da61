#if defined(__x86_64__)
#include "kernels/attention/attention_span_vector.h"

namespace haypile {

void AttendSpanAvx512(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kDirect>(span).Run(); }

}  // namespace haypile
#endif
