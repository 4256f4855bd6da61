#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "base/bytes.h"
#include "planner/number_text.h"
#include "planner/pool_plan.h"
#include "planner/rank_layers.h"
#include "planner/sglang_cells.h"
#include "planner/sglang_dtypes.h"
#include "planner/sglang_sizes.h"

namespace haypile {
namespace {

// "KV Cache is allocated" of one pool: its buffers have one page more than tokens.
std::string PoolLine(const SglangRows& rows, bool latent, int64_t tokens, int64_t page, const SglangDtype& dtype,
                     const PlanRequest& request) {
  const auto gb = [&](int64_t bytes) { return static_cast<double>(bytes * (tokens + page)) / kGib; };
  std::string line = "KV Cache is allocated. ";
  if (request.version >= kSglangNewNames) line += "dtype: " + dtype.torch_name + ", ";
  line += fmt::format("#tokens: {}, ", tokens);
  if (latent) return line + fmt::format("KV size: {:.2f} GB", gb(rows.total()));
  return line + fmt::format("K size: {:.2f} GB, V size: {:.2f} GB", gb(rows.k), gb(rows.v));
}

// --chunked-prefill-size, or SGLang's default for the device's memory.
int64_t ChunkedPrefill(const PlanRequest& request) {
  if (request.max_num_batched_tokens) return *request.max_num_batched_tokens;
  const int64_t gb = request.gpu_memory_bytes >> 30;
  if (gb == 0) return 8192;  // unknown: that of an 80 GB device
  if (gb < 35) return 2048;
  if (gb < 60) return 4096;
  return gb < 160 ? 8192 : 16384;
}

// The last line goes on with ", available_gpu_mem=", which only a start tells.
void AddLogLines(const SglangSizes& sizes, const SglangDtype& dtype, const PlanRequest& request, int64_t context_len,
                 PoolPlan& plan) {
  const SglangStage& stage = sizes.stage();
  auto& lines = plan.log_lines;
  if (request.version < kSglangNewNames) lines.push_back("Using KV cache dtype: " + dtype.torch_name);
  lines.insert(lines.end(), dtype.log_lines.begin(), dtype.log_lines.end());
  lines.insert(lines.end(), sizes.log_lines.begin(), sizes.log_lines.end());
  const SglangCells& cells = stage.cells;
  if (cells.windowed() && cells.full.layers > 0) {
    lines.push_back(fmt::format("Use sliding window memory pool. full_layer_tokens={}, swa_layer_tokens={}",
                                stage.full_tokens, stage.window_tokens));
  } else if (cells.windowed()) {
    lines.push_back(fmt::format("Use sliding window memory pool (all SWA). swa_layer_tokens={}", stage.window_tokens));
  }
  const bool known_slots = request.pool_includes_states || stage.states.explicit_slots;
  if (stage.states.any() && known_slots) lines.push_back(stage.states.LogLine(request));
  if (cells.windowed()) {
    lines.push_back(PoolLine(cells.window, false, stage.window_tokens, stage.page, dtype, request));
  }
  if (cells.full.layers > 0) {
    lines.push_back(PoolLine(cells.full, cells.latent, stage.full_tokens, stage.page, dtype, request));
  }
  if (cells.windowed()) {
    const double gb = static_cast<double>(cells.window.total() * (stage.window_tokens + stage.page) +
                                          cells.full.total() * (stage.full_tokens + stage.page)) /
                      kGib;
    lines.push_back(fmt::format("SWAKVPool mem usage: {:.2f} GB, swa size: {}, full size: {}", gb, stage.window_tokens,
                                stage.full_tokens));
  }
  lines.push_back(fmt::format(
      "max_total_num_tokens={}, chunked_prefill_size={}, max_prefill_tokens=16384, max_running_requests={}, "
      "context_len={}",
      stage.full_tokens, ChunkedPrefill(request), sizes.running, context_len));
}

void AddShare(std::string what, int64_t bytes, PoolPlan& plan) {
  if (bytes != 0) plan.shares.push_back({std::move(what), bytes});
}

// What the formula charges goes to tokens, workspace, drafter and states; what is left over is the page's rounding.
void AddShares(const SglangSizes& sizes, const SglangDtype& dtype, const PlanRequest& request, PoolPlan& plan) {
  const SglangStage& stage = sizes.stage();
  const SglangCells& cells = stage.cells;
  const int64_t full = stage.full_tokens, window = stage.window_tokens;
  const int64_t draft = full * cells.draft_full + window * cells.draft_window;
  const int64_t stored = full * cells.full.total() + window * cells.window.total();
  const int64_t charged = full * cells.full_cell + window * cells.window_cell;
  AddShare(fmt::format("full attention, {} layers", cells.full.layers), full * cells.full.total(), plan);
  AddShare(fmt::format("windows, {} layers", cells.window.layers), window * cells.window.total(), plan);
  AddShare("FP8 workspace of one layer", full * cells.workspace, plan);
  const bool fp4_windows = dtype.storage == SglangStorage::kFp4 && cells.windowed();
  AddShare(fp4_windows ? "charged as 8 bits, stored as 4.5" : "rounding of the formula",
           charged - stored - full * cells.workspace, plan);
  AddShare(fmt::format("charged for the drafter, {} layers", cells.draft_layers), draft, plan);
  const int64_t states = request.pool_includes_states ? stage.states.charged : 0;
  AddShare(fmt::format("states, {} slots", stage.states.slots), states, plan);
  AddShare(
      full < sizes.profiled ? "not used: --max-total-tokens, floor of tokens and pages" : "floor of tokens and pages",
      stage.pool_bytes - charged - draft - states, plan);
  plan.used_bytes = stored + full * (cells.workspace + cells.draft_stored) +
                    stage.page * (cells.full.total() + cells.window.total()) + states;
}

// The formula of a cell with names, and with this model's numbers.
std::pair<std::string, std::string> CellFormula(const SglangRows& rows, const SglangCells& cells,
                                                const SglangDtype& dtype, int64_t workspace) {
  const int64_t elements = rows.heads * (rows.k_elements + rows.v_elements) * rows.layers;
  const std::string counted =
      rows.uniform ? fmt::format("{} x ({} + {}) x {}", rows.heads, rows.k_elements, rows.v_elements, rows.layers)
                   : fmt::format("sum over {} layers of different shapes", rows.layers);
  if (!rows.uniform) return {"heads x (K + V) x bytes, summed over layers", counted};
  const std::string tail = rows.indexer > 0 ? fmt::format(" + indexer {}", Grouped(rows.indexer)) : "";
  switch (dtype.storage) {
    case SglangStorage::kFp4:
      if (cells.windowed()) return {"elements x 1 byte: no FP4 term beside window pools", counted + " x 1"};
      return {"elements / 2 + elements / 16 + workspace of one layer",
              fmt::format("{} / 2 + {} / 16 + {}{}", Grouped(elements), Grouped(elements), Grouped(workspace), tail)};
    case SglangStorage::kMxfp8:
      return {"elements + elements / 32", fmt::format("{} + {} / 32{}", Grouped(elements), Grouped(elements), tail)};
    case SglangStorage::kPlain:
    case SglangStorage::kFp8:
      break;
  }
  return {"heads x (K + V) x layers x bytes", fmt::format("{} x {}{}", counted, dtype.element_bytes, tail)};
}

void AddStateSteps(const SglangStage& stage, const PlanRequest& request, PoolPlan& plan) {
  auto& steps = plan.derivation;
  steps.push_back({"state of one request", "convolution + recurrence, all layers",
                   fmt::format("{} + {}", Grouped(stage.states.convolution), Grouped(stage.states.recurrence)),
                   Grouped(stage.states.per_request()) + " bytes"});
  if (!request.pool_includes_states) return;
  steps.push_back({"states", "slots x state, the padding slot and drafts besides",
                   fmt::format("{} x {}", Grouped(stage.states.slots), Grouped(stage.states.per_request())),
                   Grouped(stage.states.charged) + " bytes"});
  steps.push_back({"left for tokens", "pool - states",
                   fmt::format("{} - {}", Grouped(stage.pool_bytes), Grouped(stage.states.charged)),
                   Grouped(stage.tokens_bytes) + " bytes"});
}

void AddDerivation(const SglangSizes& sizes, const SglangDtype& dtype, const PlanRequest& request, PoolPlan& plan) {
  const SglangStage& stage = sizes.stage();
  const SglangCells& cells = stage.cells;
  auto& steps = plan.derivation;
  if (stage.states.any()) AddStateSteps(stage, request, plan);
  if (cells.full.layers > 0) {
    const auto [formula, numbers] = CellFormula(cells.full, cells, dtype, cells.workspace);
    steps.push_back({"cell of full layers", formula, numbers, Grouped(cells.full_cell) + " bytes"});
  }
  if (cells.windowed()) {
    const auto [formula, numbers] = CellFormula(cells.window, cells, dtype, 0);
    steps.push_back({"cell of window layers", formula, numbers, Grouped(cells.window_cell) + " bytes"});
  }
  if (cells.draft_layers > 0) {
    steps.push_back({"drafter", "target's cell x draft layers / layers (DFLASH: its own cell)",
                     fmt::format("{} layers", cells.draft_layers),
                     Grouped(cells.draft_full + cells.draft_window) + " bytes"});
  }
  steps.push_back({"cell", cells.windowed() ? "full + ratio x windows + drafter" : "full + drafter",
                   cells.windowed()
                       ? fmt::format("{} + {} x {} + {}", Grouped(cells.full_cell), request.swa_full_tokens_ratio,
                                     Grouped(cells.window_cell), Grouped(cells.draft_full))
                       : fmt::format("{} + {}", Grouped(cells.full_cell), Grouped(cells.draft_full)),
                   Decimals(cells.cell, cells.windowed() ? 1 : 0) + " bytes"});
  steps.push_back({"tokens", "floor(bytes / cell), floor to the page",
                   fmt::format("floor({} / {}), pages of {}", Grouped(stage.tokens_bytes),
                               Decimals(cells.cell, cells.windowed() ? 1 : 0), stage.page),
                   Grouped(sizes.profiled)});
}

void AddWarnings(const ModelGeometry& model, const SglangSizes& sizes, const SglangDtype& dtype,
                 const PlanRequest& request, int64_t context_len, PoolPlan& plan) {
  const SglangStage& stage = sizes.stage();
  const SglangCells& cells = stage.cells;
  auto& warnings = plan.warnings;
  warnings.insert(warnings.end(), dtype.warnings.begin(), dtype.warnings.end());
  if (const int copies = CopiesOfKvHeads(model, request.tensor_parallel); copies > 1) {
    warnings.push_back(fmt::format("The model has fewer KV heads than ranks: each head is kept {} times.", copies));
  }
  if (cells.latent && request.tensor_parallel > 1) {
    warnings.push_back("Latent rows are kept whole on every rank: --tp does not divide them.");
  }
  if (cells.workspace > 0) {
    warnings.push_back(fmt::format("{} bytes a token go to an FP8 workspace of one layer: {} instead of {} bytes.",
                                   cells.workspace, Grouped(cells.full_cell),
                                   Grouped(cells.full_cell - cells.workspace)));
  }
  if (dtype.storage == SglangStorage::kFp4 && cells.windowed()) {
    warnings.push_back("With window pools the engine sizes FP4 as 8 bits: the capacity is that of FP8.");
  }
  const int64_t draft_charged = cells.draft_full + cells.draft_window;
  if (cells.draft_layers > 0 && cells.draft_stored > 0 && cells.draft_stored != draft_charged) {
    warnings.push_back(fmt::format(
        "The drafter's pool takes {} bytes a token and {} are charged for it: {}.", Grouped(cells.draft_stored),
        Grouped(draft_charged),
        cells.draft_stored > draft_charged ? "the rest must be free besides the pool" : "the difference stays idle"));
  }
  if (stage.states.any() && !request.pool_includes_states) {
    warnings.push_back(
        fmt::format("The pool is counted for tokens alone; states take about {} bytes besides ({} slots "
                    "of {} bytes).",
                    Grouped(stage.states.charged), Grouped(stage.states.slots), Grouped(stage.states.per_request())));
  }
  if (stage.full_tokens < context_len) {
    warnings.push_back(fmt::format("The pool holds {} tokens, less than one request of {}.", Grouped(stage.full_tokens),
                                   Grouped(context_len)));
  }
  if (sizes.stages.size() > 1) warnings.push_back(fmt::format("Pipeline stage {} has the fewest tokens.", stage.index));
  if (cells.windowed() && request.max_running_requests && !request.prefix_caching.value_or(true)) {
    warnings.push_back(
        "With --max-running-requests and no radix cache the window pool has a cap of its own, which is "
        "not planned: the full pool may be larger.");
  }
}

}  // namespace

Result<PoolPlan> PlanSglangPool(const ModelGeometry& model, const PlanRequest& request) {
  PoolPlan plan;
  plan.engine = EngineKind::kSglang;
  plan.kv_cache_dtype = request.kv_cache_dtype;
  const SglangDtype dtype = ResolveSglangDtype(model, request.kv_cache_dtype, request);
  plan.resolved_kv_cache_dtype = dtype.name;
  if (!dtype.refusal.empty()) {
    plan.refused = Refusal{dtype.refusal, std::nullopt};
    return plan;
  }
  const int64_t context_len = request.max_model_len > 0 ? request.max_model_len : model.max_positions;
  HAYPILE_TRY_ASSIGN(const SglangSizes sizes, SizeSglangPools(model, request, dtype, context_len));
  const SglangStage& stage = sizes.stage();
  plan.pool_bytes = stage.pool_bytes;
  plan.block_size = stage.page;
  plan.max_model_len = context_len;
  plan.bytes_per_token = stage.cells.full_cell + stage.cells.draft_full;
  plan.bytes_per_request = stage.states.per_request() + stage.cells.window_tokens * stage.cells.window.total();
  AddDerivation(sizes, dtype, request, plan);
  if (!sizes.refusal.empty()) {
    plan.refused = Refusal{sizes.refusal, std::nullopt};
    return plan;
  }
  plan.pool_tokens = stage.full_tokens;
  plan.num_blocks = stage.full_tokens / stage.page;
  if (context_len > 0) {
    plan.max_concurrency = static_cast<double>(stage.full_tokens) / static_cast<double>(context_len);
  }
  AddLogLines(sizes, dtype, request, context_len, plan);
  AddShares(sizes, dtype, request, plan);
  AddWarnings(model, sizes, dtype, request, context_len, plan);
  return plan;
}

}  // namespace haypile
