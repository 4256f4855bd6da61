#if defined(__x86_64__)
#include "kernels/elementwise/elementwise_vector.h"

namespace haypile {

const ElementwiseKernels kElementwiseAvx2 = ElementwiseVector<8>::Table();

}  // namespace haypile
#endif
