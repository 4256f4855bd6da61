// The elementwise loops with N-lane vectors: the one algorithm of the avx2, avx512 and neon units. Included only by
// per-ISA units; see elementwise_kernels.h for the contracts. A tail shorter than a vector goes through a padded copy,
// so that an element's result does not depend on where in its row it stands.
#ifndef HAYPILE_KERNELS_ELEMENTWISE_ELEMENTWISE_VECTOR_H_
#define HAYPILE_KERNELS_ELEMENTWISE_ELEMENTWISE_VECTOR_H_

#include "kernels/elementwise/elementwise_kernels.h"
#include "kernels/isa/simd.h"

namespace haypile {
namespace {

template <int N>
struct ElementwiseVector {
  using F = typename Vec<N>::F;
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
    Map(gate, up, count, [](F g, F u) { return g / (Splat<F>(1.0f) + NaturalExp<N>(-g)) * u; });
  }

  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u)).
  static void GeluTanh(float* gate, const float* up, int64_t count) noexcept {
    Map(gate, up, count, [](F g, F u) {
      const F cubic = MulAdd(g * g, Splat<F>(0.044715f), Splat<F>(1.0f));
      return g / (Splat<F>(1.0f) + NaturalExp<N>(g * cubic * Splat<F>(-1.59576912f))) * u;
    });
  }

  static void WidenScaled(const uint16_t* bf16, float scale, int64_t count, float* out) noexcept {
    int64_t i = 0;
    for (; i + N <= count; i += N) StoreVec(out + i, LoadBf16<N>(bf16 + i) * Splat<F>(scale));
    for (; i < count; ++i) out[i] = WidenBf16(bf16[i]) * scale;
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
      sum[0] += NaturalExp<N>(LoadVec<F>(x + i) - s);
      sum[1] += NaturalExp<N>(LoadVec<F>(x + i + N) - s);
    }
    for (; i < count; i += N) {
      sum[0] += NaturalExp<N>((i + N <= count ? LoadVec<F>(x + i) : LoadPart(x + i, count - i, -kInfinity)) - s);
    }
    return SumLanes(sum[0] + sum[1]);
  }

  static float Kl(const float* p, float p_lse, const float* q, float q_lse, int64_t count) noexcept {
    F sum = {};
    for (int64_t i = 0; i < count; i += N) {
      const bool full = i + N <= count;
      const F log_p = (full ? LoadVec<F>(p + i) : LoadPart(p + i, count - i, -kInfinity)) - Splat<F>(p_lse);
      const F log_q = (full ? LoadVec<F>(q + i) : LoadPart(q + i, count - i, 0)) - Splat<F>(q_lse);
      const F probability = NaturalExp<N>(log_p);
      sum += Select(probability == F{}, F{}, probability * (log_p - log_q));
    }
    return SumLanes(sum);
  }

  static void Exp(const float* x, int64_t count, float* out) noexcept {
    int64_t i = 0;
    for (; i + N <= count; i += N) StoreVec(out + i, NaturalExp<N>(LoadVec<F>(x + i)));
    if (i < count) StorePart(out + i, count - i, NaturalExp<N>(LoadPart(x + i, count - i, 0)));
  }

  static constexpr ElementwiseKernels Table() {
    return {RmsNormRow, Add, Silu, GeluTanh, WidenScaled, Rotate, Max, SumExp, Kl, Exp};
  }
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ELEMENTWISE_ELEMENTWISE_VECTOR_H_
