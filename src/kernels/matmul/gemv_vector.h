// The GEMV with N-lane vectors: the one algorithm of the avx2, avx512 and neon units. Included only by per-ISA units;
// see gemv.h for the contract.
//
// Two neighbouring BF16 weights are one 32-bit lane: shifting left by 16 leaves the even one as FP32, masking the low
// half leaves the odd one. So x is kept in blocks of 2 N as [even elements][odd elements], and widening costs one load
// and two cheap operations for 2 N weights. Elements past the last whole block keep their order.
#ifndef HAYPILE_KERNELS_MATMUL_GEMV_VECTOR_H_
#define HAYPILE_KERNELS_MATMUL_GEMV_VECTOR_H_

#include <utility>

#include "kernels/isa/simd.h"
#include "kernels/matmul/gemv.h"

namespace haypile {
namespace {

template <int N>
struct GemvVector {
  using F = typename Vec<N>::F;
  using U = typename Vec<N>::U;
  using Half = typename HalfVec<N>::U;
  static constexpr int64_t kBlock = 2 * N;
  // Room for the outputs of a tile (8 at most) in whole vectors.
  static constexpr int kOutputLanes = N < 8 ? 8 : N;
  // Sums in turn of each output: at least eight partial sums, to keep rounding and latency down.
  static constexpr int kChains = N < 8 ? 2 : 1;

  // Lane j: the sum of the two lanes of a (of b, where j has bit S set) that differ from j at most in bit S.
  template <int S, int... J>
  static F PairSum(F a, F b, std::integer_sequence<int, J...>) {
    return __builtin_shufflevector(a, b, ((J & S) != 0 ? N : 0) + (J & ~S)...) +
           __builtin_shufflevector(a, b, ((J & S) != 0 ? N : 0) + (J | S)...);
  }

  // Lane i: the sum of all lanes of v[i], by one tree whatever the Count; Count <= N. Overwrites v.
  template <int Count, int S = 1>
  static inline __attribute__((always_inline)) F SumEach(F* v) {
    if constexpr (S == N) {
      return v[0];
    } else {
#pragma GCC unroll 8
      for (int i = 0; 2 * i < Count; ++i) {
        v[i] = PairSum<S>(v[2 * i], v[2 * i + 1 < Count ? 2 * i + 1 : 2 * i], std::make_integer_sequence<int, N>());
      }
      return SumEach<(Count + 1) / 2, 2 * S>(v);
    }
  }

  // The sum of all lanes and chains of each of Count accumulators, to sums[0 .. Count - 1]. Overwrites acc.
  template <int Count, int First = 0>
  static inline __attribute__((always_inline)) void StoreSums(F (&acc)[kChains][Count], float (&sums)[kOutputLanes]) {
    static_assert(Count <= kOutputLanes);
    constexpr int kNow = Count - First < N ? Count - First : N;
    if constexpr (kChains == 2) {
#pragma GCC unroll 8
      for (int i = First; i < First + kNow; ++i) acc[0][i] = acc[0][i] + acc[1][i];
    }
    StoreVec(sums + First, SumEach<kNow>(acc[0] + First));
    if constexpr (First + kNow < Count) StoreSums<Count, First + kNow>(acc, sums);
  }

