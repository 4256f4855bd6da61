#pragma once

#include "kernels/matmul/gemv.h"

namespace haypile {

// The 512-bit kernels compiled for AVX2 (gemv_wide_avx2_test.cc).
extern const GemvKernels kGemvEmulated512;

}  // namespace haypile
