// What the kernels compute with: vectors (vec.h), the operations of the architecture compiled for, and exponentials
// made of both. Included only by per-ISA units and their tests.
#ifndef HAYPILE_KERNELS_ISA_SIMD_H_
#define HAYPILE_KERNELS_ISA_SIMD_H_

#include "kernels/isa/vec.h"
#if defined(__x86_64__)
#include "kernels/isa/simd_x86.h"
#elif defined(__aarch64__)
#include "kernels/isa/simd_neon.h"
#endif

namespace haypile {
namespace {

// Whether one instruction looks up vectors of N lanes in 128 bytes.
template <int N>
#if defined(__AVX512VBMI__)
inline constexpr bool kHasLookup128 = N == 16;
#else
inline constexpr bool kHasLookup128 = false;
#endif

// 2^x, within 2 units in the last place for x in [-126, 127.5), less precise below and 0 from -126.5 on; NaN stays
// NaN. x = n + f with |f| <= 1/2: the polynomial of degree 6 that is 1 at 0 and whose largest relative error is least
// (2^-28.9, found by iteratively reweighted least squares), times 2^n.
template <int N>
inline typename Vec<N>::F Exp2(typename Vec<N>::F x) {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  const F low = Splat<F>(-127.0f);
  const F clamped = low > x ? low : x;  // x for NaN
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low mantissa bits; 127 more make it an
  // exponent.
  const F magic = Splat<F>(12582912.0f + 127.0f);
  const F shifted = clamped + magic;
  const F f = clamped - (shifted - magic);
  F p = Splat<F>(1.535336208e-4f);
  p = MulAdd(p, f, Splat<F>(1.339887452e-3f));
  p = MulAdd(p, f, Splat<F>(9.618437358e-3f));
  p = MulAdd(p, f, Splat<F>(5.550332471e-2f));
  p = MulAdd(p, f, Splat<F>(2.402264791e-1f));
  p = MulAdd(p, f, Splat<F>(6.931472029e-1f));
  p = MulAdd(p, f, Splat<F>(1.0f));
  return p * (F)((I)shifted << 23);
}

template <int N>
inline typename Vec<N>::F PowerOfTwo(typename Vec<N>::I exponent) {
  return (typename Vec<N>::F)((exponent + 127) << 23);
}

// e^x within 2 units in the last place. x = n ln 2 + r with ln 2 in two parts, |r| <= ln 2 / 2; e^r by its series to
// r^7 (remainder below 2^-27); 2^n in two steps, so that results below 2^-126 come out gradually and 2^128 is inf.
template <int N>
inline typename Vec<N>::F NaturalExp(typename Vec<N>::F x) {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  const F low = Splat<F>(-104.0f), high = Splat<F>(89.0f);  // e^low rounds to 0, e^high is inf
  const F clamped = Select(x < low, low, Select(x > high, high, x));
  const F magic = Splat<F>(12582912.0f);  // 1.5 * 2^23: adding it rounds to an integer
  const F shifted = MulAdd(clamped, Splat<F>(1.44269504f), magic);
  const F n = shifted - magic;
  F r = MulAdd(n, Splat<F>(-0.693145751953125f), clamped);  // 15 bits of ln 2: n times it is exact
  r = MulAdd(n, Splat<F>(-1.42860682e-6f), r);
  F p = Splat<F>(1.9841270e-4f);
  p = MulAdd(p, r, Splat<F>(1.3888889e-3f));
  p = MulAdd(p, r, Splat<F>(8.3333333e-3f));
  p = MulAdd(p, r, Splat<F>(4.1666668e-2f));
  p = MulAdd(p, r, Splat<F>(1.6666667e-1f));
  p = MulAdd(p, r, Splat<F>(0.5f));
  p = MulAdd(p * r, r, r) + Splat<F>(1.0f);
  const I whole = (I)shifted - (I)magic;
  const I half = whole >> 1;
  const F result = p * PowerOfTwo<N>(half) * PowerOfTwo<N>(whole - half);
  return Select(x != x, x, result);
}

// N BF16 values as FP32.
template <int N>
inline typename Vec<N>::F LoadBf16(const uint16_t* from) {
  using U = typename Vec<N>::U;
  return (typename Vec<N>::F)(__builtin_convertvector(LoadVec<typename HalfVec<N>::U>(from), U) << 16);
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ISA_SIMD_H_
