// The 512-bit algorithm with its vectors emulated in two halves, so that a machine with AVX2 alone tests it too.
#if defined(__x86_64__)
#include "kernels/matmul/gemv_vector.h"
#include "kernels/matmul/gemv_wide_test.h"

namespace haypile {

const GemvKernels kGemvEmulated512 = GemvVector<16>::Table();

}  // namespace haypile
#endif
