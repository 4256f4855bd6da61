#if defined(__x86_64__)
#include "kernels/attention/attention_span_vector.h"

namespace haypile {

void AttendSpanAvx512Bf16(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kBf16>(span).Run(); }

}  // namespace haypile
#endif
