// The elementwise loops with N-lane vectors: the one algorithm of the avx2 and avx512 units. Included only by per-ISA
// units; see elementwise_kernels.h for the contracts. A tail shorter than a vector goes through a padded copy, so that
// an element's result does not depend on where in its row it stands.
#ifndef HAYPILE_KERNELS_ELEMENTWISE_ELEMENTWISE_VECTOR_H_
#define HAYPILE_KERNELS_ELEMENTWISE_ELEMENTWISE_VECTOR_H_

#include "kernels/elementwise/elementwise_kernels.h"
#include "kernels/isa/simd_x86.h"

namespace haypile {
namespace {

template <int N>
struct HalfLanes;  // N lanes of 16 bits
template <>
struct HalfLanes<8> {
  typedef uint16_t U __attribute__((vector_size(16)));
};
template <>
struct HalfLanes<16> {
  typedef uint16_t U __attribute__((vector_size(32)));
};

template <int N>
struct ElementwiseVector {
  using F = typename Vec<N>::F;
  using I = typename Vec<N>::I;
  using U = typename Vec<N>::U;
  static constexpr float kInfinity = __builtin_inff();

  static F LoadPart(const float* from, int64_t count, float pad) {
    float lanes[N];
    for (int i = 0; i < N; ++i) lanes[i] = i < count ? from[i] : pad;
    return LoadVec<F>(lanes);
  }
  static void StorePart(float* to, int64_t count, F value) {
    float lanes[N];
    StoreVec(lanes, value);
    for (int i = 0; i < count; ++i) to[i] = lanes[i];
  }
  static float SumLanes(F value) {
    float lanes[N];
    StoreVec(lanes, value);
    for (int width = N / 2; width > 0; width /= 2) {
      for (int i = 0; i < width; ++i) lanes[i] += lanes[i + width];
    }
    return lanes[0];
  }

  // x[i] = f(x[i], y[i]).
  template <typename Function>
  static void Map(float* x, const float* y, int64_t count, Function f) {
    int64_t i = 0;
    for (; i + N <= count; i += N) StoreVec(x + i, f(LoadVec<F>(x + i), LoadVec<F>(y + i)));
    if (i < count) StorePart(x + i, count - i, f(LoadPart(x + i, count - i, 0), LoadPart(y + i, count - i, 0)));
  }

  // e^x within 2 units in the last place. x = n ln 2 + r with ln 2 in two parts, |r| <= ln 2 / 2; e^r by its series to
  // r^7 (remainder below 2^-27); 2^n in two steps, so that results below 2^-126 come out gradually and 2^128 is inf.
  static F ExpOf(F x) {
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
    const F result = p * PowerOfTwo(half) * PowerOfTwo(whole - half);
    return Select(x != x, x, result);
  }
  static F PowerOfTwo(I exponent) { return (F)((exponent + 127) << 23); }

  static void RmsNormRow(const float* x, const float* weight, float epsilon, int64_t n, float* out) noexcept {
    F sums[4] = {};
    int64_t i = 0;
    for (; i + 4 * N <= n; i += 4 * N) {
#pragma GCC unroll 4
      for (int part = 0; part < 4; ++part) {
        const F value = LoadVec<F>(x + i + part * N);
        sums[part] = MulAdd(value, value, sums[part]);
      }
    }
    for (; i < n; i += N) {
      const F value = i + N <= n ? LoadVec<F>(x + i) : LoadPart(x + i, n - i, 0);
      sums[0] = MulAdd(value, value, sums[0]);
    }
    const float mean = SumLanes((sums[0] + sums[1]) + (sums[2] + sums[3])) / static_cast<float>(n);
    const F scale = Splat<F>(1.0f / __builtin_sqrtf(mean + epsilon));
    i = 0;
    for (; i + N <= n; i += N) StoreVec(out + i, LoadVec<F>(x + i) * scale * LoadVec<F>(weight + i));
    if (i < n) StorePart(out + i, n - i, LoadPart(x + i, n - i, 0) * scale * LoadPart(weight + i, n - i, 0));
  }

  static void Add(float* x, const float* y, int64_t count) noexcept {
    Map(x, y, count, [](F a, F b) { return a + b; });
  }

