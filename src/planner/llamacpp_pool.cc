#include <fmt/format.h>

#include <algorithm>

#include "planner/llamacpp_caches.h"
#include "planner/llamacpp_context.h"
#include "planner/llamacpp_types.h"
#include "planner/number_text.h"
#include "planner/pool_plan.h"

namespace haypile {
namespace {

struct KvTypes {
  std::string k_name, v_name;
  std::optional<LlamacppType> k, v;
};

KvTypes TypesOf(const std::string& dtype) {
  KvTypes types;
  const size_t slash = dtype.find('/');
  types.k_name = dtype.substr(0, slash);
  types.v_name = slash == std::string::npos ? dtype : dtype.substr(slash + 1);
  types.k = FindLlamacppType(types.k_name);
  types.v = FindLlamacppType(types.v_name);
  return types;
}

bool IsMla(const ModelGeometry& model) {
  return std::any_of(model.layers.begin(), model.layers.end(),
                     [](const LayerGeometry& layer) { return layer.cache == CacheKind::kMla; });
}

// A quantized type packs blocks along one head.
std::string BlockRefusal(const ModelGeometry& model, const LlamacppType& k, const LlamacppType& v) {
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache == CacheKind::kNone || layer.cache == CacheKind::kStateSpace) continue;
    const bool mla = layer.cache == CacheKind::kMla;
    const int k_dim = mla ? layer.kv_lora_rank + layer.rope_dim : layer.head_dim_k;
    if (k_dim % k.block_elements != 0) {
      return fmt::format("llama_init_from_model: K cache type {} with block size {} does not divide n_embd_head_k={}",
                         k.name, k.block_elements, k_dim);
    }
    if (!mla && layer.head_dim_v % v.block_elements != 0) {
      return fmt::format("llama_init_from_model: V cache type {} with block size {} does not divide n_embd_head_v={}",
                         v.name, v.block_elements, layer.head_dim_v);
    }
  }
  return {};
}

// Why llama-server does not start with these types; empty when it does.
std::string TypeRefusal(const ModelGeometry& model, const PlanRequest& request, const KvTypes& types) {
  if (!types.k) return "Unsupported cache type: " + types.k_name;
  if (!types.v) return "Unsupported cache type: " + types.v_name;
  if (types.v->quantized() && request.flash_attention == "off") {
    return "llama_init_from_model: quantized V cache requires flash_attn to be enabled";
  }
  if (IsMla(model) && types.k->name != types.v->name) {
    return fmt::format("K and V share one latent row in this model: their types must be the same, not {} and {}",
                       types.k->name, types.v->name);
  }
  return BlockRefusal(model, *types.k, *types.v);
}

std::string DeviceName(const PlanRequest& request) {
  const bool gpu = request.device == DeviceKind::kGpu && (request.gpu_sm > 0 || request.gpu_memory_bytes > 0);
  return gpu ? "CUDA0" : "CPU";
}

std::string CacheName(const LlamacppCache& cache) {
  switch (cache.kind) {
    case LlamacppCache::Kind::kFull:
      return fmt::format("every token, {} layers", cache.layers);
    case LlamacppCache::Kind::kWindow:
      return fmt::format("window cells, {} layers", cache.layers);
    case LlamacppCache::Kind::kState:
      break;
  }
  return "states of the slots";
}

void AddLogLines(const LlamacppCaches& built, const LlamacppContext& context, const KvTypes& types,
                 const std::string& device, PoolPlan& plan) {
  plan.log_lines = context.LogLines();
  for (const LlamacppCache& cache : built.caches) {
    const bool window = cache.kind == LlamacppCache::Kind::kWindow;
    if (built.windowed && cache.kind != LlamacppCache::Kind::kState) {
      plan.log_lines.push_back(fmt::format("llama_kv_cache_iswa: creating {} KV cache, size = {} cells",
                                           window ? "    SWA" : "non-SWA", cache.cells));
    }
    for (std::string& line : LlamacppCacheLines(cache, context, *types.k, *types.v, device)) {
      plan.log_lines.push_back(std::move(line));
    }
  }
  plan.log_lines.push_back(
      fmt::format("srv    load_model: initializing, n_slots = {}, n_ctx_slot = {}, kv_unified = '{}'",
                  context.n_seq_max, context.n_ctx_slot, context.unified ? "true" : "false"));
}

