#if defined(__x86_64__)
#include "kernels/elementwise/elementwise_vector.h"

namespace haypile {

const ElementwiseKernels kElementwiseAvx512 = ElementwiseVector<16>::Table();

}  // namespace haypile
#endif
