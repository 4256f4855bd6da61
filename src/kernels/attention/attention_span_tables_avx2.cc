#if defined(__x86_64__)
#include "kernels/attention/attention_span_vector.h"

namespace haypile {

void AttendSpanAvx2Tables(const AttentionSpan& span) { SpanKernel<8, FloatProducts::kTables>(span).Run(); }

}  // namespace haypile
#endif
