#include "kernels/elementwise/elementwise.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>

#include "base/check.h"
#include "kernels/elementwise/elementwise_kernels.h"

namespace haypile {
namespace {

// Elements below which waking other threads costs more than it saves, and the size of one task above.
constexpr int64_t kTaskElements = 16 << 10;

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Calls body(begin, end) over [0, count) in pieces of `step`.
template <typename Body>
void SplitOverPool(int64_t count, int64_t step, ThreadPool& pool, const Body& body) {
  const auto task = [&](size_t index, int /*worker*/) {
    const int64_t begin = static_cast<int64_t>(index) * step;
    body(begin, std::min(begin + step, count));
  };
  pool.ParallelFor(CeilDiv(count, step), std::cref(task));
}

const ElementwiseKernels& Active() { return ElementwiseKernelsFor(ActiveIsa()); }

}  // namespace

const ElementwiseKernels& ElementwiseKernelsFor(Isa isa) {
#if defined(__x86_64__)
  if (IncludesAvx512(isa)) return kElementwiseAvx512;
  if (isa == Isa::kAvx2) return kElementwiseAvx2;
#elif defined(__aarch64__)
  if (isa == Isa::kNeon) return kElementwiseNeon;
#endif
  HAYPILE_CHECK(isa == Isa::kScalar);
  return kElementwiseScalar;
}

void RmsNorm(const RmsNormArgs& args, ThreadPool& pool) {
  const auto& kernels = Active();
  const int64_t n = args.n;
  SplitOverPool(args.rows, std::max<int64_t>(1, kTaskElements / n), pool, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels.rms_norm(args.x + row * n, args.weight, args.epsilon, n, args.out + row * n);
    }
  });
}

void AddInPlace(float* x, const float* y, int64_t count, ThreadPool& pool) {
  const auto& kernels = Active();
  SplitOverPool(count, kTaskElements, pool,
                [&](int64_t begin, int64_t end) { kernels.add(x + begin, y + begin, end - begin); });
}

void SiluMul(float* gate, const float* up, int64_t count, ThreadPool& pool) {
  const auto& kernels = Active();
  SplitOverPool(count, kTaskElements, pool,
                [&](int64_t begin, int64_t end) { kernels.silu_mul(gate + begin, up + begin, end - begin); });
}

void GeluTanhMul(float* gate, const float* up, int64_t count, ThreadPool& pool) {
  const auto& kernels = Active();
  SplitOverPool(count, kTaskElements, pool,
                [&](int64_t begin, int64_t end) { kernels.gelu_tanh_mul(gate + begin, up + begin, end - begin); });
}

void EmbedRows(const uint16_t* table, int64_t n, std::span<const int32_t> ids, float scale, float* out,
               ThreadPool& pool) {
  const auto& kernels = Active();
  const int64_t rows = static_cast<int64_t>(ids.size());
  SplitOverPool(rows, std::max<int64_t>(1, kTaskElements / n), pool, [&](int64_t begin, int64_t end) {
    for (int64_t row = begin; row < end; ++row) {
      kernels.widen_scaled(table + ids[row] * n, scale, n, out + row * n);
    }
  });
}

double LogSumExp(std::span<const float> x) {
  const auto& kernels = Active();
  const int64_t count = static_cast<int64_t>(x.size());
  const float max = kernels.max(x.data(), count);
  // A row of -inf alone would give -inf - -inf; one with +inf has no finite answer either.
  const float shift = std::isfinite(max) ? max : 0.0f;
  double sum = 0;
  for (int64_t i = 0; i < count; i += kShortStretch) {
    sum += kernels.sum_exp(x.data() + i, shift, std::min(kShortStretch, count - i));
  }
  return shift + std::log(sum);
}

int64_t ArgMax(std::span<const float> x) {
  const float max = Active().max(x.data(), static_cast<int64_t>(x.size()));
  const auto found = std::find(x.begin(), x.end(), max);
  return found == x.end() ? 0 : found - x.begin();
}

double KlDivergence(std::span<const float> p_logits, double p_lse, std::span<const float> q_logits, double q_lse) {
  HAYPILE_CHECK_EQ(p_logits.size(), q_logits.size());
  const auto& kernels = Active();
  const int64_t count = static_cast<int64_t>(p_logits.size());
  double sum = 0;
  for (int64_t i = 0; i < count; i += kShortStretch) {
    sum += kernels.kl(p_logits.data() + i, static_cast<float>(p_lse), q_logits.data() + i, static_cast<float>(q_lse),
                      std::min(kShortStretch, count - i));
  }
  return sum;
}

}  // namespace haypile
