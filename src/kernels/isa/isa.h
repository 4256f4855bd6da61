#pragma once

#include <string_view>

#include "base/result.h"

namespace haypile {

// Instruction-set levels of the kernels, each including the ones before it.
enum class Isa { kScalar, kAvx2, kAvx512 };
inline constexpr int kIsaCount = 3;

std::string_view IsaName(Isa isa);  // "scalar", "avx2", "avx512"

// The highest level this processor and system can run: avx2 needs AVX2, FMA and F16C; avx512 needs F, BW, DQ and VL.
Isa HighestIsa();

// The level in force: HAYPILE_FORCE_ISA if set, else the highest. kInvalidArgument for an unknown name,
// kUnsupported when the processor lacks the forced level. Read once.
Result<Isa> SelectIsa();

// SelectIsa's answer for code past start-up; aborts if SelectIsa fails, so the program calls that first.
Isa ActiveIsa();

// Tests only: makes ActiveIsa answer `isa` (which the processor must have) until changed again.
void SetActiveIsaForTest(Isa isa);

// Whether multiplying FP32 subnormals costs no more than other numbers: measured once, within a millisecond. Some
// processors leave the pipeline for every such product. Kernels that would meet many choose another way there.
bool SubnormalsAreFast();

}  // namespace haypile
