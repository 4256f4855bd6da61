#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "planner/number_text.h"
#include "planner/pool_plan.h"
#include "planner/rank_layers.h"
#include "planner/trtllm_cells.h"
#include "planner/trtllm_dtypes.h"

namespace haypile {
namespace {

// The Python manager divides bytes by bytes of a block and rounds up; the older C++ one rounds tokens down first.
constexpr EngineVersion kPythonManager{1, 0, 0};

struct Stage {
  TrtllmCells cells;
  int64_t pool_bytes = 0;
  int64_t states = 0;  // fixed bytes that come off the pool
  int64_t tokens_bytes = 0;
  int64_t blocks = 0;
  bool capped = false;  // by max_tokens
};

int64_t CeilDiv(int64_t a, int64_t b) { return (a + b - 1) / b; }

Status CheckRequest(const ModelGeometry& model, const PlanRequest& request) {
  HAYPILE_TRY(CheckPoolAndRanks("TensorRT-LLM", model, request));
  const int64_t block = request.block_size.value_or(32);
  if (block < 1 || (block & (block - 1)) != 0) {
    return Error(ErrorCode::kInvalidArgument, fmt::format("tokens_per_block {}: expected a power of two", block));
  }
  return {};
}

int64_t BlocksIn(int64_t bytes, int64_t cell, int64_t block, EngineVersion version) {
  if (bytes <= 0) return 0;
  return version < kPythonManager ? CeilDiv(bytes / cell, block) : CeilDiv(bytes, cell * block);
}

Result<Stage> SizeStage(const ModelGeometry& model, const std::vector<LayerGeometry>& layers, size_t index,
                        const TrtllmDtype& dtype, const PlanRequest& request, int64_t block) {
  Stage stage;
  HAYPILE_TRY_ASSIGN(stage.cells, TrtllmCellsOfStage(model, layers, dtype, request));
  const auto& pools = request.pool_bytes_per_rank;
  stage.pool_bytes = pools[std::min(index, pools.size() - 1)];
  stage.states = stage.cells.state * request.max_num_seqs.value_or(0);
  stage.tokens_bytes = stage.pool_bytes - stage.states;
  if (stage.cells.token() == 0) return stage;
  stage.blocks = BlocksIn(stage.tokens_bytes, stage.cells.token(), block, request.version);
  if (request.max_total_tokens) {
    const int64_t most = CeilDiv(std::max<int64_t>(0, *request.max_total_tokens), block);
    stage.capped = most < stage.blocks;
    stage.blocks = std::min(stage.blocks, most);
  }
  return stage;
}

// The least stage that keeps tokens; stages of states alone follow it.
Result<Stage> LeastStage(const ModelGeometry& model, const TrtllmDtype& dtype, const PlanRequest& request,
                         int64_t block) {
  const auto stages = LayersOfStages(model, request.pipeline_parallel);
  Stage least;
  for (size_t i = 0; i < stages.size(); ++i) {
    HAYPILE_TRY_ASSIGN(Stage stage, SizeStage(model, stages[i], i, dtype, request, block));
    const bool first = least.cells.token() == 0;
    if (first || (stage.cells.token() > 0 && stage.blocks < least.blocks)) least = stage;
  }
  if (least.cells.token() == 0) {
    return Error(ErrorCode::kUnsupported, model.name + ": TensorRT-LLM's pool of a model without attention layers");
  }
  return least;
}

void AddLogLines(const TrtllmDtype& dtype, const PlanRequest& request, int64_t asked_len, PoolPlan& plan) {
  auto& lines = plan.log_lines;
  lines = dtype.log_lines;
  lines.push_back(fmt::format("Number of blocks in KV cache primary pool: {}", plan.num_blocks));
  lines.push_back(
      "Number of blocks in KV cache secondary pool: 0, onboard blocks to primary memory before reuse: true");
  if (asked_len > plan.pool_tokens) {
    lines.push_back(fmt::format("Attention window size {} exceeds upper bound {} for available blocks. Reducing to {}.",
                                asked_len, plan.pool_tokens, plan.pool_tokens));
    lines.push_back(fmt::format("Adjusted max_seq_len to {}", plan.pool_tokens));
  }
  const int64_t pages = CeilDiv(plan.max_model_len, plan.block_size);
  lines.push_back(
      request.version < kPythonManager
          ? fmt::format("Max KV cache pages per sequence: {}", pages)
          : fmt::format("Max KV cache blocks per sequence: {} [window size={}]", pages, plan.max_model_len));
  lines.push_back(fmt::format("Number of tokens per block: {}.", plan.block_size));
  lines.push_back(fmt::format(
      "[MemUsageChange] Allocated {:.2f} GiB for max tokens in paged KV cache ({}).",
      static_cast<double>(plan.used_bytes - plan.bytes_per_request * request.max_num_seqs.value_or(0)) / (1LL << 30),
      plan.pool_tokens));
}

void AddShares(const Stage& stage, PoolPlan& plan) {
  const auto add = [&](std::string what, int64_t bytes) {
    if (bytes != 0) plan.shares.push_back({std::move(what), bytes});
  };
  add(fmt::format("data, {} layers", stage.cells.layers), plan.pool_tokens * stage.cells.data);
  add("block scales, pools of their own", plan.pool_tokens * stage.cells.scales);
  add("indexer", plan.pool_tokens * stage.cells.indexer);
  add("states", stage.states);
  const int64_t rest = stage.pool_bytes - plan.used_bytes;
  add(rest < 0 ? "last block, rounded up beyond the budget" : "not used: max_tokens", rest);
}

void AddDerivation(const Stage& stage, const TrtllmDtype& dtype, const PlanRequest& request, PoolPlan& plan) {
  auto& steps = plan.derivation;
  const TrtllmCells& cells = stage.cells;
  const std::string indexer = cells.indexer > 0 ? fmt::format(" + {} of indexer", Grouped(cells.indexer)) : "";
  if (dtype.storage == TrtllmStorage::kNvfp4) {
    steps.push_back({"bytes of a token", "elements / 2 in the data pools + elements / 16 in the scale pools",
                     fmt::format("{} / 2 + {} / 16{}", Grouped(cells.elements), Grouped(cells.elements), indexer),
                     Grouped(cells.token()) + " bytes"});
  } else {
    steps.push_back({"bytes of a token", "elements of all layers x bytes",
                     fmt::format("{} x {}{}", Grouped(cells.elements), dtype.element_bytes, indexer),
                     Grouped(cells.token()) + " bytes"});
  }
  if (cells.state > 0) {
    steps.push_back({"states", "max_batch_size x state of one request",
                     fmt::format("{} x {}", request.max_num_seqs.value_or(0), Grouped(cells.state)),
                     Grouped(stage.states) + " bytes"});
  }
  steps.push_back(
      {"blocks",
       stage.capped ? "ceil(max_tokens / tokens_per_block)" : "ceil(bytes / (bytes of a token x tokens_per_block))",
       stage.capped
           ? fmt::format("ceil({} / {})", Grouped(*request.max_total_tokens), plan.block_size)
           : fmt::format("ceil({} / ({} x {}))", Grouped(stage.tokens_bytes), Grouped(cells.token()), plan.block_size),
       Grouped(plan.num_blocks)});
  steps.push_back({"tokens", "blocks x tokens_per_block",
                   fmt::format("{} x {}", Grouped(plan.num_blocks), plan.block_size), Grouped(plan.pool_tokens)});
}

void AddWarnings(const ModelGeometry& model, const Stage& stage, const TrtllmDtype& dtype, const PlanRequest& request,
                 int64_t asked_len, PoolPlan& plan) {
  auto& warnings = plan.warnings;
  warnings.insert(warnings.end(), dtype.warnings.begin(), dtype.warnings.end());
  if (const int copies = CopiesOfKvHeads(model, request.tensor_parallel); copies > 1) {
    warnings.push_back(fmt::format("The model has fewer KV heads than ranks: each head is kept {} times.", copies));
  }
  if (stage.cells.latent && request.tensor_parallel > 1) {
    warnings.push_back("Latent rows are kept whole on every rank: --tp does not divide them.");
  }
  if (stage.cells.windows) {
    warnings.push_back("Window layers keep every token unless max_attention_window is set.");
  }
  if (stage.cells.state > 0 && !request.max_num_seqs) {
    warnings.push_back(
        fmt::format("States take {} bytes for each request of max_batch_size, which is not given: none "
                    "are counted.",
                    Grouped(stage.cells.state)));
  }
  if (stage.cells.latent && dtype.storage == TrtllmStorage::kFp8) {
    warnings.push_back("A workspace for the context phase of FP8 latent attention comes off the budget besides.");
  }
  if (request.speculative && request.speculative->draft) {
    warnings.push_back("The drafter's pool is not counted: it takes its own part of the free memory.");
  }
  if (asked_len > plan.pool_tokens) {
    warnings.push_back(fmt::format("The pool holds less than one request of {} tokens: the engine lowers max_seq_len.",
                                   Grouped(asked_len)));
  }
  if (request.version >= EngineVersion{1, 4, 0}) {
    warnings.push_back("With KV cache manager V2 the block lines give way to one \"device quota\" line.");
  }
}

}  // namespace

Result<PoolPlan> PlanTrtllmPool(const ModelGeometry& model, const PlanRequest& request) {
  PoolPlan plan;
  plan.engine = EngineKind::kTrtllm;
  plan.kv_cache_dtype = request.kv_cache_dtype;
  const TrtllmDtype dtype = ResolveTrtllmDtype(model, request);
  plan.resolved_kv_cache_dtype = dtype.name;
  if (!dtype.refusal.empty()) {
    plan.refused = Refusal{dtype.refusal, std::nullopt};
    return plan;
  }
  HAYPILE_TRY(CheckRequest(model, request));
  plan.block_size = request.block_size.value_or(32);
  HAYPILE_TRY_ASSIGN(const Stage stage, LeastStage(model, dtype, request, plan.block_size));
  const int64_t asked_len = request.max_model_len > 0 ? request.max_model_len : model.max_positions;
  plan.pool_bytes = stage.pool_bytes;
  plan.bytes_per_token = stage.cells.token();
  plan.bytes_per_request = stage.cells.state;
  plan.num_blocks = stage.blocks;
  plan.pool_tokens = stage.blocks * plan.block_size;
  AddDerivation(stage, dtype, request, plan);
  if (stage.blocks <= 0) {
    plan.refused = Refusal{"no memory is left for blocks of the KV cache", std::nullopt};
    return plan;
  }
  plan.used_bytes = plan.pool_tokens * stage.cells.token() + stage.states;
  plan.max_model_len = std::min(asked_len, plan.pool_tokens);
  plan.max_concurrency =
      static_cast<double>(plan.pool_tokens) / static_cast<double>(std::max<int64_t>(1, plan.max_model_len));
  AddLogLines(dtype, request, asked_len, plan);
  AddShares(stage, plan);
  AddWarnings(model, stage, dtype, request, asked_len, plan);
  return plan;
}

}  // namespace haypile
