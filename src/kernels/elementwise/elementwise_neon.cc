#if defined(__aarch64__)
#include "kernels/elementwise/elementwise_vector.h"

namespace haypile {

const ElementwiseKernels kElementwiseNeon = ElementwiseVector<4>::Table();

}  // namespace haypile
#endif