void AddWarnings(const ModelGeometry& model, const PlanRequest& request, const LlamacppCaches& built,
                 const LlamacppContext& context, PoolPlan& plan) {
  const auto warn = [&](std::string text) { plan.warnings.push_back(std::move(text)); };
  if (context.n_ctx != context.n_ctx_asked) {
    warn(fmt::format("The context of {} tokens becomes {}: every slot's share is a multiple of {}.",
                     Grouped(context.n_ctx_asked), Grouped(context.n_ctx), kLlamacppPadding));
  }
  if (context.n_ctx_train == 0) {
    warn("The model does not say its context length: the server caps its slots at it.");
  } else if (context.n_ctx_seq > context.n_ctx_train) {
    warn(fmt::format("The slots are capped at the model's {} tokens; the cells beyond are allocated and never used.",
                     Grouped(context.n_ctx_train)));
  }
  if (!context.unified && context.n_seq_max > 1) {
    warn(fmt::format("-c is shared out: each of {} slots serves at most {} tokens (-kvu lets one slot use all).",
                     context.n_seq_max, Grouped(context.n_ctx_slot)));
  }
  if (request.swa_full && !built.windowed) warn("--swa-full has no effect: llama.cpp keeps no window cache here.");
  if (built.ignored_windows) {
    warn("llama.cpp does not use the window of " + model.model_type + ": its layers keep every token.");
  }
  if (!context.flash_attention) {
    warn("Without flash attention V lies transposed, each layer as wide as the widest.");
  }
  if (request.tensor_parallel > 1 || request.pipeline_parallel > 1) {
    warn("llama.cpp spreads layers over devices; the sizes are the sums over all devices.");
  }
}

void AddDerivation(const LlamacppCaches& built, const LlamacppContext& context, const KvTypes& types, PoolPlan& plan) {
  auto& steps = plan.derivation;
  if (context.unified) {
    steps.push_back({"cells", "pad(n_ctx, 256)", fmt::format("pad({}, 256)", Grouped(context.n_ctx_asked)),
                     Grouped(context.n_ctx) + " cells in one stream"});
  } else {
    steps.push_back({"cells of a slot", "pad(pad(n_ctx, 256) / slots, 256)",
                     fmt::format("pad(pad({}, 256) / {}, 256)", Grouped(context.n_ctx_asked), context.n_seq_max),
                     fmt::format("{} cells in each of {} streams", Grouped(context.n_ctx_seq), context.n_seq_max)});
  }
  for (const LlamacppCache& cache : built.caches) {
    if (cache.kind == LlamacppCache::Kind::kWindow) {
      const int64_t windows = context.unified ? context.n_seq_max : 1;
      steps.push_back({"window cells", "pad(min(cells, window x sequences + n_ubatch), 256)",
                       fmt::format("pad(min({}, {} x {} + {}), 256)", Grouped(context.n_ctx_seq), built.window, windows,
                                   context.n_ubatch),
                       Grouped(cache.cells) + " cells"});
    }
    const bool state = cache.kind == LlamacppCache::Kind::kState;
    steps.push_back({CacheName(cache),
                     state ? "sequences x (convolution + recurrence, FP32)" : "cells x streams x (K row + V row)",
                     state ? fmt::format("{} x ({} + {})", cache.cells, Grouped(cache.k_bytes_per_cell),
                                         Grouped(cache.v_bytes_per_cell))
                           : fmt::format("{} x {} x ({} {} + {} {})", Grouped(cache.cells), cache.streams,
                                         Grouped(cache.k_bytes_per_cell), types.k->name,
                                         Grouped(cache.v_bytes_per_cell), types.v->name),
                     Grouped(cache.bytes()) + " bytes"});
  }
}

int64_t BudgetOf(const PlanRequest& request) {
  if (request.pool_bytes_per_rank.empty()) return 0;
  int64_t sum = 0;
  for (const int64_t bytes : request.pool_bytes_per_rank) sum += bytes;
  return sum;
}

struct Sized {
  LlamacppContext context;
  LlamacppCaches caches;
};

Result<Sized> SizeAt(const ModelGeometry& model, const PlanRequest& request, const KvTypes& types, int64_t asked) {
  Sized sized;
  HAYPILE_TRY_ASSIGN(sized.context, ResolveLlamacppContext(model, request, asked));
  HAYPILE_TRY_ASSIGN(sized.caches, BuildLlamacppCaches(model, sized.context, *types.k, *types.v, request.swa_full));
  return sized;
}

