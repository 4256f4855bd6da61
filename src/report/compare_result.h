#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/json_fwd.h"
#include "base/result.h"

namespace haypile {

// The result of `haypile compare`: the JSON schema "haypile.compare/1" (docs/schemas/haypile.compare-1.schema.json,
// explained in docs/reports.md) as plain structs. Reports read nothing but this. Members bear the JSON's names.
// What was not measured is an empty optional or an empty list, never a zero. A measured value that is not finite
// (a perplexity that overflows) is NaN here and null in the JSON.
inline constexpr std::string_view kCompareSchema = "haypile.compare/1";

enum class CompareEffort { kQuick, kStandard, kFull };        // "quick", "standard", "full"
enum class CompareOutcome { kShip, kNoShip, kInconclusive };  // "ship", "no-ship", "inconclusive"

struct CompareOptions {
  int64_t kv_cache_memory_bytes = 0;
  int64_t max_model_len = 0;
  std::vector<int64_t> streams;  // concurrent sequences of the decode measurements, e.g. 1, 4, 8
  CompareEffort effort = CompareEffort::kStandard;
  int64_t threads = 0;
  int64_t page_tokens = 0;
  std::optional<std::string> kv_cache_dtype_skip_layers;  // as given on the command line
  std::optional<std::string> kv_scales;                   // file of scales, as given
  std::optional<int64_t> speed_pool_tokens;               // tokens in every dtype's pool while speed is measured

  bool operator==(const CompareOptions&) const = default;
};

struct CompareMachine {
  std::string cpu;                                // model name
  int64_t cores_used = 0;                         // logical processors the run could use
  std::string isa;                                // active kernel level, as HAYPILE_FORCE_ISA names it
  std::optional<double> read_bandwidth_gb_per_s;  // measured then and there, 1e9 bytes
  std::optional<int64_t> memory_bytes;

  bool operator==(const CompareMachine&) const = default;
};

struct CompareModelFacts {
  std::string family;  // "llama", "qwen2", "qwen3", "gemma3"
  int64_t layers = 0;
  int64_t query_heads = 0;
  int64_t kv_heads = 0;
  int64_t head_dim = 0;
  int64_t parameters = 0;
  int64_t weight_bytes = 0;               // as held in memory while running
  int64_t context_length = 0;             // the longest the model was made for
  std::optional<int64_t> sliding_window;  // tokens; absent when every layer is full
  std::optional<int64_t> sliding_layers;  // how many layers have the window
  std::optional<std::string> source;      // file or folder name, without its path
  std::optional<std::string> sha256;      // of the weight file
  bool chat = false;                      // has a chat template: chat tasks can run

  bool operator==(const CompareModelFacts&) const = default;
};

// `spread` is half the interquartile range of the samples, in the figure's own unit; the figure is their median.
struct PrefillPoint {
  int64_t prompt_tokens = 0;
  double tok_per_s = 0;
  double spread = 0;
  int64_t samples = 0;
  std::optional<double> clock_mhz;  // mean over the samples

  bool operator==(const PrefillPoint&) const = default;
};

struct DecodePoint {
  int64_t streams = 0;
  int64_t depth = 0;        // tokens in each stream's cache
  double ms_per_token = 0;  // time of one step = time per output token of each stream
  double spread = 0;
  int64_t samples = 0;
  std::optional<double> clock_mhz;
  std::optional<double> kv_gb_per_s;         // cache bytes one step reads / its time
  std::optional<double> share_of_bandwidth;  // (cache + weight bytes a step reads) / time / measured bandwidth, 0..1

  bool operator==(const DecodePoint&) const = default;
};

struct CompareSpeed {
  std::vector<PrefillPoint> prefill;
  std::vector<DecodePoint> decode;
  std::optional<double> slope_us_per_1k_tokens;  // of one stream's time per token against depth

  bool operator==(const CompareSpeed&) const = default;
};

// Teacher-forced, read through the quantized cache. KL divergences are in nats per token.
struct TextCost {
  std::string text;
  int64_t tokens = 0;
  std::optional<double> perplexity;
  std::optional<double> baseline_perplexity;
  std::optional<double> mean_kl;
  std::optional<double> top1_agreement;

  bool operator==(const TextCost&) const = default;
};

// Positions from <= position < to.
struct ContextBucket {
  int64_t from = 0;
  int64_t to = 0;
  int64_t tokens = 0;
  double mean_kl = 0;
  std::optional<double> kl_stderr;
  double top1_agreement = 0;

  bool operator==(const ContextBucket&) const = default;
};

// Planted-code recall at one depth; the interval is Wilson's at 95 %.
struct RecallPoint {
  double depth_fraction = 0;  // 0: start of the context, 1: its end
  int64_t context_tokens = 0;
  int64_t passed = 0;
  int64_t total = 0;
  double wilson_low = 0;
  double wilson_high = 1;
  std::optional<int64_t> baseline_passed;
  bool tells_nothing = false;         // the baseline never passes, or always does
  std::optional<std::string> reason;  // why it tells nothing

