#include "planner/pool_ratio.h"

#include <fmt/format.h>

#include <cmath>

#include "planner/number_text.h"

namespace haypile {
namespace {

bool Differ(double left, double right) { return std::abs(left - right) > 0.005 * right; }

double Quotient(double above, double below) { return below > 0.0 ? above / below : 0.0; }

double RequestBytes(const PoolPlan& plan, int64_t tokens) {
  return static_cast<double>(tokens) * static_cast<double>(plan.bytes_per_token) +
         static_cast<double>(plan.bytes_per_request);
}

std::string FixedBytesSentence(const PoolPlan& base, const PoolPlan& plan, int64_t tokens, const PoolRatio& ratio) {
  return fmt::format(
      "A request of {} tokens also takes {} bytes of states and windows ({} with {}), which brings the ratio of a "
      "whole "
      "request to {:.2f}.",
      Grouped(tokens), Grouped(plan.bytes_per_request), Grouped(base.bytes_per_request), base.kv_cache_dtype,
      ratio.with_fixed_bytes);
}

std::string RoundingSentence(const PoolPlan& base, const PoolPlan& plan, double before, double after) {
  return fmt::format(
      "Whole blocks ({} tokens against {} with {}), padding and what no block fills take it from {:.2f} to {:.2f}.",
      Grouped(plan.block_size), Grouped(base.block_size), base.kv_cache_dtype, before, after);
}

}  // namespace

PoolRatio ComparePools(const PoolPlan& base, const PoolPlan& plan, std::optional<double> base_bits,
                       std::optional<double> plan_bits, int64_t request_tokens) {
  PoolRatio ratio;
  ratio.tokens = Quotient(static_cast<double>(plan.pool_tokens), static_cast<double>(base.pool_tokens));
  ratio.bytes_per_token =
      Quotient(static_cast<double>(base.bytes_per_token), static_cast<double>(plan.bytes_per_token));
  ratio.with_fixed_bytes = Quotient(RequestBytes(base, request_tokens), RequestBytes(plan, request_tokens));
  if (base_bits && plan_bits) ratio.theory = *base_bits / *plan_bits;
  const double theory = ratio.theory.value_or(ratio.bytes_per_token);
  if (!Differ(ratio.tokens, theory)) return ratio;
  const auto add = [&ratio](const std::string& sentence) {
    ratio.reason += (ratio.reason.empty() ? "" : " ") + sentence;
  };
  if (ratio.theory && Differ(ratio.bytes_per_token, theory)) {
    add(fmt::format("The formats promise {:.2f}, but a token takes {} bytes against {}: {:.2f}.", theory,
                    Grouped(plan.bytes_per_token), Grouped(base.bytes_per_token), ratio.bytes_per_token));
  }
  double so_far = ratio.bytes_per_token;
  // Where states have a pool of their own (SGLang), they take no tokens: the ratio is already explained.
  if (Differ(ratio.tokens, so_far) && Differ(ratio.with_fixed_bytes, so_far)) {
    add(FixedBytesSentence(base, plan, request_tokens, ratio));
    so_far = ratio.with_fixed_bytes;
  }
  if (Differ(ratio.tokens, so_far)) add(RoundingSentence(base, plan, so_far, ratio.tokens));
  return ratio;
}

}  // namespace haypile
