#include "kernels/elementwise/rope.h"

#include <algorithm>
#include <cmath>
#include <functional>

#include "base/check.h"
#include "kernels/elementwise/elementwise_kernels.h"

namespace haypile {
namespace {

constexpr double kTwoPi = 2 * M_PI;
constexpr int64_t kRowsPerTask = 16;

// llama3: wavelengths shorter than original / high stay, longer than original / low are stretched by `factor`, and
// between them the two are blended.
double Llama3Frequency(double frequency, const RopeSpec& spec, double original) {
  const double wavelength = kTwoPi / frequency;
  if (wavelength < original / spec.high_freq_factor) return frequency;
  if (wavelength > original / spec.low_freq_factor) return frequency / spec.factor;
  const double smooth = (original / wavelength - spec.low_freq_factor) / (spec.high_freq_factor - spec.low_freq_factor);
  return (1 - smooth) * frequency / spec.factor + smooth * frequency;
}

// yarn: dims that turn more than beta_fast times over the original context stay, fewer than beta_slow times are
// stretched, with a linear ramp between (arXiv 2309.00071, section 3.2).
struct YarnRamp {
  double low, high;

  YarnRamp(const RopeSpec& spec, int head_dim, double original) {
    const auto dim_of = [&](double turns) {
      return head_dim * std::log(original / (turns * kTwoPi)) / (2 * std::log(spec.theta));
    };
    low = std::max(std::floor(dim_of(spec.beta_fast)), 0.0);
    high = std::min(std::ceil(dim_of(spec.beta_slow)), head_dim - 1.0);
    if (low == high) high += 0.001;
  }
  double StretchedShare(int pair) const { return std::clamp((pair - low) / (high - low), 0.0, 1.0); }
};

double YarnAttentionFactor(const RopeSpec& spec) {
  if (spec.attention_factor) return *spec.attention_factor;
  return spec.factor > 1 ? 0.1 * std::log(spec.factor) + 1 : 1;
}

}  // namespace

RopeFrequencies MakeRopeFrequencies(const RopeSpec& spec, int head_dim, int64_t max_positions) {
  HAYPILE_CHECK(head_dim % 2 == 0);
  const int half = head_dim / 2;
  const double original =
      static_cast<double>(spec.original_max_position > 0 ? spec.original_max_position : max_positions);
  RopeFrequencies rope;
  rope.frequencies.resize(half);
  if (spec.kind == RopeKind::kYarn) rope.attention_factor = static_cast<float>(YarnAttentionFactor(spec));
  for (int i = 0; i < half; ++i) {
    double frequency = std::pow(spec.theta, -2.0 * i / head_dim);
    switch (spec.kind) {
      case RopeKind::kDefault:
        break;
      case RopeKind::kLinear:
        frequency /= spec.factor;
        break;
      case RopeKind::kLlama3:
        frequency = Llama3Frequency(frequency, spec, original);
        break;
      case RopeKind::kYarn: {
        const double stretched = YarnRamp(spec, head_dim, original).StretchedShare(i);
        frequency = frequency * (1 - stretched) + frequency / spec.factor * stretched;
        break;
      }
    }
    if (!spec.frequency_factors.empty()) {
      HAYPILE_CHECK_EQ(static_cast<int>(spec.frequency_factors.size()), half);
      frequency /= spec.frequency_factors[i];
    }
    rope.frequencies[i] = static_cast<float>(frequency);
  }
  return rope;
}

void FillRopeTables(const RopeFrequencies& rope, std::span<const int64_t> positions, float* cosines, float* sines,
                    ThreadPool& pool) {
  const size_t half = rope.frequencies.size();
  const size_t tasks = (positions.size() + kRowsPerTask - 1) / kRowsPerTask;
  const auto body = [&](size_t task, int /*worker*/) {
    const size_t end = std::min<size_t>((task + 1) * kRowsPerTask, positions.size());
    for (size_t row = task * kRowsPerTask; row < end; ++row) {
      for (size_t i = 0; i < half; ++i) {
        const float angle = static_cast<float>(positions[row]) * rope.frequencies[i];
        cosines[row * half + i] = static_cast<float>(std::cos(double{angle})) * rope.attention_factor;
        sines[row * half + i] = static_cast<float>(std::sin(double{angle})) * rope.attention_factor;
      }
    }
  };
  pool.ParallelFor(tasks, std::cref(body));
}

void ApplyRope(const RopeArgs& args, ThreadPool& pool) {
  const auto& kernels = ElementwiseKernelsFor(ActiveIsa());
  const int64_t half = args.head_dim / 2;
  const auto body = [&](size_t task, int /*worker*/) {
    const int64_t end = std::min<int64_t>((static_cast<int64_t>(task) + 1) * kRowsPerTask, args.rows);
    for (int64_t row = static_cast<int64_t>(task) * kRowsPerTask; row < end; ++row) {
      for (int head = 0; head < args.heads; ++head) {
        kernels.rotate(args.x + (row * args.heads + head) * args.head_dim, args.cosines + row * half,
                       args.sines + row * half, half);
      }
    }
  };
  pool.ParallelFor((args.rows + kRowsPerTask - 1) / kRowsPerTask, std::cref(body));
}

}  // namespace haypile
