// Vectors of 4, 8 and 16 lanes of 32 bits, and what vector extensions alone say about them. Included only by per-ISA
// units (and their tests), through simd.h, inside an anonymous namespace, so that no symbol of one level can replace
// another's.
#ifndef HAYPILE_KERNELS_ISA_VEC_H_
#define HAYPILE_KERNELS_ISA_VEC_H_

#include <cstdint>
#include <cstring>
#include <utility>

// Accumulators live in registers only if every loop over them is unrolled.
#define HAYPILE_UNROLL _Pragma("GCC unroll 16")
#define HAYPILE_NO_UNROLL _Pragma("GCC unroll 1")
// Loops over blocks, with long bodies: a test that emulates wide vectors keeps them, or its compiler takes minutes.
#if defined(HAYPILE_EMULATES_WIDE_VECTORS)
#define HAYPILE_UNROLL_BLOCKS HAYPILE_NO_UNROLL
#else
#define HAYPILE_UNROLL_BLOCKS HAYPILE_UNROLL
#endif

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
HAYPILE_DEFINE_VEC(4);
HAYPILE_DEFINE_VEC(8);
HAYPILE_DEFINE_VEC(16);
#undef HAYPILE_DEFINE_VEC

template <int N>
struct HalfVec;  // N lanes of 16 bits
template <>
struct HalfVec<4> {
  typedef uint16_t U __attribute__((vector_size(8)));
  typedef int16_t W __attribute__((vector_size(8)));
};
template <>
struct HalfVec<8> {
  typedef uint16_t U __attribute__((vector_size(16)));
  typedef int16_t W __attribute__((vector_size(16)));
};
template <>
struct HalfVec<16> {
  typedef uint16_t U __attribute__((vector_size(32)));
  typedef int16_t W __attribute__((vector_size(32)));
};

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
template <typename I>
inline I SplatInt(int32_t value) {
  return value + I{};
}
// The largest lane (of floats without NaN), and the sum of all, by halves.
template <int N, typename V>
inline auto MaxLane(V value) {
  const auto step = [](auto v, auto w) { return v > w ? v : w; };
  constexpr auto kLanes = std::make_index_sequence<N>();
  if constexpr (N >= 16) value = step(value, RotateLanes<8>(value, kLanes));
  if constexpr (N >= 8) value = step(value, RotateLanes<4>(value, kLanes));
  value = step(value, RotateLanes<2>(value, kLanes));
  return step(value, RotateLanes<1>(value, kLanes))[0];
}
template <int N, typename V>
inline auto SumLanes(V value) {
  constexpr auto kLanes = std::make_index_sequence<N>();
  if constexpr (N >= 16) value = value + RotateLanes<8>(value, kLanes);
  if constexpr (N >= 8) value = value + RotateLanes<4>(value, kLanes);
  value = value + RotateLanes<2>(value, kLanes);
  return (value + RotateLanes<1>(value, kLanes))[0];
}

template <typename F, typename M>
inline F Select(M mask, F yes, F no) {
  return (F)((mask & (M)yes) | (~mask & (M)no));
}

inline float WidenBf16(uint16_t bf16) { return __builtin_bit_cast(float, uint32_t{bf16} << 16); }

// FP32 numbers, as bits, rounded to BF16 in the low halves: to nearest even; NaN stays NaN.
template <typename U>
inline U RoundBitsToBf16(U bits) {
  const U rounded = (bits + 0x7fff + ((bits >> 16) & 1)) >> 16;
  const U quiet = (bits >> 16) | 0x40;
  const U is_nan = (U)((bits & 0x7fffffffu) > 0x7f800000u);
  return (is_nan & quiet) | (~is_nan & rounded);
}

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
  if constexpr (N == 4) {
    return four;
  } else if constexpr (N == 8) {
    return __builtin_shufflevector(four, four, 0, 1, 2, 3, 0, 1, 2, 3);
  } else {
    return __builtin_shufflevector(four, four, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3);
  }
}
// Of every pair of lanes the even (odd) one, twice.
inline Vec<4>::F EvenTwice(Vec<4>::F v) { return __builtin_shufflevector(v, v, 0, 0, 2, 2); }
inline Vec<4>::F OddTwice(Vec<4>::F v) { return __builtin_shufflevector(v, v, 1, 1, 3, 3); }
inline Vec<8>::F EvenTwice(Vec<8>::F v) { return __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6); }
inline Vec<8>::F OddTwice(Vec<8>::F v) { return __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7); }
inline Vec<16>::F EvenTwice(Vec<16>::F v) {
  return __builtin_shufflevector(v, v, 0, 0, 2, 2, 4, 4, 6, 6, 8, 8, 10, 10, 12, 12, 14, 14);
}
inline Vec<16>::F OddTwice(Vec<16>::F v) {
  return __builtin_shufflevector(v, v, 1, 1, 3, 3, 5, 5, 7, 7, 9, 9, 11, 11, 13, 13, 15, 15);
}
// In-lane interleave of 32-bit elements: a0 b0 a1 b1 (a2 b2 a3 b3) of each 128-bit lane.
inline Vec<4>::F InterleaveLow(Vec<4>::F a, Vec<4>::F b) { return __builtin_shufflevector(a, b, 0, 4, 1, 5); }
inline Vec<4>::F InterleaveHigh(Vec<4>::F a, Vec<4>::F b) { return __builtin_shufflevector(a, b, 2, 6, 3, 7); }
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

#endif  // HAYPILE_KERNELS_ISA_VEC_H_