// The largest context, a multiple of the padding, whose caches fit `budget`; 0: none does.
Result<int64_t> LargestContext(const ModelGeometry& model, const PlanRequest& request, const KvTypes& types,
                               int64_t budget, int64_t most) {
  int64_t low = 0, high = (most + kLlamacppPadding - 1) / kLlamacppPadding;  // in units of the padding
  while (low < high) {
    const int64_t middle = (low + high + 1) / 2;
    HAYPILE_TRY_ASSIGN(const Sized sized, SizeAt(model, request, types, middle * kLlamacppPadding));
    if (sized.caches.bytes() <= budget) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low * kLlamacppPadding;
}

void AddShares(const LlamacppCaches& built, const LlamacppContext& context, PoolPlan& plan) {
  for (const LlamacppCache& cache : built.caches) {
    plan.used_bytes += cache.bytes();
    if (cache.bytes() > 0) plan.shares.push_back({CacheName(cache), cache.bytes()});
    switch (cache.kind) {
      case LlamacppCache::Kind::kFull:
        plan.bytes_per_token += cache.k_bytes_per_cell + cache.v_bytes_per_cell;
        break;
      case LlamacppCache::Kind::kWindow:
      case LlamacppCache::Kind::kState:
        plan.bytes_per_request += cache.bytes() / context.n_seq_max;
        break;
    }
  }
  if (plan.pool_bytes == 0) plan.pool_bytes = plan.used_bytes;
  if (plan.pool_bytes > plan.used_bytes) plan.shares.push_back({"not asked for", plan.pool_bytes - plan.used_bytes});
}

// The engine allocates what the context asks for, all at start; a pool that is too small fails the start.
Status RefuseOverBudget(const ModelGeometry& model, const PlanRequest& request, const KvTypes& types,
                        const LlamacppContext& context, PoolPlan& plan) {
  if (plan.used_bytes <= plan.pool_bytes) return {};
  HAYPILE_TRY_ASSIGN(const int64_t largest,
                     LargestContext(model, request, types, plan.pool_bytes, context.n_ctx_asked));
  plan.refused = Refusal{"failed to allocate buffer for kv cache", largest};
  plan.shares.clear();
  plan.log_lines.clear();
  return {};
}

}  // namespace

Result<PoolPlan> PlanLlamacppPool(const ModelGeometry& model, const PlanRequest& request) {
  PoolPlan plan;
  plan.engine = EngineKind::kLlamacpp;
  plan.kv_cache_dtype = request.kv_cache_dtype;
  plan.block_size = 1;
  plan.pool_bytes = BudgetOf(request);
  const KvTypes types = TypesOf(request.kv_cache_dtype);
  if (std::string reason = TypeRefusal(model, request, types); !reason.empty()) {
    plan.refused = Refusal{std::move(reason), std::nullopt};
    return plan;
  }
  plan.resolved_kv_cache_dtype =
      types.k->name == types.v->name ? std::string(types.k->name) : fmt::format("{}/{}", types.k->name, types.v->name);
  int64_t asked = AskedLlamacppContext(model, request);
  const bool own_context = !request.context_size && request.max_model_len == 0;
  if (own_context && plan.pool_bytes > 0) {
    // Without -c the server lowers the context until it fits.
    HAYPILE_TRY_ASSIGN(const int64_t largest, LargestContext(model, request, types, plan.pool_bytes, asked));
    if (largest > 0 && largest < asked) {
      plan.warnings.push_back(fmt::format("Without -c the server lowers the context from {} to about {} to fit.",
                                          Grouped(asked), Grouped(largest)));
      asked = largest;
    }
  }
  HAYPILE_TRY_ASSIGN(const Sized sized, SizeAt(model, request, types, asked));
  const LlamacppContext& context = sized.context;
  if (context.n_seq_max > kLlamacppMaxSequences) {
    plan.refused = Refusal{fmt::format("n_seq_max must be <= {}", kLlamacppMaxSequences), std::nullopt};
    return plan;
  }
  plan.max_model_len = context.n_ctx_slot;
  plan.pool_tokens = context.n_ctx;
  plan.num_blocks = context.n_ctx;
  plan.max_concurrency = static_cast<double>(context.n_ctx) / static_cast<double>(context.n_ctx_seq);
  AddLogLines(sized.caches, context, types, DeviceName(request), plan);
  AddWarnings(model, request, sized.caches, context, plan);
  AddDerivation(sized.caches, context, types, plan);
  AddShares(sized.caches, context, plan);
  HAYPILE_TRY(RefuseOverBudget(model, request, types, context, plan));
  return plan;
}

}  // namespace haypile
