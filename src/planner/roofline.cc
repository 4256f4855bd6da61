#include "planner/roofline.h"

#include <algorithm>
#include <cmath>

namespace haypile {
namespace {

constexpr int kBlackwellSm = 100;

// Seconds that one request's token of context adds to a pass.
double SecondsPerToken(const RooflineInput& input) {
  return input.kv_bytes_per_token / (input.bandwidth_bytes_per_second * KvBandwidthShare(input.kv_bits));
}

}  // namespace

// vLLM blog, Llama-3.1-8B, inter-token latency over context at batch 1. H100 (3.35 TB/s): 4.37e-5 ms per token of
// 131,072 bytes in BF16 = 3.00 TB/s, 2.37e-5 ms per 65,536 bytes in FP8 = 2.77 TB/s. B200: 0.91 and 0.84 of 8 TB/s.
double KvBandwidthShare(double kv_bits) {
  if (kv_bits > 8.9) return 0.90;
  return kv_bits > 6.0 ? 0.83 : 0.75;
}

// The same fits: intercepts 6.44 and 6.58 ms over 32 layers on the H100; on the B200 the break-even at 4,000 tokens
// leaves 0.033 ms.
double QuantizationSecondsPerLayer(double kv_bits, int sm) {
  if (kv_bits > 8.9) return 0.0;
  return sm >= kBlackwellSm ? 1.03e-6 : 4.4e-6;
}

double WeightBytesRead(const RooflineInput& input, double batch) {
  const double share = std::clamp(input.active_share, 0.0, 1.0);
  return input.weight_bytes * (1.0 - std::pow(1.0 - share, std::max(batch, 1.0)));
}

PassTime DecodePass(const RooflineInput& input, double batch, double context_tokens,
                    const std::optional<DrafterInput>& drafter) {
  PassTime pass;
  // The positions that a drafter proposes are checked in the same pass: they choose experts like a larger batch, but
  // read the same cache once.
  const double positions = drafter ? drafter->proposed_tokens + 1.0 : 1.0;
  pass.weight_seconds = WeightBytesRead(input, batch * positions) / input.bandwidth_bytes_per_second;
  const double fixed = input.fixed_bytes_per_request / input.bandwidth_bytes_per_second;
  pass.kv_seconds = batch * (context_tokens * SecondsPerToken(input) + fixed);
  pass.quantization_seconds = input.kv_layers * QuantizationSecondsPerLayer(input.kv_bits, input.sm);
  double tokens = 1.0;
  if (drafter) {
    pass.drafter_seconds = drafter->proposed_tokens * drafter->weight_bytes / input.bandwidth_bytes_per_second;
    tokens = drafter->accepted_tokens;
  }
  pass.total_seconds = pass.weight_seconds + pass.kv_seconds + pass.quantization_seconds + pass.drafter_seconds;
  pass.tokens_per_second_per_request = tokens / pass.total_seconds;
  pass.tokens_per_second = batch * pass.tokens_per_second_per_request;
  return pass;
}

std::optional<double> BreakEvenContext(const RooflineInput& baseline, const RooflineInput& candidate, double batch) {
  const double saved_per_token = batch * (SecondsPerToken(baseline) - SecondsPerToken(candidate));
  const double more = DecodePass(candidate, batch, 0.0).total_seconds - DecodePass(baseline, batch, 0.0).total_seconds;
  if (more <= 0.0 && saved_per_token >= 0.0) return 0.0;
  if (saved_per_token <= 0.0) return std::nullopt;
  return more / saved_per_token;
}

double ContextOfEqualWeightAndKvTime(const RooflineInput& input, double batch) {
  const double weights = WeightBytesRead(input, batch) / input.bandwidth_bytes_per_second;
  const double per_token = batch * SecondsPerToken(input);
  return per_token > 0.0 ? weights / per_token : 0.0;
}

}  // namespace haypile