  // Outputs of R weight rows from `row` on and M activation rows from `first` on. Meanwhile asks for the R rows after
  // these, or for those after the task.
  template <int M, int R>
  static __attribute__((noinline)) void Tile(const GemvTask& t, int64_t row, int64_t first) {
    const int64_t k = t.k;
    const bool last = row + 2 * R > t.rows;
    const uint16_t* ahead = last && t.next_weights != nullptr ? t.next_weights : t.weights + (row + R) * k;
    const int64_t whole = k / kBlock * kBlock;
    const uint16_t* w = t.weights + row * k;
    const float* x = t.x + first * k;
    F acc[kChains][R * M] = {};
    for (int64_t j = 0; j < whole; j += kBlock) {
      F even[R], odd[R];
#pragma GCC unroll 4
      for (int r = 0; r < R; ++r) {
        const U pair = LoadVec<U>(w + r * k + j);
        __builtin_prefetch(ahead + r * k + j);
        even[r] = (F)(pair << 16);
        odd[r] = (F)(pair & 0xffff0000u);
      }
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        const F x_even = LoadVec<F>(x + m * k + j);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) acc[0][r * M + m] = MulAdd(even[r], x_even, acc[0][r * M + m]);
      }
#pragma GCC unroll 4
      for (int m = 0; m < M; ++m) {
        const F x_odd = LoadVec<F>(x + m * k + j + N);
#pragma GCC unroll 4
        for (int r = 0; r < R; ++r) {
          F& sum = acc[kChains - 1][r * M + m];
          sum = MulAdd(odd[r], x_odd, sum);
        }
      }
    }
    float sums[kOutputLanes];
    StoreSums<R * M>(acc, sums);
    for (int r = 0; r < R; ++r) {
      for (int m = 0; m < M; ++m) {
        float sum = sums[r * M + m];
        for (int64_t j = whole; j < k; ++j) sum += WidenBf16(w[r * k + j]) * x[m * k + j];
        if (t.bias != nullptr) sum += t.bias[row + r];
        t.y[(first + m) * t.y_stride + row + r] = sum;
      }
    }
  }

  // R weight rows times all activation rows, four at a time.
  template <int R>
  static void RowBlock(const GemvTask& t, int64_t row) {
    int64_t first = 0;
    if constexpr (R < 4) {
      for (; first + 4 <= t.m; first += 4) Tile<4, R>(t, row, first);
      if (t.m - first == 3) return Tile<3, R>(t, row, first);
    }
    if (t.m - first == 2) return Tile<2, R>(t, row, first);
    if (t.m - first == 1) return Tile<1, R>(t, row, first);
  }

  template <int R>
  static void AllRows(const GemvTask& t) {
    int64_t row = 0;
    for (; row + R <= t.rows; row += R) RowBlock<R>(t, row);
    for (; row < t.rows; ++row) RowBlock<1>(t, row);
  }

  // One or two activation rows leave registers for four weight rows.
  static void Run(const GemvTask& t) noexcept {
    if (t.m <= 2) return AllRows<4>(t);
    AllRows<2>(t);
  }

  static void Prepare(const float* x, int64_t k, float* prepared) noexcept {
    const int64_t whole = k / kBlock * kBlock;
    for (int64_t j = 0; j < whole; j += kBlock) {
      for (int i = 0; i < N; ++i) {
        prepared[j + i] = x[j + 2 * i];
        prepared[j + N + i] = x[j + 2 * i + 1];
      }
    }
    for (int64_t j = whole; j < k; ++j) prepared[j] = x[j];
  }

  static void Widen(const uint16_t* bf16, int64_t count, float* out) noexcept {
    int64_t i = 0;
    for (; i + N <= count; i += N) StoreVec(out + i, LoadBf16<N>(bf16 + i));
    for (; i < count; ++i) out[i] = WidenBf16(bf16[i]);
  }

  template <int... J>
  static void InterleaveLanes(U a, U b, U* low, U* high, std::integer_sequence<int, J...>) {
    *low = __builtin_shufflevector(a, b, (J / 4 * 4 + J % 4 / 2 + J % 2 * N)...);
    *high = __builtin_shufflevector(a, b, (J / 4 * 4 + J % 4 / 2 + 2 + J % 2 * N)...);
  }
  template <int... J>
  static void InterleavePairs(U a, U b, U* low, U* high, std::integer_sequence<int, J...>) {
    *low = __builtin_shufflevector(a, b, (J / 4 * 4 + J % 2 + J % 4 / 2 * N)...);
    *high = __builtin_shufflevector(a, b, (J / 4 * 4 + J % 2 + 2 + J % 4 / 2 * N)...);
  }
  // Lanes of a with bit S clear and those of b moved up to the set ones; and the other way round.
  template <int S, int... J>
  static void ExchangeLanes(U& a, U& b, std::integer_sequence<int, J...>) {
    const U first = __builtin_shufflevector(a, b, ((J & S) == 0 ? J : J - S + N)...);
    b = __builtin_shufflevector(a, b, ((J & S) == 0 ? J + S : J + N)...);
    a = first;
  }
  template <int S>
  static inline __attribute__((always_inline)) void ExchangeRows(U (&v)[N]) {
    HAYPILE_UNROLL
    for (int i = 0; i < N; ++i) {
      if ((i & S) == 0) ExchangeLanes<S>(v[i], v[i + S], std::make_integer_sequence<int, N>());
    }
  }

