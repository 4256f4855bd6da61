#pragma once

#include <string_view>

#include "base/result.h"

namespace haypile {

// Instruction-set levels of the kernels. Of one architecture, each includes the ones before it; scalar is of all.
// avx2 needs AVX2, FMA and F16C; avx512 also F, BW, DQ and VL; avx512_bf16 also BF16, VNNI and VBMI; amx also tile
// registers with BF16 that the system lets programs use; neon is what every AArch64 processor has.
enum class Isa { kScalar, kAvx2, kAvx512, kAvx512Bf16, kAmx, kNeon };
inline constexpr Isa kEveryIsa[] = {Isa::kScalar, Isa::kAvx2, Isa::kAvx512, Isa::kAvx512Bf16, Isa::kAmx, Isa::kNeon};

// Whether a level runs the kernels of avx512.
constexpr bool IncludesAvx512(Isa isa) { return isa == Isa::kAvx512 || isa == Isa::kAvx512Bf16 || isa == Isa::kAmx; }

std::string_view IsaName(Isa isa);  // "scalar", "avx2", "avx512", "avx512_bf16", "amx", "neon"

// The highest level this processor and system can run, and whether they can run `isa`.
Isa HighestIsa();
bool HasIsa(Isa isa);

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

// Whether multiplying 512-bit vectors of BF16 pairs takes less than 1.5 times as long as of half as many FP32 numbers:
// measured once, within a millisecond, on a processor of the level avx512_bf16. Some start as many of both, others a
// BF16 product every other cycle but two FP32 ones in each.
bool Bf16ProductsAreFast();

}  // namespace haypile
