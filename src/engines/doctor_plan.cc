#include "engines/doctor_plan.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/bytes.h"
#include "engines/doctor.h"
#include "engines/log_scan.h"
#include "planner/number_text.h"
#include "planner/pool_plan.h"

namespace haypile {
const PoolLine* PoolWithTokens(const LogRecord& log) {
  for (auto pool = log.pools.rbegin(); pool != log.pools.rend(); ++pool) {
    if (pool->tokens && pool->what != "sliding window" && pool->what != "state") return &*pool;
  }
  return nullptr;
}

std::optional<PoolBytes> PoolBytesOf(const LogRecord& log) {
  if (log.kv_cache_bytes) return PoolBytes{static_cast<double>(log.kv_cache_bytes->value), 0.0};
  std::optional<double> gib;
  for (const MemoryLine& memory : log.memory) {
    if (memory.kind == MemoryLine::Kind::kForPool) gib = std::min(gib.value_or(memory.gib), memory.gib);
  }
  if (gib && *gib > 0) return PoolBytes{*gib * kGib, 0.005 * kGib};
  double bytes = 0.0;
  for (const PoolLine& pool : log.pools) bytes += pool.bytes.value_or(0.0);
  if (bytes > 0 && log.engine != LogEngine::kVllm) return PoolBytes{bytes, 0.01 * kGib};
  return std::nullopt;
}

namespace {

std::optional<PlanRequest> RequestOf(const LogRecord& log) {
  PlanRequest request;
  switch (log.engine) {
    case LogEngine::kVllm:
      request.engine = EngineKind::kVllm;
      break;
    case LogEngine::kSglang:
      request.engine = EngineKind::kSglang;
      break;
    case LogEngine::kTrtllm:
      request.engine = EngineKind::kTrtllm;
      break;
    default:
      return std::nullopt;  // llama.cpp allocates what its context needs: nothing to compare
  }
  request.version = NewestKnownVersion(request.engine);
  if (log.version) {
    if (auto version = ParseEngineVersion(log.version->value); version.ok()) request.version = *version;
  }
  request.device = log.on_cpu ? DeviceKind::kCpu : DeviceKind::kGpu;
  request.kv_cache_dtype = log.kv_dtype_requested ? log.kv_dtype_requested->value : "auto";
  if (log.tensor_parallel)
    request.tensor_parallel = static_cast<int>(std::clamp<int64_t>(log.tensor_parallel->value, 1, 4096));
  if (log.max_model_len) request.max_model_len = log.max_model_len->value;
  request.prefix_caching = log.prefix_caching;
  if (log.max_num_seqs) request.max_num_seqs = log.max_num_seqs->value;
  return request;
}

std::optional<PoolPlan> PlanWith(const DoctorInput& input, PlanRequest request, double bytes) {
  request.pool_bytes_per_rank = {static_cast<int64_t>(bytes)};
  auto plan = PlanPool(input.checkpoint->geometry, request);
  if (!plan.ok() || plan->refused || plan->pool_tokens <= 0) return std::nullopt;
  return std::move(plan).value();
}

bool Agrees(int64_t printed, int64_t low, int64_t high, int64_t block) {
  const int64_t slack = std::max<int64_t>(block, 1);
  return printed + slack >= low && printed <= high + slack;
}

// The term that explains a printed number which is not the planned one.
struct Term {
  std::string id;  // of the finding
  std::string text;
};

// Another dtype, prefix caching the other way, or the block of the log.
std::optional<Term> ExplainedByReplan(const DoctorInput& input, const PlanRequest& request, const PoolBytes& bytes,
                                      const PoolPlan& plan, int64_t printed) {
  const auto fits = [&](const PlanRequest& other) -> std::optional<PoolPlan> {
    auto tried = PlanWith(input, other, bytes.bytes);
    if (!tried) return std::nullopt;
    const double off = std::abs(static_cast<double>(tried->pool_tokens - printed));
    return off <= 0.01 * static_cast<double>(printed) ? tried : std::nullopt;
  };
  const SaidCount& block = input.log->attention_block;
  const std::string block_text = block && plan.block_size != block->value
                                     ? fmt::format("The block size differs: {} tokens planned, {} in the log.",
                                                   Grouped(plan.block_size), Grouped(block->value))
                                     : "";
  if (!block_text.empty()) {
    PlanRequest other = request;
    other.block_size = block->value;
    if (fits(other))
      return Term{"plan.differs_by_block_size", block_text + " With that block the plan gives the printed number."};
  }
  for (const char* dtype : {"auto", "fp8", "fp8_e4m3", "nvfp4", "int8_per_token_head"}) {
    if (request.kv_cache_dtype == dtype) continue;
    PlanRequest other = request;
    other.kv_cache_dtype = dtype;
    const auto tried = fits(other);
    if (!tried || tried->bytes_per_token == plan.bytes_per_token) continue;
    return Term{
        "plan.differs_by_dtype",
        fmt::format("The number fits a cache of dtype {} ({} bytes a token instead of {}): the dtype is not the one "
                    "asked for.",
                    tried->resolved_kv_cache_dtype, Grouped(tried->bytes_per_token), Grouped(plan.bytes_per_token))};
  }
  for (const bool caching : {false, true}) {
    PlanRequest other = request;
    other.prefix_caching = caching;
    const auto tried = fits(other);
    if (!tried || tried->pool_tokens == plan.pool_tokens) continue;
    return Term{"plan.differs_by_prefix_caching",
                fmt::format("The number fits prefix caching {}: it decides how many states a request keeps.",
                            caching ? "on" : "off")};
  }
  return block_text.empty() ? std::nullopt : std::optional(Term{"plan.differs_by_block_size", block_text});
}

Term TermOf(const DoctorInput& input, const PlanRequest& request, const PoolBytes& bytes, const PoolPlan& plan,
            int64_t printed) {
  if (auto term = ExplainedByReplan(input, request, bytes, plan, printed)) return *std::move(term);
  const double gap = static_cast<double>(plan.pool_tokens - printed) * static_cast<double>(plan.bytes_per_token);
  return {
      "plan.differs_by_memory",
      fmt::format("At {} bytes a token the gap is {:.2f} GiB a rank: memory, not the cell, is the term that differs.",
                  Grouped(plan.bytes_per_token), std::abs(gap) / kGib)};
}

void AddComparison(const DoctorInput& input, const PlanRequest& request, const PoolBytes& bytes, const PoolLine& pool,
                   Findings& findings) {
  const auto plan = PlanWith(input, request, bytes.bytes);
  if (!plan) {
    findings.push_back({"plan.not_possible",
                        Severity::kUnknown,
                        "The planner cannot plan this model with what the log says, so the pool was not compared.",
                        {pool.line},
                        "A plan needs the model's layers, the dtype and the pool's bytes.",
                        {"haypile plan MODEL --explain"},
                        "the plan names a number of tokens"});
    return;
  }
  const auto low = PlanWith(input, request, bytes.bytes - bytes.error),
             high = PlanWith(input, request, bytes.bytes + bytes.error);
  const int64_t least = low ? low->pool_tokens : plan->pool_tokens, most = high ? high->pool_tokens : plan->pool_tokens;
  const int64_t printed = *pool.tokens;
  Finding finding{"plan.agrees", Severity::kGood, "", {pool.line}, "", {}, ""};
  if (Agrees(printed, least, most, plan->block_size)) {
    finding.what = fmt::format("The pool is as planned: {} tokens printed, {} planned for {} ({} bytes a token).",
                               Grouped(printed), Grouped(plan->pool_tokens), plan->resolved_kv_cache_dtype,
                               Grouped(plan->bytes_per_token));
    finding.why = "The engine allocates the dtype that was asked for, in the layers that the config names.";
  } else {
    const Term term = TermOf(input, request, bytes, *plan, printed);
    finding.id = term.id;
    finding.severity = Severity::kWarning;
    finding.what =
        fmt::format("The pool is {} than planned: {} tokens printed, {} planned ({:+.1f}%). {}",
                    printed < plan->pool_tokens ? "smaller" : "larger", Grouped(printed), Grouped(plan->pool_tokens),
                    100.0 * (static_cast<double>(printed) / static_cast<double>(plan->pool_tokens) - 1.0), term.text);
    finding.why = "A pool that is not as planned holds another dtype, other layers or less memory than believed.";
    finding.type = {"haypile plan " + input.checkpoint->folder + " --explain   # every term of the number"};
    finding.check = "the plan and the log agree to a block";
  }
  findings.push_back(std::move(finding));
}

}  // namespace

void FindPlanGap(const DoctorInput& input, Findings& findings) {
  const PoolLine* pool = PoolWithTokens(*input.log);
  if (pool == nullptr) return;
  if (input.plan != nullptr) FindPlanFileGap(input, *pool, findings);
  if (input.planned_tokens) {
    const double planned = static_cast<double>(*input.planned_tokens), printed = static_cast<double>(*pool->tokens);
    const bool agrees = std::abs(printed - planned) <= 0.01 * planned;
    std::string gib;
    for (const PoolLine& cache : input.log->pools) {
      if (!cache.bytes || !cache.tokens || *cache.tokens <= 0) continue;
      const double gap = (planned - printed) * *cache.bytes / static_cast<double>(*cache.tokens) / kGib;
      gib = fmt::format(" The gap is {:.2f} GiB.", std::abs(gap));
      if (gap > 0) gib += DrafterCause(input, gap);
      break;
    }
    findings.push_back(
        {agrees ? "plan.agrees" : "plan.differs",
         agrees ? Severity::kGood : Severity::kWarning,
         fmt::format("{} tokens printed, {} planned ({:+.1f}%).{}", Grouped(*pool->tokens),
                     Grouped(*input.planned_tokens), 100.0 * (printed / planned - 1.0), agrees ? "" : gib),
         {pool->line},
         "A pool that is not as planned holds another dtype, other layers or less memory.",
         {"haypile plan MODEL --explain"},
         "the plan and the log agree"});
  }
  if (input.checkpoint == nullptr || !input.checkpoint->geometry_known || input.log->speculative) return;
  const auto request = RequestOf(*input.log);
  const auto bytes = PoolBytesOf(*input.log);
  if (request && bytes) AddComparison(input, *request, *bytes, *pool, findings);
}

}  // namespace haypile