  // Lane j of v[i] and lane i of v[j] change places: squares of 4 by 4 first, then these among each other.
  static inline __attribute__((always_inline)) void Transpose(U (&v)[N]) {
    constexpr auto kLanes = std::make_integer_sequence<int, N>();
    HAYPILE_UNROLL
    for (int i = 0; i < N; i += 4) {
      U low[2], high[2];
      InterleaveLanes(v[i], v[i + 1], &low[0], &high[0], kLanes);
      InterleaveLanes(v[i + 2], v[i + 3], &low[1], &high[1], kLanes);
      InterleavePairs(low[0], low[1], &v[i], &v[i + 1], kLanes);
      InterleavePairs(high[0], high[1], &v[i + 2], &v[i + 3], kLanes);
    }
    if constexpr (N >= 8) ExchangeRows<4>(v);
    if constexpr (N >= 16) ExchangeRows<8>(v);
  }

  // N rows at a time, two of their numbers in a lane.
  static void Pack(const uint16_t* weights, int64_t stride, int64_t rows, int64_t k, int64_t block,
                   float* packed) noexcept {
    if (block % N != 0) return kGemvScalar.pack(weights, stride, rows, k, block, packed);
    for (int64_t row = 0; row < rows; row += N) {
      float* to = packed + row / block * block * k + row % block;
      for (int64_t j = 0; j < k; j += 2 * N) {
        U pairs[N];
        HAYPILE_UNROLL
        for (int i = 0; i < N; ++i) pairs[i] = LoadVec<U>(weights + (row + i) * stride + j);
        Transpose(pairs);
        HAYPILE_UNROLL
        for (int i = 0; i < N; ++i, to += 2 * block) {
          StoreVec(to, pairs[i] << 16);
          StoreVec(to + block, pairs[i] & 0xffff0000u);
        }
      }
    }
  }

  static void SplitLanes(F x, uint16_t* high, uint16_t* middle, uint16_t* low) {
    const U first = RoundBitsToBf16((U)x);
    const U finite = (U)(((first << 16) & 0x7f800000u) != 0x7f800000u);
    const F rest = x - (F)(first << 16);
    const U second = RoundBitsToBf16((U)rest);
    StoreVec(high, __builtin_convertvector(first, Half));
    StoreVec(middle, __builtin_convertvector(second & finite, Half));
    StoreVec(low, __builtin_convertvector(RoundBitsToBf16((U)(rest - (F)(second << 16))) & finite, Half));
  }

  static void Split(const float* x, int64_t count, uint16_t* high, uint16_t* middle, uint16_t* low) noexcept {
    int64_t i = 0;
    for (; i + N <= count; i += N) SplitLanes(LoadVec<F>(x + i), high + i, middle + i, low + i);
    if (i == count) return;
    float rest[N] = {};
    uint16_t parts[3][N];
    const auto left = static_cast<size_t>(count - i);
    std::memcpy(rest, x + i, left * sizeof(float));
    SplitLanes(LoadVec<F>(rest), parts[0], parts[1], parts[2]);
    std::memcpy(high + i, parts[0], left * sizeof(uint16_t));
    std::memcpy(middle + i, parts[1], left * sizeof(uint16_t));
    std::memcpy(low + i, parts[2], left * sizeof(uint16_t));
  }

  static constexpr GemvKernels Table() { return {Prepare, Run, Widen, Pack, Split}; }
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_MATMUL_GEMV_VECTOR_H_
