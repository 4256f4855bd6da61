#pragma once

#include <cstdint>
#include <optional>
#include <string>

namespace haypile {

// A decode step on one rank, bound by memory traffic: every pass reads the weights once and, for each request, its KV
// cache. Bytes are of one rank; all ranks run in step.
struct RooflineInput {
  double bandwidth_bytes_per_second = 0.0;
  double weight_bytes = 0.0;           // of this rank
  double active_share = 1.0;           // of the weights, read for one token; below 1: mixture of experts
  double kv_bytes_per_token = 0.0;     // growing part
  double fixed_bytes_per_request = 0;  // states and windows, read in each pass
  double kv_bits = 16.0;               // of one stored element: decides the efficiency below
  int kv_layers = 0;                   // layers with a KV cache: each pays a fixed cost for a quantized cache
  int sm = 0;                          // compute capability x 10; 0: unknown
};

// A draft model that proposes tokens; the target checks them all in one pass.
struct DrafterInput {
  int proposed_tokens = 0;     // per pass; the drafter runs once for each
  double accepted_tokens = 1;  // produced per pass, the target's own token included: 1 to proposed_tokens + 1
  double weight_bytes = 0.0;   // of this rank, read by each run of the drafter
};

struct PassTime {
  double weight_seconds = 0.0;
  double kv_seconds = 0.0;
  double quantization_seconds = 0.0;  // fixed cost of a quantized cache
  double drafter_seconds = 0.0;
  double total_seconds = 0.0;
  double tokens_per_second_per_request = 0.0;
  double tokens_per_second = 0.0;  // of all requests
};

// Share of the peak bandwidth that attention kernels reach when they read the cache: 0.90 for 16 bits, 0.83 for 8 (vLLM
// on an H100, from the slopes of inter-token latency over context), 0.75 for 4 (a target, not a measurement).
double KvBandwidthShare(double kv_bits);
// Fixed cost in seconds of a quantized cache per layer and pass (quantizing the query, the new rows, scales): 4.4 us on
// Hopper and below, 1.0 us on Blackwell; 0 for 16 bits. From the intercepts of the same measurements.
double QuantizationSecondsPerLayer(double kv_bits, int sm);

// Weights that a batch reads: all of a dense model; of a mixture of experts the share 1 - (1 - active)^batch, which
// takes the experts of each token as drawn independently.
double WeightBytesRead(const RooflineInput& input, double batch);

PassTime DecodePass(const RooflineInput& input, double batch, double context_tokens,
                    const std::optional<DrafterInput>& drafter = std::nullopt);

// The context from which `candidate` decodes faster than `baseline` at this batch, both without a drafter: where the
// fixed cost of the quantized cache equals the time that its smaller reads save. 0: always; empty: never.
std::optional<double> BreakEvenContext(const RooflineInput& baseline, const RooflineInput& candidate, double batch);

// The context at which reading the cache takes as long as reading the weights.
double ContextOfEqualWeightAndKvTime(const RooflineInput& input, double batch);

}  // namespace haypile
