#include "report/compare_result.h"
#include "report/json_fields.h"

// The fields of haypile.compare/1, each once; docs/schemas/haypile.compare-1.schema.json is held to them by a test.
namespace haypile {

template <>
struct EnumValues<CompareEffort> {
  static constexpr std::array kAll{CompareEffort::kQuick, CompareEffort::kStandard, CompareEffort::kFull};
};
template <>
struct EnumValues<CompareOutcome> {
  static constexpr std::array kAll{CompareOutcome::kShip, CompareOutcome::kNoShip, CompareOutcome::kInconclusive};
};

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareOptions> auto& x) {
  visit("kv_cache_memory_bytes", x.kv_cache_memory_bytes);
  visit("max_model_len", x.max_model_len);
  visit("streams", x.streams);
  visit("effort", x.effort);
  visit("threads", x.threads);
  visit("page_tokens", x.page_tokens);
  visit("kv_cache_dtype_skip_layers", x.kv_cache_dtype_skip_layers);
  visit("kv_scales", x.kv_scales);
  visit("speed_pool_tokens", x.speed_pool_tokens);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareMachine> auto& x) {
  visit("cpu", x.cpu);
  visit("cores_used", x.cores_used);
  visit("isa", x.isa);
  visit("read_bandwidth_gb_per_s", x.read_bandwidth_gb_per_s);
  visit("memory_bytes", x.memory_bytes);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareModelFacts> auto& x) {
  visit("family", x.family);
  visit("layers", x.layers);
  visit("query_heads", x.query_heads);
  visit("kv_heads", x.kv_heads);
  visit("head_dim", x.head_dim);
  visit("parameters", x.parameters);
  visit("weight_bytes", x.weight_bytes);
  visit("context_length", x.context_length);
  visit("sliding_window", x.sliding_window);
  visit("sliding_layers", x.sliding_layers);
  visit("source", x.source);
  visit("sha256", x.sha256);
  visit("chat", x.chat);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<PrefillPoint> auto& x) {
  visit("prompt_tokens", x.prompt_tokens);
  visit("tok_per_s", x.tok_per_s);
  visit("spread", x.spread);
  visit("samples", x.samples);
  visit("clock_mhz", x.clock_mhz);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<DecodePoint> auto& x) {
  visit("streams", x.streams);
  visit("depth", x.depth);
  visit("ms_per_token", x.ms_per_token);
  visit("spread", x.spread);
  visit("samples", x.samples);
  visit("clock_mhz", x.clock_mhz);
  visit("kv_gb_per_s", x.kv_gb_per_s);
  visit("share_of_bandwidth", x.share_of_bandwidth);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareSpeed> auto& x) {
  visit("prefill", x.prefill);
  visit("decode", x.decode);
  visit("slope_us_per_1k_tokens", x.slope_us_per_1k_tokens);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<TextCost> auto& x) {
  visit("text", x.text);
  visit("tokens", x.tokens);
  visit("perplexity", x.perplexity);
  visit("baseline_perplexity", x.baseline_perplexity);
  visit("mean_kl", x.mean_kl);
  visit("top1_agreement", x.top1_agreement);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<ContextBucket> auto& x) {
  visit("from", x.from);
  visit("to", x.to);
  visit("tokens", x.tokens);
  visit("mean_kl", x.mean_kl);
  visit("kl_stderr", x.kl_stderr);
  visit("top1_agreement", x.top1_agreement);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<RecallPoint> auto& x) {
  visit("depth_fraction", x.depth_fraction);
  visit("context_tokens", x.context_tokens);
  visit("passed", x.passed);
  visit("total", x.total);
  visit("wilson_low", x.wilson_low);
  visit("wilson_high", x.wilson_high);
  visit("baseline_passed", x.baseline_passed);
  visit("tells_nothing", x.tells_nothing);
  visit("reason", x.reason);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<GoldenPrompt> auto& x) {
  visit("prompt", x.prompt);
  visit("exact", x.exact);
  visit("first_divergence", x.first_divergence);
  visit("generated_tokens", x.generated_tokens);
  visit("baseline_text", x.baseline_text);
  visit("text", x.text);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<GoldenResult> auto& x) {
  visit("prompts", x.prompts);
  visit("exact", x.exact);
  visit("first_divergence_median", x.first_divergence_median);
  visit("list", x.list);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<TaskResult> auto& x) {
  visit("name", x.name);
  visit("passed", x.passed);
  visit("total", x.total);
  visit("baseline_passed", x.baseline_passed);
  visit("tells_nothing", x.tells_nothing);
  visit("reason", x.reason);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareCost> auto& x) {
  visit("mean_kl", x.mean_kl);
  visit("kl_stderr", x.kl_stderr);
  visit("top1_agreement", x.top1_agreement);
  visit("perplexity", x.perplexity);
  visit("baseline_perplexity", x.baseline_perplexity);
  visit("tokens", x.tokens);
  visit("texts", x.texts);
  visit("buckets", x.buckets);
  visit("recall", x.recall);
  visit("golden", x.golden);
  visit("tasks", x.tasks);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareRun> auto& x) {
  visit("kv_cache_dtype", x.kv_cache_dtype);
  visit("k_scale", x.k_scale);
  visit("v_scale", x.v_scale);
  visit("bytes_per_token", x.bytes_per_token);
  visit("pool_tokens", x.pool_tokens);
  visit("requests_at_max_len", x.requests_at_max_len);
  visit("ratio_to_baseline", x.ratio_to_baseline);
  visit("ratio_in_theory", x.ratio_in_theory);
  visit("gap_reason", x.gap_reason);
  visit("speed", x.speed);
  visit("cost", x.cost);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<NoiseFloor> auto& x) {
  visit("mean_kl", x.mean_kl);
  visit("kl_stderr", x.kl_stderr);
  visit("top1_agreement", x.top1_agreement);
  visit("tokens", x.tokens);
  visit("how", x.how);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<SkippedPart> auto& x) {
  visit("what", x.what);
  visit("why", x.why);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<VerdictRow> auto& x) {
  visit("kv_cache_dtype", x.kv_cache_dtype);
  visit("outcome", x.outcome);
  visit("lines", x.lines);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareVerdict> auto& x) {
  visit("overall", x.overall);
  visit("rows", x.rows);
}

template <typename Visitor>
void Describe(Visitor& visit, FieldsOf<CompareResult> auto& x) {
  visit("model", x.model);
  visit("baseline", x.baseline);
  visit("tool_version", x.tool_version);
  visit("commit", x.commit);
  visit("started", x.started);
  visit("elapsed_s", x.elapsed_s);
  visit("complete", x.complete);
  visit("options", x.options);
  visit("machine", x.machine);
  visit("model_facts", x.model_facts);
  visit("runs", x.runs);
  visit("noise_floor", x.noise_floor);
  visit("skipped", x.skipped);
  visit("not_measured", x.not_measured);
  visit("verdict", x.verdict);
}

Json ToJson(const CompareResult& result) {
  Json json = Json::object();
  json["schema"] = std::string(kCompareSchema);
  json.update(JsonFieldWriter::Write(result));
  return json;
}

Result<CompareResult> CompareResultFromJson(const Json& json) {
  HAYPILE_TRY(CheckSchemaName(json, kCompareSchema));
  CompareResult result;
  HAYPILE_TRY(JsonFieldReader::Read(json, "", result));
  if (!result.runs.empty() && result.BaselineRun() == nullptr) {
    return Error(ErrorCode::kMalformed, "baseline: no run has the kv_cache_dtype \"" + result.baseline + "\"");
  }
  return result;
}

}  // namespace haypile
