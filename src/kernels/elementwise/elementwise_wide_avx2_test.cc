// The 512-bit algorithm with its vectors emulated in two halves, so that a machine with AVX2 alone tests it too.
#if defined(__x86_64__)
#include "kernels/elementwise/elementwise_vector.h"
#include "kernels/elementwise/elementwise_wide_test.h"

namespace haypile {

const ElementwiseKernels kElementwiseEmulated512 = ElementwiseVector<16>::Table();

}  // namespace haypile
#endif
