// The few operations that vector extensions cannot spell, for 256- and 512-bit vectors. Included only by the *_avx2.cc
// and *_avx512.cc units (and their tests), inside an anonymous namespace, so that no symbol of one level can replace
// another's. Without AVX-512 the 512-bit forms work on two halves: the same algorithm then runs, and is tested, on any
// processor with AVX2.
#ifndef HAYPILE_KERNELS_ISA_SIMD_X86_H_
#define HAYPILE_KERNELS_ISA_SIMD_X86_H_

#include <immintrin.h>

#include <cstdint>
#include <cstring>
#include <utility>

// Accumulators live in registers only if every loop over them is unrolled.
#define HAYPILE_UNROLL _Pragma("GCC unroll 16")
#define HAYPILE_NO_UNROLL _Pragma("GCC unroll 1")

namespace haypile {
namespace {

template <int N>
struct Vec;  // N lanes of 32 bits

#define HAYPILE_DEFINE_VEC(N)                               \
  template <>                                               \
  struct Vec<N> {                                           \
    typedef float F __attribute__((vector_size(4 * N)));    \
    typedef int32_t I __attribute__((vector_size(4 * N)));  \
    typedef uint32_t U __attribute__((vector_size(4 * N))); \
    typedef uint8_t B __attribute__((vector_size(4 * N)));  \
    typedef int8_t S __attribute__((vector_size(4 * N)));   \
    typedef int16_t W __attribute__((vector_size(4 * N)));  \
  }
HAYPILE_DEFINE_VEC(8);
HAYPILE_DEFINE_VEC(16);
#undef HAYPILE_DEFINE_VEC

// Asks for the cache line of `at`. Not __builtin_prefetch: GCC takes a function that does nothing else for one without
// effects, and leaves out calls of it that it does not inline.
inline void PrefetchLine(const uint8_t* at) { asm volatile("prefetcht0 %0" : : "m"(*at)); }

template <typename V>
inline V LoadVec(const void* from) {
  V value;
  std::memcpy(&value, from, sizeof(V));
  return value;
}

template <typename V>
inline void StoreVec(void* to, V value) {
  std::memcpy(to, &value, sizeof(V));
}

template <typename F>
inline F Splat(float value) {
  return value - F{};  // x - 0 is x, also for -0: nothing is computed
}

// The lanes moved down by kBy, around the end.
template <int kBy, typename F, size_t... kLane>
inline F RotateLanes(F value, std::index_sequence<kLane...>) {
  return __builtin_shufflevector(value, value, (kLane + kBy) % sizeof...(kLane)...);
}
// The largest lane of lanes without NaN, and the sum of all, by halves.
template <int N>
inline float MaxLane(typename Vec<N>::F value) {
  const auto step = [](auto v, auto w) { return v > w ? v : w; };
  constexpr auto kLanes = std::make_index_sequence<N>();
  if constexpr (N == 16) value = step(value, RotateLanes<8>(value, kLanes));
  value = step(value, RotateLanes<4>(value, kLanes));
  value = step(value, RotateLanes<2>(value, kLanes));
  return step(value, RotateLanes<1>(value, kLanes))[0];
}
template <int N>
inline float SumLanes(typename Vec<N>::F value) {
  constexpr auto kLanes = std::make_index_sequence<N>();
  if constexpr (N == 16) value = value + RotateLanes<8>(value, kLanes);
  value = value + RotateLanes<4>(value, kLanes);
  value = value + RotateLanes<2>(value, kLanes);
  return (value + RotateLanes<1>(value, kLanes))[0];
}

template <typename F, typename M>
inline F Select(M mask, F yes, F no) {
  return (F)((mask & (M)yes) | (~mask & (M)no));
}

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
inline Vec<8>::B MinBytes(Vec<8>::B a, Vec<8>::B b) { return (Vec<8>::B)_mm256_min_epu8((__m256i)a, (__m256i)b); }
// table[index & 15] in each byte; index bytes below 128.
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

// 2^x, within 2 units in the last place for x in [-126, 127]; 0 below -126; NaN stays NaN. Cody-Waite style: x = n + f,
// |f| <= 1/2, then the degree-7 series of 2^f (remainder below 2^-27), then n into the exponent.
template <int N>
inline typename Vec<N>::F Exp2(typename Vec<N>::F x) {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  const F low = Splat<F>(-126.0f);
  const I dead = x < low;
  const I not_a_number = x != x;
  const F clamped = x > low ? x : low;  // low for NaN too
  // Adding 1.5 * 2^23 rounds to the nearest integer and leaves it in the low mantissa bits.
  const F magic = Splat<F>(12582912.0f);
  const F shifted = clamped + magic;
  const F f = clamped - (shifted - magic);
  F p = Splat<F>(1.5252734e-5f);
  p = MulAdd(p, f, Splat<F>(1.5403530e-4f));
  p = MulAdd(p, f, Splat<F>(1.3333558e-3f));
  p = MulAdd(p, f, Splat<F>(9.6181291e-3f));
  p = MulAdd(p, f, Splat<F>(5.5504109e-2f));
  p = MulAdd(p, f, Splat<F>(2.4022651e-1f));
  p = MulAdd(p, f, Splat<F>(6.9314718e-1f));
  p = MulAdd(p, f, Splat<F>(1.0f));
  const F scaled = (F)((I)p + ((I)shifted << 23));
  return (F)(((I)scaled & ~dead) | not_a_number);  // a mask of ones is a NaN
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

template <int N>
struct HalfVec;  // N lanes of 16 bits
template <>
struct HalfVec<8> {
  typedef uint16_t U __attribute__((vector_size(16)));
};
template <>
struct HalfVec<16> {
  typedef uint16_t U __attribute__((vector_size(32)));
};

// N BF16 values as FP32.
template <int N>
inline typename Vec<N>::F LoadBf16(const uint16_t* from) {
  using U = typename Vec<N>::U;
  return (typename Vec<N>::F)(__builtin_convertvector(LoadVec<typename HalfVec<N>::U>(from), U) << 16);
}
inline float WidenBf16(uint16_t bf16) { return __builtin_bit_cast(float, uint32_t{bf16} << 16); }

// sum += value * factors[0..N-1]. As an instruction of its own: where many sums fill the registers, the compiler's
// choice among the three operand orders of FMA otherwise writes over the value and spills the sums.
inline void AddProducts(Vec<8>::F& sum, Vec<8>::F value, const float* factors) {
  asm("vfmadd231ps %2, %1, %0" : "+x"(sum) : "x"(value), "m"(*reinterpret_cast<const Vec<8>::F*>(factors)));
}
#if defined(__AVX512BW__)
inline void AddProducts(Vec<16>::F& sum, Vec<16>::F value, const float* factors) {
  asm("vfmadd231ps %2, %1, %0" : "+v"(sum) : "v"(value), "m"(*reinterpret_cast<const Vec<16>::F*>(factors)));
}
#else
inline void AddProducts(Vec<16>::F& sum, Vec<16>::F value, const float* factors) {
  sum = MulAdd(value, LoadVec<Vec<16>::F>(factors), sum);
}
#endif

template <typename B>
inline B MaxBytes(B a, B b) {
  return a > b ? a : b;
}
// Whether any byte is not zero.
template <typename B>
inline bool AnyByte(B value) {
  uint64_t words[sizeof(B) / 8], any = 0;
  std::memcpy(words, &value, sizeof(B));
  for (const uint64_t word : words) any |= word;
  return any != 0;
}

// Four floats repeated over N lanes.
template <int N>
inline typename Vec<N>::F Repeat128(const float* from) {
  typedef float Four __attribute__((vector_size(16)));
  const Four four = LoadVec<Four>(from);
  if constexpr (N == 8) {
    return __builtin_shufflevector(four, four, 0, 1, 2, 3, 0, 1, 2, 3);
  } else {
    return __builtin_shufflevector(four, four, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  }
}
// Of every pair of lanes the even (odd) one, twice.
inline Vec<8>::F EvenTwice(Vec<8>::F v) { return __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6); }
inline Vec<8>::F OddTwice(Vec<8>::F v) { return __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7); }
inline Vec<16>::F EvenTwice(Vec<16>::F v) {
  return __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14);
}
inline Vec<16>::F OddTwice(Vec<16>::F v) {
  return __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);
}
// In-lane interleave of 32-bit elements: a0 b0 a1 b1 (a2 b2 a3 b3) of each 128-bit lane.
inline Vec<8>::F InterleaveLow(Vec<8>::F a, Vec<8>::F b) {
  return __builtin_shufflevector(a, b, 0, 8, 1, 9, 4, 12, 5, 13);
}
inline Vec<8>::F InterleaveHigh(Vec<8>::F a, Vec<8>::F b) {
  return __builtin_shufflevector(a, b, 2, 10, 3, 11, 6, 14, 7, 15);
}
inline Vec<16>::F InterleaveLow(Vec<16>::F a, Vec<16>::F b) {
  return __builtin_shufflevector(a, b, 0, 16, 1, 17, 4, 20, 5, 21, 8, 24, 9, 25, 12, 28, 13, 29);
}
inline Vec<16>::F InterleaveHigh(Vec<16>::F a, Vec<16>::F b) {
  return __builtin_shufflevector(a, b, 2, 18, 3, 19, 6, 22, 7, 23, 10, 26, 11, 27, 14, 30, 15, 31);
}

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ISA_SIMD_X86_H_
