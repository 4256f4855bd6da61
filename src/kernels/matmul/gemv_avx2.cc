#if defined(__x86_64__)
#include "kernels/matmul/gemv_vector.h"

namespace haypile {

const GemvKernels kGemvAvx2 = GemvVector<8>::Table();

}  // namespace haypile
#endif
