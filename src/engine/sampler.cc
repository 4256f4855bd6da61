#include "engine/sampler.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace haypile {
namespace {

struct Candidate {
  float logit;
  int32_t id;
};

// A uniform double in [0, 1) from 53 random bits: the same on every standard library, unlike the distributions.
double Uniform(std::mt19937_64& random) { return static_cast<double>(random() >> 11) * 0x1p-53; }

}  // namespace

Status CheckSampling(const SamplingOptions& options) {
  if (!(options.temperature >= 0 && options.temperature <= 100)) {
    return Error(ErrorCode::kInvalidArgument, "--temperature must lie in 0 to 100");
  }
  if (!(options.top_p > 0 && options.top_p <= 1)) {
    return Error(ErrorCode::kInvalidArgument, "--top-p must lie above 0 and at most 1");
  }
  return {};
}

int32_t Argmax(std::span<const float> logits) {
  int32_t best = 0;
  float best_logit = -std::numeric_limits<float>::infinity();
  for (size_t i = 0; i < logits.size(); ++i) {
    if (logits[i] > best_logit) {
      best_logit = logits[i];
      best = static_cast<int32_t>(i);
    }
  }
  return best;
}

int32_t Sampler::Sample(std::span<const float> logits) {
  if (options_.temperature == 0) return Argmax(logits);
  std::vector<Candidate> candidates;
  candidates.reserve(logits.size());
  for (size_t i = 0; i < logits.size(); ++i) {
    if (!std::isnan(logits[i])) candidates.push_back({logits[i], static_cast<int32_t>(i)});
  }
  if (candidates.empty()) return 0;
  std::sort(candidates.begin(), candidates.end(), [](const Candidate& a, const Candidate& b) {
    return a.logit != b.logit ? a.logit > b.logit : a.id < b.id;
  });
  std::vector<double> weights(candidates.size());
  double total = 0;
  for (size_t i = 0; i < candidates.size(); ++i) {
    weights[i] = std::exp((double{candidates[i].logit} - candidates[0].logit) / options_.temperature);
    total += weights[i];
  }
  double kept = 0;
  size_t count = 0;
  while (count < weights.size() && (count == 0 || kept < options_.top_p * total)) kept += weights[count++];
  double point = Uniform(random_) * kept;
  for (size_t i = 0; i < count; ++i) {
    point -= weights[i];
    if (point < 0) return candidates[i].id;
  }
  return candidates[count - 1].id;
}

}  // namespace haypile
