#if defined(__x86_64__)
#include "kernels/matmul/gemv_vector.h"

namespace haypile {

const GemvKernels kGemvAvx512 = GemvVector<16>::Table();

}  // namespace haypile
#endif