  bool operator==(const RecallPoint&) const = default;
};

struct GoldenPrompt {
  std::string prompt;  // its name
  bool exact = false;
  std::optional<int64_t> first_divergence;   // index of the first generated token that differs
  int64_t generated_tokens = 0;              // that were compared
  std::optional<std::string> baseline_text;  // what was generated around the divergence
  std::optional<std::string> text;

  bool operator==(const GoldenPrompt&) const = default;
};

struct GoldenResult {
  int64_t prompts = 0;
  int64_t exact = 0;
  std::optional<double> first_divergence_median;  // tokens, over the prompts that diverge
  std::vector<GoldenPrompt> list;

  bool operator==(const GoldenResult&) const = default;
};

struct TaskResult {
  std::string name;
  int64_t passed = 0;
  int64_t total = 0;
  std::optional<int64_t> baseline_passed;
  bool tells_nothing = false;  // the baseline itself cannot do it, or always does
  std::optional<std::string> reason;

  bool operator==(const TaskResult&) const = default;
};

struct CompareCost {
  std::optional<double> mean_kl;
  std::optional<double> kl_stderr;
  std::optional<double> top1_agreement;  // 0..1
  std::optional<double> perplexity;
  std::optional<double> baseline_perplexity;
  int64_t tokens = 0;  // that the figures above stand on
  std::vector<TextCost> texts;
  std::vector<ContextBucket> buckets;
  std::vector<RecallPoint> recall;
  std::optional<GoldenResult> golden;
  std::vector<TaskResult> tasks;

  bool operator==(const CompareCost&) const = default;
};

struct CompareRun {
  std::string kv_cache_dtype;  // "bf16", "q8_0/nvfp4_4over6"
  std::string k_scale;         // description, e.g. "one FP32 scale per tensor, 1.0 (default)"
  std::string v_scale;
  int64_t bytes_per_token = 0;            // all layers, K and V
  int64_t pool_tokens = 0;                // that the byte budget holds
  double requests_at_max_len = 0;         // full-length requests the pool holds at once
  double ratio_to_baseline = 1;           // of pool_tokens
  double ratio_in_theory = 1;             // of bits per token
  std::optional<std::string> gap_reason;  // why the two ratios differ
  std::optional<CompareSpeed> speed;
  std::optional<CompareCost> cost;

  bool operator==(const CompareRun&) const = default;
};

// The baseline against itself, computed in another order: what arithmetic alone does.
struct NoiseFloor {
  double mean_kl = 0;
  double top1_agreement = 1;
  std::optional<double> kl_stderr;
  int64_t tokens = 0;
  std::string how;  // e.g. "chunks of 128 tokens instead of 512"

  bool operator==(const NoiseFloor&) const = default;
};

struct SkippedPart {
  std::string what;
  std::string why;

  bool operator==(const SkippedPart&) const = default;
};

struct VerdictRow {
  std::string kv_cache_dtype;
  CompareOutcome outcome = CompareOutcome::kInconclusive;
  std::vector<std::string> lines;  // what it buys, what it costs, why this outcome

  bool operator==(const VerdictRow&) const = default;
};

struct CompareVerdict {
  std::string overall;
  std::vector<VerdictRow> rows;

  bool operator==(const CompareVerdict&) const = default;
};

struct CompareResult {
  std::string model;
  std::string baseline;  // its kv_cache_dtype; one of the runs bears it
  std::string tool_version;
  std::optional<std::string> commit;  // of the source the tool was built from
  std::string started;                // UTC, ISO 8601: "2026-11-29T12:34:56Z"
  std::optional<double> elapsed_s;
  bool complete = false;  // false: interrupted; every figure present is valid, others are missing
  CompareOptions options;
  CompareMachine machine;
  CompareModelFacts model_facts;
  std::vector<CompareRun> runs;
  std::optional<NoiseFloor> noise_floor;
  std::vector<SkippedPart> skipped;
  std::vector<std::string> not_measured;
  std::optional<CompareVerdict> verdict;

  // The run of the baseline; null when it is not there.
  const CompareRun* BaselineRun() const;

  bool operator==(const CompareResult&) const = default;
};

std::string_view NameOf(CompareEffort effort);
std::string_view NameOf(CompareOutcome outcome);

// The JSON of a result; FromJson(ToJson(r)) equals r when every number is finite.
Json ToJson(const CompareResult& result);

// kMalformed names the field: "runs[1].speed.decode[0].ms_per_token: expected a number, found a string"; kUnsupported
// when the schema is another one. Fields this version does not know are ignored.
Result<CompareResult> CompareResultFromJson(const Json& json);

}  // namespace haypile