  static void Silu(float* gate, const float* up, int64_t count) noexcept {
    Map(gate, up, count, [](F g, F u) { return g / (Splat<F>(1.0f) + ExpOf(-g)) * u; });
  }

  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)).
  static void GeluTanh(float* gate, const float* up, int64_t count) noexcept {
    Map(gate, up, count, [](F g, F u) {
      const F cubic = MulAdd(g * g, Splat<F>(0.044715f), Splat<F>(1.0f));
      return g / (Splat<F>(1.0f) + ExpOf(g * cubic * Splat<F>(-1.59576912f))) * u;
    });
  }

  static void WidenScaled(const uint16_t* bf16, float scale, int64_t count, float* out) noexcept {
    using Half = typename HalfLanes<N>::U;
    int64_t i = 0;
    for (; i + N <= count; i += N) {
      const U bits = __builtin_convertvector(LoadVec<Half>(bf16 + i), U) << 16;
      StoreVec(out + i, (F)bits * Splat<F>(scale));
    }
    for (; i < count; ++i) out[i] = __builtin_bit_cast(float, uint32_t{bf16[i]} << 16) * scale;
  }

  static void Rotate(float* x, const float* cosines, const float* sines, int64_t half) noexcept {
    int64_t i = 0;
    for (; i + N <= half; i += N) {
      const F a = LoadVec<F>(x + i), b = LoadVec<F>(x + half + i);
      const F c = LoadVec<F>(cosines + i), s = LoadVec<F>(sines + i);
      StoreVec(x + i, a * c - b * s);
      StoreVec(x + half + i, b * c + a * s);
    }
    for (; i < half; ++i) {
      const float a = x[i], b = x[i + half];
      x[i] = a * cosines[i] - b * sines[i];
      x[i + half] = b * cosines[i] + a * sines[i];
    }
  }

  static float Max(const float* x, int64_t count) noexcept {
    F max = Splat<F>(-kInfinity);
    for (int64_t i = 0; i < count; i += N) {
      const F value = i + N <= count ? LoadVec<F>(x + i) : LoadPart(x + i, count - i, -kInfinity);
      max = Select(value > max, value, max);
    }
    float lanes[N];
    StoreVec(lanes, max);
    for (int i = 1; i < N; ++i) lanes[0] = lanes[i] > lanes[0] ? lanes[i] : lanes[0];
    return lanes[0];
  }

  static float SumExp(const float* x, float shift, int64_t count) noexcept {
    F sum[2] = {};
    const F s = Splat<F>(shift);
    int64_t i = 0;
    for (; i + 2 * N <= count; i += 2 * N) {
      sum[0] += ExpOf(LoadVec<F>(x + i) - s);
      sum[1] += ExpOf(LoadVec<F>(x + i + N) - s);
    }
    for (; i < count; i += N) {
      sum[0] += ExpOf((i + N <= count ? LoadVec<F>(x + i) : LoadPart(x + i, count - i, -kInfinity)) - s);
    }
    return SumLanes(sum[0] + sum[1]);
  }

  static float Kl(const float* p, float p_lse, const float* q, float q_lse, int64_t count) noexcept {
    F sum = {};
    for (int64_t i = 0; i < count; i += N) {
      const bool full = i + N <= count;
      const F log_p = (full ? LoadVec<F>(p + i) : LoadPart(p + i, count - i, -kInfinity)) - Splat<F>(p_lse);
      const F log_q = (full ? LoadVec<F>(q + i) : LoadPart(q + i, count - i, 0)) - Splat<F>(q_lse);
      const F probability = ExpOf(log_p);
      sum += Select(probability == F{}, F{}, probability * (log_p - log_q));
    }
    return SumLanes(sum);
  }

  static void Exp(const float* x, int64_t count, float* out) noexcept {
    int64_t i = 0;
    for (; i + N <= count; i += N) StoreVec(out + i, ExpOf(LoadVec<F>(x + i)));
    if (i < count) StorePart(out + i, count - i, ExpOf(LoadPart(x + i, count - i, 0)));
  }

  static constexpr ElementwiseKernels Table() {
    return {RmsNormRow, Add, Silu, GeluTanh, WidenScaled, Rotate, Max, SumExp, Kl, Exp};
  }
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ELEMENTWISE_ELEMENTWISE_VECTOR_H_
