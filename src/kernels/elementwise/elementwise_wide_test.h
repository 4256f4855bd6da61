#pragma once

#include "kernels/elementwise/elementwise_kernels.h"

namespace haypile {

// The 512-bit kernels compiled for AVX2 (elementwise_wide_avx2_test.cc).
extern const ElementwiseKernels kElementwiseEmulated512;

}  // namespace haypile
