#include "planner/plan_job.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "planner/element_bits.h"
#include "planner/number_text.h"
#include "planner/plan_solutions.h"

namespace haypile {
namespace {

// The share of a drafter's proposals that a target takes when nobody measured it.
constexpr double kAssumedAcceptance = 0.6;

bool Grows(const LayerGeometry& layer) {
  return layer.cache == CacheKind::kFullAttention || layer.cache == CacheKind::kMla;
}

int HeadDim(const ModelGeometry& model) {
  for (const LayerGeometry& layer : model.layers) {
    if (Grows(layer) && layer.head_dim_k > 0) return layer.head_dim_k;
  }
  return model.generic_head_dim;
}

// "16 layers x 4 KV heads x (256 + 256) x 8 bits" for each shape of growing layer; empty unless the product is what the
// engine counts, which padding, skipped layers and side caches change.
std::string BytesFrom(const PlanJob& job, const PoolPlan& pool, std::optional<double> bits) {
  if (!bits || pool.refused) return "";
  std::map<std::string, int> counts;
  double total = 0.0;
  for (const LayerGeometry& layer : job.model.layers) {
    if (!Grows(layer)) continue;
    const bool mla = layer.cache == CacheKind::kMla;
    const int heads = std::max(1, layer.kv_heads / job.request.tensor_parallel);
    const int elements = mla ? layer.kv_lora_rank + layer.rope_dim : heads * (layer.head_dim_k + layer.head_dim_v);
    total += elements * *bits / 8.0;
    ++counts[mla ? fmt::format("({} + {})", layer.kv_lora_rank, layer.rope_dim)
                 : fmt::format("{} KV heads x ({} + {})", heads, layer.head_dim_k, layer.head_dim_v)];
  }
  if (std::llround(total) != pool.bytes_per_token) return "";
  std::string text;
  for (const auto& [shape, count] : counts) {
    text += fmt::format("{}{} layers x {} x {} bits", text.empty() ? "" : " + ", count, shape, *bits);
  }
  return text;
}

std::optional<double> BitsOf(const PlanJob& job, const PoolPlan& pool) {
  const std::string& name = pool.resolved_kv_cache_dtype.empty() ? pool.kv_cache_dtype : pool.resolved_kv_cache_dtype;
  if (auto bits = ElementBits(name, HeadDim(job.model))) return bits;
  if (name == "auto") return 8.0 * job.model.model_dtype_bytes;
  return ElementBits(pool.kv_cache_dtype, HeadDim(job.model));
}

// Plans a dtype; what cannot be planned becomes a refused row unless it stands alone.
Result<PoolPlan> PlanOrRefuse(const PlanJob& job, const std::string& dtype, bool alone) {
  auto plan = PlanDtype(job, dtype, std::nullopt);
  if (plan.ok() || alone || plan.error().code() != ErrorCode::kUnsupported) return plan;
  PoolPlan refused;
  refused.engine = job.request.engine;
  refused.kv_cache_dtype = refused.resolved_kv_cache_dtype = dtype;
  refused.refused = Refusal{plan.error().message(), {}};
  return refused;
}

// The plan that ratios stand on: one of the rows if it is there, else planned for that alone.
std::optional<PoolPlan> Baseline(const PlanJob& job, const std::vector<PlanRow>& rows, const std::string& dtype) {
  for (const PlanRow& row : rows) {
    if (row.pool.kv_cache_dtype == dtype) return row.pool.refused ? std::nullopt : std::optional<PoolPlan>(row.pool);
  }
  auto plan = PlanDtype(job, dtype, std::nullopt);
  if (!plan.ok() || plan->refused) return std::nullopt;
  return std::move(plan).value();
}

int64_t RequestTokens(const PoolPlan& pool) { return pool.max_model_len > 0 ? pool.max_model_len : pool.pool_tokens; }

void AddRatios(const PlanJob& job, std::vector<PlanRow>* rows) {
  const auto add = [&](const std::string& dtype, std::optional<PoolRatio> PlanRow::*member) {
    const std::optional<PoolPlan> base = Baseline(job, *rows, dtype);
    if (!base || base->pool_tokens <= 0) return;
    for (PlanRow& row : *rows) {
      if (row.pool.refused) continue;
      row.*member = ComparePools(*base, row.pool, BitsOf(job, *base), row.element_bits, RequestTokens(row.pool));
    }
  };
  add(SixteenBitDtype(job.request.engine), &PlanRow::to_16_bit);
  add(EightBitDtype(job.request.engine), &PlanRow::to_8_bit);
}

std::optional<double> AtLengths(const PlanJob& job, const PoolPlan& pool) {
  if (!job.lengths || pool.refused) return std::nullopt;
  // llama.cpp allocates cells by its own context size; a request takes as many as it has tokens.
  const bool by_cells = job.request.engine == EngineKind::kLlamacpp;
  return ConcurrentRequests(*job.lengths, [&](int64_t tokens) -> std::optional<double> {
    if (by_cells) return static_cast<double>(pool.pool_tokens) / static_cast<double>(tokens);
    const auto plan = PlanDtype(job, pool.kv_cache_dtype, std::nullopt, std::min(tokens, pool.max_model_len));
    if (!plan.ok() || plan->refused) return std::nullopt;
    return plan->max_concurrency;
  });
}

int LayersWithCache(const ModelGeometry& model) {
  int count = 0;
  for (const LayerGeometry& layer : model.layers) {
    count += layer.cache != CacheKind::kNone && layer.cache != CacheKind::kStateSpace;
  }
  return count;
}

RooflineInput RooflineOf(const PlanJob& job, double weight_bytes, const PoolPlan& pool, std::optional<double> bits) {
  RooflineInput input;
  input.bandwidth_bytes_per_second = job.gpu->bandwidth_bytes_per_second;
  input.weight_bytes = weight_bytes;
  const ModelGeometry& model = job.model;
  if (model.parameters > 0 && model.active_parameters > 0) {
    input.active_share = static_cast<double>(model.active_parameters) / static_cast<double>(model.parameters);
  }
  input.kv_bytes_per_token = static_cast<double>(pool.bytes_per_token);
  input.fixed_bytes_per_request = static_cast<double>(pool.bytes_per_request);
  input.kv_bits = bits.value_or(16.0);
  input.kv_layers = LayersWithCache(model);
  input.sm = job.gpu->sm;
  return input;
}

// A drafter of its own reads its weights for each proposal; multi-token-prediction layers read their share of the
// target's.
std::optional<DrafterInput> DrafterOf(const PlanJob& job, double weight_bytes) {
  if (!job.request.speculative || job.request.speculative->tokens < 1) return std::nullopt;
  const Speculative& speculative = *job.request.speculative;
  DrafterInput drafter;
  drafter.proposed_tokens = speculative.tokens;
  double power = 1.0;
  drafter.accepted_tokens = 0.0;
  for (int i = 0; i <= speculative.tokens; ++i, power *= kAssumedAcceptance) drafter.accepted_tokens += power;
  if (job.accepted_tokens) drafter.accepted_tokens = *job.accepted_tokens;
  if (speculative.draft) {
    if (const auto weights = WeightBytes(*speculative.draft, "", std::nullopt); weights.ok()) {
      drafter.weight_bytes = static_cast<double>(weights->bytes) / job.request.tensor_parallel;
    }
  } else if (!job.model.mtp_layers.empty() && !job.model.layers.empty()) {
    const double layers = static_cast<double>(job.model.layers.size() + job.model.mtp_layers.size());
    drafter.weight_bytes = weight_bytes * static_cast<double>(job.model.mtp_layers.size()) / layers;
  }
  return drafter;
}

void AddRooflines(const PlanJob& job, double weight_bytes, PlanDocument* document) {
  document->drafter = DrafterOf(job, weight_bytes);
  document->accepted_tokens_assumed = document->drafter.has_value() && !job.accepted_tokens;
  const std::optional<PoolPlan> plain = Baseline(job, document->rows, SixteenBitDtype(job.request.engine));
  for (PlanRow& row : document->rows) {
    if (row.pool.refused || row.pool.bytes_per_token <= 0) continue;
    const RooflineInput input = RooflineOf(job, weight_bytes, row.pool, row.element_bits);
    const auto context = static_cast<double>(RequestTokens(row.pool));
    RowRoofline roofline;
    roofline.full_pool_requests = std::max(1.0, std::floor(row.pool.max_concurrency));
    roofline.one_request = DecodePass(input, 1.0, context, document->drafter);
    roofline.full_pool = DecodePass(input, roofline.full_pool_requests, context, document->drafter);
    if (plain && row.element_bits.value_or(16.0) < 16.0) {
      const RooflineInput base = RooflineOf(job, weight_bytes, *plain, 16.0);
      roofline.pays_from_one_request = BreakEvenContext(base, input, 1.0);
      roofline.pays_from_full_pool = BreakEvenContext(base, input, std::max(1.0, std::floor(plain->max_concurrency)));
    }
    row.roofline = roofline;
  }
}

// FP4 caches and drafters rarely meet in one engine.
void WarnOfFp4WithDrafter(const PlanJob& job, PlanRow* row) {
  if (!job.request.speculative || row->element_bits.value_or(16.0) > 6.0) return;
  if (job.request.engine == EngineKind::kVllm || job.request.engine == EngineKind::kSglang) {
    row->pool.warnings.push_back(
        "An FP4 cache together with a drafter is served by few kernels and lowers the accepted tokens; measure the "
        "acceptance before you rely on it.");
  }
}

Result<PlanRow> MakeRow(const PlanJob& job, const std::string& dtype, bool alone, bool on_cpu) {
  PlanRow row;
  HAYPILE_TRY_ASSIGN(row.pool, PlanOrRefuse(job, dtype, alone));
  if (row.pool.kv_cache_dtype.empty()) row.pool.kv_cache_dtype = dtype;
  row.element_bits = BitsOf(job, row.pool);
  row.bytes_from = BytesFrom(job, row.pool, row.element_bits);
  row.requests_at_lengths = AtLengths(job, row.pool);
  row.support = SupportOf(job.request.engine, dtype, on_cpu ? DeviceKind::kCpu : DeviceKind::kGpu, job.gpu, job.model);
  if (row.support.served == Served::kNo) row.pool.warnings.push_back(row.support.why);
  PlanRequest request = job.request;
  request.kv_cache_dtype = dtype;
  MemoryFlag memory{job.utilization, {}};
  if (!job.request.pool_includes_states && !request.pool_bytes_per_rank.empty()) {
    memory.pool_bytes = request.pool_bytes_per_rank.front();
  }
  row.flags = FlagsOf(job.model, request, memory);
  WarnOfFp4WithDrafter(job, &row);
  return row;
}

void WarnOfLengths(const PlanJob& job, PlanDocument* document) {
  if (!job.lengths || document->rows.empty()) return;
  for (const PlanRow& row : document->rows) {
    if (row.pool.refused || row.pool.max_model_len <= 0) continue;
    const double above = job.lengths->ShareAbove(row.pool.max_model_len);
    if (above > 0.0) {
      document->warnings.push_back(
          fmt::format("{:.1f} % of the requests are longer than {} tokens and would be refused; they are "
                      "counted at that length.",
                      100.0 * above, Grouped(row.pool.max_model_len)));
    }
    return;
  }
}

void WarnOfDevice(const PlanJob& job, PlanDocument* document) {
  if (document->budget && job.gpu && job.gpu->visible_bytes > 0) {
    const double visible = static_cast<double>(job.gpu->visible_bytes) / 1073741824.0;
    document->warnings.push_back(fmt::format(
        "The budget stands on {:.0f} GB, the maker's figure for {}; engines there report {:.2f} GiB ({:.1f} GB): plan "
        "with --gpu-memory {:.2f}GiB to match their logs.",
        static_cast<double>(job.gpu->memory_bytes) / 1e9, job.gpu->name, visible,
        static_cast<double>(job.gpu->visible_bytes) / 1e9, visible));
  }
}

Status CheckJob(const PlanJob& job) {
  if (job.request.tensor_parallel < 1 || job.request.pipeline_parallel < 1) {
    return Error(ErrorCode::kInvalidArgument, "--tp and --pp must be at least 1");
  }
  if (job.accepted_tokens && !job.request.speculative) {
    return Error(ErrorCode::kInvalidArgument, "--acceptance-length needs --speculative");
  }
  if (job.accepted_tokens &&
      (*job.accepted_tokens < 1.0 || *job.accepted_tokens > job.request.speculative->tokens + 1.0)) {
    return Error(ErrorCode::kInvalidArgument,
                 fmt::format("--acceptance-length: {} is not between 1 and {} (proposed tokens and the target's own)",
                             *job.accepted_tokens, job.request.speculative->tokens + 1));
  }
  return {};
}

}  // namespace

std::vector<std::string> SolveQuestions() { return {"gpus", "context", "requests", "replicas"}; }

Result<MemoryBudget> BudgetOf(const PlanJob& job, int tensor_parallel) {
  BudgetRequest request;
  request.engine = job.request.engine;
  request.version = job.request.version;
  request.device_bytes = job.gpu->memory_bytes;
  request.utilization = job.utilization;
  request.tensor_parallel = tensor_parallel;
  request.pipeline_parallel = job.request.pipeline_parallel;
  request.max_num_batched_tokens = job.request.max_num_batched_tokens.value_or(0);
  request.max_num_seqs = job.request.max_num_seqs.value_or(0);
  request.enforce_eager = job.enforce_eager;
  request.overhead_bytes = job.overhead_bytes;
  HAYPILE_TRY_ASSIGN(request.weights, WeightBytes(job.model, job.weights_dtype, job.weights_bytes));
  if (job.request.speculative && job.request.speculative->draft) {
    HAYPILE_TRY_ASSIGN(request.draft_weights, WeightBytes(*job.request.speculative->draft, "", std::nullopt));
  }
  HAYPILE_TRY_ASSIGN(MemoryBudget budget, PlanBudget(job.model, request));
  if (budget.pool_bytes > 0) return budget;
  std::string terms;
  for (const BudgetTerm& term : budget.terms) {
    terms += fmt::format("{}{} {:.2f} GB", terms.empty() ? "" : ", ", term.name, static_cast<double>(term.bytes) / 1e9);
  }
  return Error(
      ErrorCode::kOutOfBudget,
      fmt::format("no memory is left for a KV cache on {} with {} rank(s): {}; give more devices (--gpu-count), "
                  "smaller weights (--weights-dtype) or a larger share of the memory",
                  job.gpu->name, tensor_parallel * job.request.pipeline_parallel, terms));
}

Result<PoolPlan> PlanDtype(const PlanJob& job, const std::string& dtype, std::optional<int64_t> pool_bytes,
                           int64_t max_model_len) {
  PlanRequest request = job.request;
  request.kv_cache_dtype = dtype;
  if (pool_bytes) request.pool_bytes_per_rank = {*pool_bytes};
  if (max_model_len > 0) request.max_model_len = max_model_len;
  return PlanPool(job.model, request);
}

Result<PlanDocument> RunPlan(const PlanJob& asked) {
  HAYPILE_TRY(CheckJob(asked));
  PlanJob job = asked;
  PlanDocument document;
  document.tool_version = job.tool_version;
  const bool on_cpu = job.request.device == DeviceKind::kCpu || job.request.engine == EngineKind::kHaypile;
  if (job.gpu) {
    job.request.gpu_sm = job.gpu->sm;
    job.request.gpu_memory_bytes = job.gpu->memory_bytes;
    document.gpu_count = job.gpu_count;
  }
  if (job.request.pool_bytes_per_rank.empty() && job.gpu) {
    HAYPILE_TRY_ASSIGN(document.budget, BudgetOf(job, job.request.tensor_parallel));
    job.request.pool_bytes_per_rank = {document.budget->pool_bytes};
    job.request.pool_includes_states = true;
  }
  if (job.request.pool_bytes_per_rank.empty() && job.request.engine != EngineKind::kLlamacpp) {
    return Error(ErrorCode::kInvalidArgument, "give the memory to plan: --gpu NAME or --kv-cache-memory-bytes B");
  }
  std::vector<std::string> dtypes = job.dtypes;
  if (dtypes.empty()) {
    dtypes = DefaultDtypes(job.request.engine, on_cpu ? DeviceKind::kCpu : DeviceKind::kGpu, job.model);
  }
  for (const std::string& dtype : dtypes) {
    HAYPILE_TRY_ASSIGN(PlanRow row, MakeRow(job, dtype, dtypes.size() == 1, on_cpu));
    document.rows.push_back(std::move(row));
  }
  AddRatios(job, &document.rows);
  if (job.gpu) {
    const auto weights = WeightBytes(job.model, job.weights_dtype, job.weights_bytes);
    const int ranks = job.request.tensor_parallel * job.request.pipeline_parallel;
    if (weights.ok()) AddRooflines(job, static_cast<double>(weights->bytes) / ranks, &document);
  }
  WarnOfLengths(job, &document);
  WarnOfDevice(job, &document);
  HAYPILE_TRY_ASSIGN(document.solutions, SolvePlan(job, document.rows));
  document.model = std::move(job.model);
  document.request = std::move(job.request);
  document.gpu = std::move(job.gpu);
  document.lengths = std::move(job.lengths);
  return document;
}

}  // namespace haypile
