#if defined(__x86_64__)
#include "kernels/attention/attention_span_vector.h"

namespace haypile {

void AttendSpanAvx512Bf16Tables(const AttentionSpan& span) { SpanKernel<16, FloatProducts::kTables>(span).Run(); }

}  // namespace haypile
#endif
