// The operations of simd_x86.h for the 128-bit vectors of AArch64. Included only through simd.h. All are in ARMv8.0, so
// that no flag and no look at the processor is needed.
#ifndef HAYPILE_KERNELS_ISA_SIMD_NEON_H_
#define HAYPILE_KERNELS_ISA_SIMD_NEON_H_

#include <arm_neon.h>

#include "kernels/isa/vec.h"

namespace haypile {
namespace {

// Asks for the cache line of `at`; see simd_x86.h.
inline void PrefetchLine(const uint8_t* at) { asm volatile("prfm pldl1keep, %0" : : "Q"(*at)); }

// a * b + c with one rounding.
inline Vec<4>::F MulAdd(Vec<4>::F a, Vec<4>::F b, Vec<4>::F c) {
  return (Vec<4>::F)vfmaq_f32((float32x4_t)c, (float32x4_t)a, (float32x4_t)b);
}
// Interleave of bytes: a0 b0 a1 b1 ... of the low (high) halves.
inline Vec<4>::B UnpackLow(Vec<4>::B a, Vec<4>::B b) { return (Vec<4>::B)vzip1q_u8((uint8x16_t)a, (uint8x16_t)b); }
inline Vec<4>::B UnpackHigh(Vec<4>::B a, Vec<4>::B b) { return (Vec<4>::B)vzip2q_u8((uint8x16_t)a, (uint8x16_t)b); }
// Sums of two neighbouring 16-bit products, in 32 bits.
inline Vec<4>::I MulPairs(Vec<4>::W a, Vec<4>::W b) {
  const int16x8_t x = (int16x8_t)a, y = (int16x8_t)b;
  return (Vec<4>::I)vpaddq_s32(vmull_s16(vget_low_s16(x), vget_low_s16(y)), vmull_high_s16(x, y));
}
inline void AddPairs(Vec<4>::I& sum, Vec<4>::W pairs, const int16_t* factors) {
  sum = sum + MulPairs(pairs, (Vec<4>::W)SplatInt<Vec<4>::I>(LoadVec<int32_t>(factors)));
}
inline Vec<4>::I RoundToInt(Vec<4>::F a) { return (Vec<4>::I)vcvtnq_s32_f32((float32x4_t)a); }
inline Vec<4>::W Narrow(Vec<4>::I a, Vec<4>::I b) {
  return (Vec<4>::W)vcombine_s16(vmovn_s32((int32x4_t)a), vmovn_s32((int32x4_t)b));
}
inline Vec<4>::B MinBytes(Vec<4>::B a, Vec<4>::B b) { return (Vec<4>::B)vminq_u8((uint8x16_t)a, (uint8x16_t)b); }
// table[index] in each byte whose index is below 16; any value for other indices below 128.
inline Vec<4>::B Lookup(const uint8_t (&table)[16], Vec<4>::B index) {
  return (Vec<4>::B)vqtbl1q_u8(vld1q_u8(table), (uint8x16_t)index);
}
template <int N>
typename Vec<N>::F LoadHalfFloats(const void* from);
template <>
inline Vec<4>::F LoadHalfFloats<4>(const void* from) {
  return (Vec<4>::F)vcvt_f32_f16(LoadVec<float16x4_t>(from));
}
// N bytes widened to 32-bit lanes.
template <int N>
typename Vec<N>::I LoadBytes(const void* from);
template <>
inline Vec<4>::I LoadBytes<4>(const void* from) {
  const uint8x8_t bytes = vcreate_u8(LoadVec<uint32_t>(from));
  return (Vec<4>::I)vmovl_u16(vget_low_u16(vmovl_u8(bytes)));
}

// sum += value * factors[0..3].
inline void AddProducts(Vec<4>::F& sum, Vec<4>::F value, const float* factors) {
  sum = MulAdd(value, LoadVec<Vec<4>::F>(factors), sum);
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ISA_SIMD_NEON_H_
