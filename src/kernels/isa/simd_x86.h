// The few operations that vector extensions cannot spell, for 256- and 512-bit vectors of x86-64. Included only through
// simd.h. Without AVX-512 the 512-bit forms work on two halves: the same algorithm then runs, and is tested, on any
// processor with AVX2.
#ifndef HAYPILE_KERNELS_ISA_SIMD_X86_H_
#define HAYPILE_KERNELS_ISA_SIMD_X86_H_

#include <immintrin.h>

#include "kernels/isa/vec.h"

namespace haypile {
namespace {

// Asks for the cache line of `at`. Not __builtin_prefetch: GCC takes a function that does nothing else for one without
// effects, and leaves out calls of it that it does not inline.
inline void PrefetchLine(const uint8_t* at) { asm volatile("prefetcht0 %0" : : "m"(*at)); }

// a * b + c with one rounding.
inline Vec<8>::F MulAdd(Vec<8>::F a, Vec<8>::F b, Vec<8>::F c) {
  return (Vec<8>::F)_mm256_fmadd_ps((__m256)a, (__m256)b, (__m256)c);
}
// In-lane interleave of bytes: result bytes are a0 b0 a1 b1 ... of each 128-bit lane's low (high) half.
inline Vec<8>::B UnpackLow(Vec<8>::B a, Vec<8>::B b) { return (Vec<8>::B)_mm256_unpacklo_epi8((__m256i)a, (__m256i)b); }
inline Vec<8>::B UnpackHigh(Vec<8>::B a, Vec<8>::B b) {
  return (Vec<8>::B)_mm256_unpackhi_epi8((__m256i)a, (__m256i)b);
}
// Sums of two neighbouring 16-bit products, in 32 bits.
inline Vec<8>::I MulPairs(Vec<8>::W a, Vec<8>::W b) { return (Vec<8>::I)_mm256_madd_epi16((__m256i)a, (__m256i)b); }
// sum += MulPairs of `pairs` and the two numbers at `factors` in every lane, in this place: left to itself GCC adds at
// the end of an unrolled loop, and runs out of registers.
inline void AddPairs(Vec<8>::I& sum, Vec<8>::W pairs, const int16_t* factors) {
  sum = sum + MulPairs(pairs, (Vec<8>::W)SplatInt<Vec<8>::I>(LoadVec<int32_t>(factors)));
  asm("" : "+x"(sum));
}
// To the nearest integer, ties to even.
inline Vec<8>::I RoundToInt(Vec<8>::F a) { return (Vec<8>::I)_mm256_cvtps_epi32((__m256)a); }
// Integers that fit 16 bits, those of `a` first.
inline Vec<8>::W Narrow(Vec<8>::I a, Vec<8>::I b) {
  return (Vec<8>::W)_mm256_permute4x64_epi64(_mm256_packs_epi32((__m256i)a, (__m256i)b), 0xd8);
}
inline Vec<8>::B MinBytes(Vec<8>::B a, Vec<8>::B b) { return (Vec<8>::B)_mm256_min_epu8((__m256i)a, (__m256i)b); }
// table[index] in each byte whose index is below 16; any value for other indices below 128.
inline Vec<8>::B Lookup(const uint8_t (&table)[16], Vec<8>::B index) {
  const __m256i t = _mm256_broadcastsi128_si256(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return (Vec<8>::B)_mm256_shuffle_epi8(t, (__m256i)index);
}
template <int N>
typename Vec<N>::F LoadHalfFloats(const void* from);
template <>
inline Vec<8>::F LoadHalfFloats<8>(const void* from) {
  return (Vec<8>::F)_mm256_cvtph_ps(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}
// N bytes widened to 32-bit lanes.
template <int N>
typename Vec<N>::I LoadBytes(const void* from);
template <>
inline Vec<8>::I LoadBytes<8>(const void* from) {
  return (Vec<8>::I)_mm256_cvtepu8_epi32(_mm_loadl_epi64(static_cast<const __m128i*>(from)));
}

#if defined(__AVX512BW__)

inline Vec<16>::F MulAdd(Vec<16>::F a, Vec<16>::F b, Vec<16>::F c) {
  return (Vec<16>::F)_mm512_fmadd_ps((__m512)a, (__m512)b, (__m512)c);
}
inline Vec<16>::B UnpackLow(Vec<16>::B a, Vec<16>::B b) {
  return (Vec<16>::B)_mm512_unpacklo_epi8((__m512i)a, (__m512i)b);
}
inline Vec<16>::B UnpackHigh(Vec<16>::B a, Vec<16>::B b) {
  return (Vec<16>::B)_mm512_unpackhi_epi8((__m512i)a, (__m512i)b);
}
inline Vec<16>::I MulPairs(Vec<16>::W a, Vec<16>::W b) { return (Vec<16>::I)_mm512_madd_epi16((__m512i)a, (__m512i)b); }
inline Vec<16>::I RoundToInt(Vec<16>::F a) { return (Vec<16>::I)_mm512_cvtps_epi32((__m512)a); }
inline Vec<16>::B MinBytes(Vec<16>::B a, Vec<16>::B b) { return (Vec<16>::B)_mm512_min_epu8((__m512i)a, (__m512i)b); }
inline Vec<16>::B Lookup16(const uint8_t (&table)[16], Vec<16>::B index) {
  const __m512i t = _mm512_broadcast_i32x4(_mm_loadu_si128(reinterpret_cast<const __m128i*>(table)));
  return (Vec<16>::B)_mm512_shuffle_epi8(t, (__m512i)index);
}
template <>
inline Vec<16>::F LoadHalfFloats<16>(const void* from) {
  return (Vec<16>::F)_mm512_cvtph_ps(_mm256_loadu_si256(static_cast<const __m256i*>(from)));
}
template <>
inline Vec<16>::I LoadBytes<16>(const void* from) {
  return (Vec<16>::I)_mm512_cvtepu8_epi32(_mm_loadu_si128(static_cast<const __m128i*>(from)));
}

#else

template <typename Wide, typename Narrow>
inline Wide JoinHalves(Narrow low, Narrow high) {
  Wide wide;
  std::memcpy(&wide, &low, sizeof(Narrow));
  std::memcpy(reinterpret_cast<char*>(&wide) + sizeof(Narrow), &high, sizeof(Narrow));
  return wide;
}
template <typename Narrow, typename Wide>
inline Narrow HalfOf(const Wide& wide, int half) {
  return LoadVec<Narrow>(reinterpret_cast<const char*>(&wide) + half * sizeof(Narrow));
}
inline Vec<16>::F MulAdd(Vec<16>::F a, Vec<16>::F b, Vec<16>::F c) {
  using H = Vec<8>::F;
  return JoinHalves<Vec<16>::F>(MulAdd(HalfOf<H>(a, 0), HalfOf<H>(b, 0), HalfOf<H>(c, 0)),
                                MulAdd(HalfOf<H>(a, 1), HalfOf<H>(b, 1), HalfOf<H>(c, 1)));
}
inline Vec<16>::B UnpackLow(Vec<16>::B a, Vec<16>::B b) {
  using H = Vec<8>::B;
  return JoinHalves<Vec<16>::B>(UnpackLow(HalfOf<H>(a, 0), HalfOf<H>(b, 0)),
                                UnpackLow(HalfOf<H>(a, 1), HalfOf<H>(b, 1)));
}
inline Vec<16>::B UnpackHigh(Vec<16>::B a, Vec<16>::B b) {
  using H = Vec<8>::B;
  return JoinHalves<Vec<16>::B>(UnpackHigh(HalfOf<H>(a, 0), HalfOf<H>(b, 0)),
                                UnpackHigh(HalfOf<H>(a, 1), HalfOf<H>(b, 1)));
}
inline Vec<16>::I MulPairs(Vec<16>::W a, Vec<16>::W b) {
  using H = Vec<8>::W;
  return JoinHalves<Vec<16>::I>(MulPairs(HalfOf<H>(a, 0), HalfOf<H>(b, 0)), MulPairs(HalfOf<H>(a, 1), HalfOf<H>(b, 1)));
}
inline Vec<16>::I RoundToInt(Vec<16>::F a) {
  using H = Vec<8>::F;
  return JoinHalves<Vec<16>::I>(RoundToInt(HalfOf<H>(a, 0)), RoundToInt(HalfOf<H>(a, 1)));
}
inline Vec<16>::B MinBytes(Vec<16>::B a, Vec<16>::B b) {
  using H = Vec<8>::B;
  return JoinHalves<Vec<16>::B>(MinBytes(HalfOf<H>(a, 0), HalfOf<H>(b, 0)), MinBytes(HalfOf<H>(a, 1), HalfOf<H>(b, 1)));
}
inline Vec<16>::B Lookup16(const uint8_t (&table)[16], Vec<16>::B index) {
  using H = Vec<8>::B;
  return JoinHalves<Vec<16>::B>(Lookup(table, HalfOf<H>(index, 0)), Lookup(table, HalfOf<H>(index, 1)));
}
template <>
inline Vec<16>::F LoadHalfFloats<16>(const void* from) {
  return JoinHalves<Vec<16>::F>(LoadHalfFloats<8>(from), LoadHalfFloats<8>(static_cast<const char*>(from) + 16));
}
template <>
inline Vec<16>::I LoadBytes<16>(const void* from) {
  return JoinHalves<Vec<16>::I>(LoadBytes<8>(from), LoadBytes<8>(static_cast<const char*>(from) + 8));
}

#endif

inline Vec<16>::B Lookup(const uint8_t (&table)[16], Vec<16>::B index) { return Lookup16(table, index); }

// sum += value * factors[0..N-1]. As an instruction of its own: where many sums fill the registers, the compiler's
// choice among the three operand orders of FMA otherwise writes over the value and spills the sums.
inline void AddProducts(Vec<8>::F& sum, Vec<8>::F value, const float* factors) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(value), "m"(*reinterpret_cast<const Vec<8>::F*>(factors)));
}
// See AddPairs above.
#if defined(__AVX512VNNI__)
inline void AddPairs(Vec<16>::I& sum, Vec<16>::W pairs, const int16_t* factors) {
  asm("vpdpwssd %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(pairs), "m"(*reinterpret_cast<const int32_t*>(factors)));
}
#else
inline void AddPairs(Vec<16>::I& sum, Vec<16>::W pairs, const int16_t* factors) {
  sum = sum + MulPairs(pairs, (Vec<16>::W)SplatInt<Vec<16>::I>(LoadVec<int32_t>(factors)));
#if defined(__AVX512BW__)
  asm("" : "+v"(sum));
#endif
}
#endif

// sum += a pair of BF16 in each lane times the two at `factors`, the pair's second product first; each is rounded to
// nearest even with what is there so far. RoundToBf16: to nearest even. Where the processor has the instructions both
// take subnormals for zero. Lookup128: table[index % 128] in each byte.
#if defined(__AVX512BF16__)
inline void AddBf16Pairs(Vec<16>::F& sum, Vec<16>::U pairs, const uint16_t* factors) {
  asm("vdpbf16ps %2%{1to16%}, %1, %0" : "+v"(sum) : "v"(pairs), "m"(*reinterpret_cast<const int32_t*>(factors)));
}
inline HalfVec<16>::U RoundToBf16(Vec<16>::F a) { return (HalfVec<16>::U)_mm512_cvtneps_pbh((__m512)a); }
inline Vec<16>::B Lookup128(const uint8_t (&table)[128], Vec<16>::B index) {
  return (Vec<16>::B)_mm512_permutex2var_epi8(_mm512_load_si512(table), (__m512i)index, _mm512_load_si512(table + 64));
}
#else
inline void AddBf16Pairs(Vec<16>::F& sum, Vec<16>::U pairs, const uint16_t* factors) {
  using F = Vec<16>::F;
  sum = MulAdd((F)(pairs & 0xffff0000u), Splat<F>(WidenBf16(factors[1])), sum);
  sum = MulAdd((F)(pairs << 16), Splat<F>(WidenBf16(factors[0])), sum);
}
inline HalfVec<16>::U RoundToBf16(Vec<16>::F a) {
  return __builtin_convertvector(RoundBitsToBf16((Vec<16>::U)a), HalfVec<16>::U);
}
inline Vec<16>::B Lookup128(const uint8_t (&table)[128], Vec<16>::B index) {
  Vec<16>::B found;
  for (int i = 0; i < 64; ++i) found[i] = table[index[i] % 128];
  return found;
}
#endif

#if defined(__AVX512BW__)
inline void AddProducts(Vec<16>::F& sum, Vec<16>::F value, const float* factors) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(value), "m"(*reinterpret_cast<const Vec<16>::F*>(factors)));
}
#else
inline void AddProducts(Vec<16>::F& sum, Vec<16>::F value, const float* factors) {
  sum = MulAdd(value, LoadVec<Vec<16>::F>(factors), sum);
}
#endif

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ISA_SIMD_X86_H_
