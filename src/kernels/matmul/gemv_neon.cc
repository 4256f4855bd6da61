#if defined(__aarch64__)
#include "kernels/matmul/gemv_vector.h"

namespace haypile {

const GemvKernels kGemvNeon = GemvVector<4>::Table();

}  // namespace haypile
#endif
