#include "planner/plan_document.h"

#include <fmt/format.h>

#include <cmath>

#include "base/json.h"

namespace haypile {
namespace {

template <typename T>
Json OrNull(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json Number(double value) { return std::isfinite(value) ? Json(value) : Json(nullptr); }

Json RatioJson(const std::optional<PoolRatio>& ratio) {
  if (!ratio) return nullptr;
  return {{"tokens", Number(ratio->tokens)},
          {"theory", OrNull(ratio->theory)},
          {"bytes_per_token", Number(ratio->bytes_per_token)},
          {"with_fixed_bytes", Number(ratio->with_fixed_bytes)},
          {"reason", ratio->reason}};
}

Json PassJson(const PassTime& pass, double requests) {
  return {{"requests", requests},
          {"weight_ms", pass.weight_seconds * 1e3},
          {"kv_ms", pass.kv_seconds * 1e3},
          {"quantization_ms", pass.quantization_seconds * 1e3},
          {"drafter_ms", pass.drafter_seconds * 1e3},
          {"pass_ms", pass.total_seconds * 1e3},
          {"tokens_per_second_per_request", pass.tokens_per_second_per_request},
          {"tokens_per_second", pass.tokens_per_second}};
}

Json RooflineJson(const std::optional<RowRoofline>& roofline) {
  if (!roofline) return nullptr;
  return {{"one_request", PassJson(roofline->one_request, 1.0)},
          {"full_pool", PassJson(roofline->full_pool, roofline->full_pool_requests)},
          {"pays_from_context_one_request", OrNull(roofline->pays_from_one_request)},
          {"pays_from_context_full_pool", OrNull(roofline->pays_from_full_pool)}};
}

Json RefusedJson(const std::optional<Refusal>& refused) {
  if (!refused) return nullptr;
  return {{"reason", refused->reason}, {"estimated_max_model_len", OrNull(refused->estimated_max_model_len)}};
}

const char* ServedName(Served served) {
  switch (served) {
    case Served::kYes:
      return "yes";
    case Served::kNo:
      return "no";
    case Served::kUnknown:
      break;
  }
  return "unknown";
}

double PerGb(const PoolPlan& pool) {
  return pool.pool_bytes > 0 ? static_cast<double>(pool.pool_tokens) / static_cast<double>(pool.pool_bytes) * 1e9 : 0.0;
}

Json SharesJson(const PoolPlan& pool) {
  Json shares = Json::array();
  for (const ByteShare& share : pool.shares) shares.push_back({{"what", share.what}, {"bytes", share.bytes}});
  return shares;
}

Json DerivationJson(const PoolPlan& pool) {
  Json steps = Json::array();
  for (const DerivationStep& step : pool.derivation) {
    steps.push_back(
        {{"what", step.what}, {"formula", step.formula}, {"substituted", step.substituted}, {"value", step.value}});
  }
  return steps;
}

Json RowJson(const PlanRow& row) {
  const PoolPlan& pool = row.pool;
  Json json;
  json["engine"] = EngineName(pool.engine);
  json["kv_cache_dtype"] = pool.kv_cache_dtype;
  json["resolved_kv_cache_dtype"] = pool.resolved_kv_cache_dtype;
  json["bytes_per_token"] = pool.bytes_per_token;
  json["bytes_per_token_from"] = row.bytes_from;
  json["bytes_per_request"] = pool.bytes_per_request;
  json["element_bits"] = OrNull(row.element_bits);
  json["pool_bytes"] = pool.pool_bytes;
  json["used_bytes"] = pool.used_bytes;
  json["block_size"] = pool.block_size;
  json["num_blocks"] = pool.num_blocks;
  json["pool_tokens"] = pool.pool_tokens;
  json["tokens_per_gb"] = PerGb(pool);
  json["max_model_len"] = pool.max_model_len;
  json["max_concurrency"] = Number(pool.max_concurrency);
  json["requests_at_lengths"] = OrNull(row.requests_at_lengths);
  json["refused"] = RefusedJson(pool.refused);
  json["ratio_to_16_bit"] = RatioJson(row.to_16_bit);
  json["ratio_to_8_bit"] = RatioJson(row.to_8_bit);
  json["served"] = {
      {"answer", ServedName(row.support.served)}, {"why", row.support.why}, {"source", row.support.source}};
  json["log_lines"] = pool.log_lines;
  json["flags"] = row.flags.start;
  json["roll_back"] = row.flags.roll_back;
  json["warnings"] = pool.warnings;
  json["shares"] = SharesJson(pool);
  json["derivation"] = DerivationJson(pool);
  json["roofline"] = RooflineJson(row.roofline);
  return json;
}

Json ModelJson(const ModelGeometry& model) {
  return {{"name", model.name},
          {"architecture", model.architecture},
          {"layers", LayerSummary(model)},
          {"max_positions", model.max_positions},
          {"parameters", model.parameters},
          {"checkpoint_kv_cache_dtype", model.checkpoint_kv_dtype}};
}

Json BudgetJson(const std::optional<MemoryBudget>& budget) {
  if (!budget) return nullptr;
  Json terms = Json::array();
  for (const BudgetTerm& term : budget->terms) {
    terms.push_back(
        {{"name", term.name}, {"bytes", term.bytes}, {"source", TermSourceName(term.source)}, {"note", term.note}});
  }
  return {{"pool_bytes", budget->pool_bytes}, {"terms", terms}};
}

Json DeviceJson(const PlanDocument& document) {
  if (!document.gpu) return nullptr;
  const GpuSpec& gpu = *document.gpu;
  return {{"name", gpu.name},
          {"count", document.gpu_count},
          {"memory_bytes", gpu.memory_bytes},
          {"bandwidth_bytes_per_second", gpu.bandwidth_bytes_per_second},
          {"sm", gpu.sm},
          {"architecture", gpu.architecture},
          {"source", gpu.source}};
}

Json LengthsJson(const std::optional<LengthDistribution>& lengths) {
  if (!lengths) return nullptr;
  return {{"mean_tokens", lengths->MeanTokens()}, {"longest_tokens", lengths->LongestTokens()}};
}

Json SolutionsJson(const std::vector<PlanSolution>& solutions) {
  Json json = Json::array();
  for (const PlanSolution& solution : solutions) {
    json.push_back({{"question", solution.question},
                    {"kv_cache_dtype", solution.kv_cache_dtype},
                    {"answer", OrNull(solution.answer)},
                    {"answer_after_roll_back", OrNull(solution.answer_after_roll_back)},
                    {"text", solution.text}});
  }
  return json;
}

std::string LayerText(const LayerGeometry& layer) {
  std::string name = CacheKindName(layer.cache);
  switch (layer.cache) {
    case CacheKind::kStateSpace:
      return StateKindName(layer.state.kind);
    case CacheKind::kMla:
      name += fmt::format(" ({} + {}", layer.kv_lora_rank, layer.rope_dim);
      if (layer.index_head_dim > 0) name += fmt::format(", indexer {}", layer.index_head_dim);
      return name + ")";
    case CacheKind::kNone:
      return layer.kv_shared_with >= 0 ? "reading another layer's cache" : "without a cache";
    default:
      break;
  }
  const std::string head = layer.head_dim_k == layer.head_dim_v
                               ? fmt::format("{}", layer.head_dim_k)
                               : fmt::format("({} K, {} V)", layer.head_dim_k, layer.head_dim_v);
  name += fmt::format(" ({} KV heads x {}", layer.kv_heads, head);
  return name + (layer.window > 0 ? fmt::format(", {} tokens)", layer.window) : ")");
}

}  // namespace

std::vector<std::string> LayerSummary(const ModelGeometry& model) {
  std::vector<std::pair<std::string, int>> counts;
  for (const LayerGeometry& layer : model.layers) {
    const std::string text = LayerText(layer);
    auto found = counts.begin();
    while (found != counts.end() && found->first != text) ++found;
    if (found == counts.end()) {
      counts.emplace_back(text, 1);
    } else {
      ++found->second;
    }
  }
  std::vector<std::string> lines;
  for (const auto& [text, count] : counts) lines.push_back(fmt::format("{} {}", count, text));
  return lines;
}

Json ToJson(const PlanDocument& document) {
  const PlanRequest& request = document.request;
  Json json;
  json["schema"] = "haypile.plan/1";
  json["tool_version"] = document.tool_version;
  json["model"] = ModelJson(document.model);
  json["engine"] = EngineName(request.engine);
  json["engine_version"] = request.version.Text();
  json["device"] = DeviceJson(document);
  json["parallel"] = {{"tensor", request.tensor_parallel},
                      {"pipeline", request.pipeline_parallel},
                      {"decode_context", request.decode_context_parallel},
                      {"data", request.data_parallel}};
  json["memory"] = BudgetJson(document.budget);
  json["lengths"] = LengthsJson(document.lengths);
  json["plans"] = Json::array();
  for (const PlanRow& row : document.rows) json["plans"].push_back(RowJson(row));
  json["solutions"] = SolutionsJson(document.solutions);
  json["warnings"] = document.warnings;
  return json;
}

}  // namespace haypile
