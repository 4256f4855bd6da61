#include "planner/vllm_report.h"

#include <fmt/format.h>

#include <algorithm>

#include "planner/number_text.h"

namespace haypile {
namespace {

const VllmSpec& SpecOf(const VllmGrouping& grouping, const VllmGroup& group) {
  return grouping.specs[group.representative];
}

// How one group's blocks per request come about, with numbers.
std::string BlocksText(const VllmSpec& spec, const VllmRequestShape& shape) {
  const std::string length = Grouped(shape.max_model_len);
  const std::string block = Grouped(spec.block_size);
  switch (spec.kind) {
    case VllmSpecKind::kFull:
    case VllmSpecKind::kMla:
      if (shape.decode_context_parallel > 1) {
        return fmt::format("ceil(ceil({} / {}) / {})", length, shape.decode_context_parallel, block);
      }
      return fmt::format("ceil({} / {})", length, block);
    case VllmSpecKind::kSlidingWindow:
      return fmt::format("ceil(min({} - 1 + {}, {}) / {}) + 1", Grouped(spec.window),
                         Grouped(shape.extra_retained + shape.in_flight_tokens), length, block);
    case VllmSpecKind::kChunked:
      return fmt::format("ceil(min({} + {}, {}) / {})", Grouped(spec.window), Grouped(shape.in_flight_tokens), length,
                         block);
    case VllmSpecKind::kCross:
      return fmt::format("ceil({} / {})", Grouped(shape.encoder_tokens), block);
    case VllmSpecKind::kState:
      if (shape.state_mode == VllmStateMode::kAll) {
        return fmt::format("ceil({} / {}) + {}", length, block, shape.speculative_tokens);
      }
      if (shape.state_mode == VllmStateMode::kNone) return fmt::format("1 + {}", shape.speculative_tokens);
      return fmt::format("{} + {}", 2 + spec.checkpoint_blocks, shape.speculative_tokens);
  }
  return {};
}

int64_t GroupBlocks(const VllmGrouping& grouping, const VllmGroup& group, const VllmRequestShape& shape) {
  VllmGrouping one;
  one.specs = grouping.specs;
  one.groups = {group};
  return VllmBlocksPerRequest(one, shape);
}

void DeriveRequest(const VllmSetup& setup, const VllmGrouping& grouping, int64_t total, PoolPlan& plan) {
  // Groups of one spec need the same; write each once.
  std::string substituted;
  size_t at = 0;
  while (at < grouping.groups.size()) {
    size_t end = at + 1;
    const VllmSpec& spec = SpecOf(grouping, grouping.groups[at]);
    while (end < grouping.groups.size() && SpecOf(grouping, grouping.groups[end]) == spec) ++end;
    const std::string one = BlocksText(spec, setup.shape);
    const std::string text = end - at == 1 ? one : fmt::format("{} * ({})", end - at, one);
    substituted += (substituted.empty() ? "" : " + ") + text;
    at = end;
  }
  plan.derivation.push_back({"blocks of one request at max_model_len (R)",
                             "sum over groups of the blocks that it holds", substituted,
                             fmt::format("{} blocks", Grouped(total))});
}

void DerivePool(const VllmPoolNumbers& numbers, const PlanRequest& request, PoolPlan& plan) {
  if (request.num_gpu_blocks_override) {
    plan.derivation.push_back({"blocks in the pool", "--num-gpu-blocks-override", Grouped(numbers.num_blocks),
                               fmt::format("{} blocks", Grouped(numbers.num_blocks))});
    return;
  }
  plan.derivation.push_back({"blocks in the pool", "floor(pool bytes / bytes of one block)",
                             fmt::format("floor({} / {})", Grouped(numbers.memory), Grouped(numbers.bytes_per_block)),
                             fmt::format("{} blocks", Grouped(numbers.num_blocks))});
}

void DeriveGroups(const VllmGrouping& grouping, const VllmPoolNumbers& numbers, PoolPlan& plan) {
  const VllmGroup& first = grouping.groups.front();
  if (first.layers_differ) {
    plan.derivation.push_back({"bytes of one block", "sum of the layers' pages, which differ",
                               fmt::format("{} layers in one group", first.layers.size()),
                               fmt::format("{} bytes", Grouped(numbers.bytes_per_block))});
    return;
  }
  std::string counts;
  for (const VllmGroup& group : grouping.groups) {
    counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", group.layers.size(),
                          VllmSpecKindName(SpecOf(grouping, group).kind));
  }
  plan.derivation.push_back({"groups of layers",
                             "as many layers in each as the smallest kind has, or the largest when "
                             "it has less than 1.5 times as many",
                             counts, fmt::format("{} groups of {}", grouping.groups.size(), grouping.group_size)});
  const int64_t page = SpecOf(grouping, first).Page();
  plan.derivation.push_back(
      {"bytes of one block", "layers of a group * page",
       fmt::format("{} * {}", numbers.bytes_per_block / std::max<int64_t>(page, 1), Grouped(page)),
       fmt::format("{} bytes", Grouped(numbers.bytes_per_block))});
}

// Before 0.20.1: blocks divided evenly over the groups, which does not agree with the concurrency on hybrids.
int64_t EvenTokens(const VllmGrouping& grouping, const VllmPoolNumbers& numbers, const PlanRequest& request,
                   PoolPlan& plan) {
  int64_t smallest = SpecOf(grouping, grouping.groups.front()).block_size;
  for (const VllmGroup& group : grouping.groups) smallest = std::min(smallest, SpecOf(grouping, group).block_size);
  const int64_t groups = static_cast<int64_t>(grouping.groups.size());
  int64_t tokens = numbers.num_blocks / groups * smallest;
  const int dcp = request.decode_context_parallel;
  if (dcp > 1) {
    plan.log_lines.push_back(
        fmt::format("Multiplying the GPU KV cache size by the cp_world_size {} (pcp_world_size 1 * "
                    "dcp_world_size {}).",
                    dcp, dcp));
    tokens *= dcp;
  }
  plan.derivation.push_back(
      {"tokens as printed", "floor(blocks / groups) * smallest block * dcp",
       fmt::format("floor({} / {}) * {} * {}", Grouped(numbers.num_blocks), groups, Grouped(smallest), dcp),
       Grouped(tokens)});
  return tokens;
}

std::string DeviceName(const VllmSetup& setup, const PlanRequest& request) {
  return request.device == DeviceKind::kCpu && setup.rules.names_cpu_pool ? "CPU" : "GPU";
}

// One share of the pool, merged with an earlier one of the same name.
void AddShare(PoolPlan& plan, const std::string& what, int64_t bytes) {
  if (bytes == 0) return;
  for (ByteShare& share : plan.shares) {
    if (share.what != what) continue;
    share.bytes += bytes;
    return;
  }
  plan.shares.push_back({what, bytes});
}

// Tokens of one request that a group of this spec holds in `blocks` blocks.
int64_t TokensHeld(const VllmSpec& spec, const VllmRequestShape& shape) {
  const int64_t length = CeilDiv(shape.max_model_len, spec.IsFull() ? shape.decode_context_parallel : 1);
  if (spec.kind == VllmSpecKind::kSlidingWindow) {
    return std::min(length, spec.window - 1 + shape.extra_retained + shape.in_flight_tokens);
  }
  if (spec.kind == VllmSpecKind::kChunked) return std::min(length, spec.window + shape.in_flight_tokens);
  if (spec.kind == VllmSpecKind::kCross) return shape.encoder_tokens;
  return length;
}

// The blocks that whole requests of full length take from one group on the deciding rank.
void ShareGroup(const VllmSetup& setup, const VllmGrouping& grouping, const std::vector<VllmLayer>& layers,
                const VllmGroup& group, const VllmPoolNumbers& numbers, int64_t requests, PoolPlan& plan) {
  const int64_t blocks = requests * GroupBlocks(grouping, group, setup.shape);
  int64_t held = 0;
  for (const int layer : group.layers) {
    if (!numbers.on_rank.empty() && !numbers.on_rank[layer]) continue;
    const VllmSpec& spec = grouping.specs[layer];
    held += spec.Page();
    const int64_t padding = spec.Page() - spec.UnpaddedPage();
    if (spec.kind == VllmSpecKind::kState) {
      AddShare(plan, layers[layer].label, blocks * spec.UnpaddedPage());
      AddShare(plan, "padding of states to the attention page", blocks * padding);
      continue;
    }
    const int64_t data = requests * TokensHeld(spec, setup.shape) * spec.token_bytes;
    AddShare(plan, layers[layer].label, data);
    AddShare(plan, "blocks that a request fills in part", blocks * spec.UnpaddedPage() - data);
    AddShare(plan, "padding of attention pages to the largest page", blocks * padding);
  }
  AddShare(plan, "padding layers of smaller groups", blocks * (numbers.bytes_per_block - held));
}

}  // namespace

void ReportVllmPool(const VllmSetup& setup, const VllmGrouping& grouping, const VllmPoolNumbers& numbers,
                    const PlanRequest& request, PoolPlan& plan) {
  DeriveGroups(grouping, numbers, plan);
  DerivePool(numbers, request, plan);
  DeriveRequest(setup, grouping, numbers.blocks_per_request, plan);
  const int64_t length = setup.shape.max_model_len;
  plan.max_concurrency = static_cast<double>(numbers.num_blocks) / static_cast<double>(numbers.blocks_per_request);
  const std::string ratio = fmt::format("{} / {}", Grouped(numbers.num_blocks), Grouped(numbers.blocks_per_request));
  if (setup.rules.group_aware_tokens) {
    plan.pool_tokens = static_cast<int64_t>(plan.max_concurrency * static_cast<double>(length));
    plan.derivation.push_back({"tokens as printed", "int(blocks / R * max_model_len)",
                               fmt::format("int({} * {})", ratio, Grouped(length)), Grouped(plan.pool_tokens)});
  } else {
    plan.pool_tokens = EvenTokens(grouping, numbers, request, plan);
  }
  const std::string concurrency = Decimals(plan.max_concurrency, 2) + "x";
  plan.derivation.push_back({"maximum concurrency", "blocks / R", ratio, concurrency});
  const std::string size =
      fmt::format("{} KV cache size: {} tokens", DeviceName(setup, request), Grouped(plan.pool_tokens));
  const std::string requests =
      fmt::format("Maximum concurrency for {} tokens per request: {}", Grouped(length), concurrency);
  if (setup.rules.one_pool_line) {
    plan.log_lines.push_back(size + ", " + requests);
  } else {
    plan.log_lines.push_back(size);
    plan.log_lines.push_back(requests);
  }
}

void ShareVllmPool(const VllmSetup& setup, const VllmGrouping& grouping, const std::vector<VllmLayer>& layers,
                   const VllmPoolNumbers& numbers, PoolPlan& plan) {
  for (const VllmGroup& group : grouping.groups) {
    const VllmSpec& spec = SpecOf(grouping, group);
    int64_t held = 0;
    for (const int layer : group.layers) {
      if (!numbers.on_rank.empty() && !numbers.on_rank[layer]) continue;
      if (grouping.specs[layer].IsFull()) plan.bytes_per_token += grouping.specs[layer].token_bytes;
      held += grouping.specs[layer].Page();
    }
    if (spec.IsFull()) {
      plan.block_size = plan.block_size == 0 ? spec.block_size : std::min(plan.block_size, spec.block_size);
    } else {
      plan.bytes_per_request += GroupBlocks(grouping, group, setup.shape) * held;
    }
  }
  // DCP spreads a request's positions over the ranks.
  plan.bytes_per_token = CeilDiv(plan.bytes_per_token, setup.shape.decode_context_parallel);
  if (plan.block_size == 0) plan.block_size = SpecOf(grouping, grouping.groups.front()).block_size;
  plan.num_blocks = numbers.num_blocks;
  plan.pool_bytes = numbers.memory;
  plan.used_bytes = numbers.num_blocks * numbers.bytes_per_block;
  const int64_t usable = std::max<int64_t>(numbers.num_blocks - 1, 0);
  const int64_t requests = usable / numbers.blocks_per_request;
  for (const VllmGroup& group : grouping.groups) ShareGroup(setup, grouping, layers, group, numbers, requests, plan);
  AddShare(plan, "blocks beyond whole requests of max_model_len",
           (usable - requests * numbers.blocks_per_request) * numbers.bytes_per_block);
  if (numbers.num_blocks > 0) AddShare(plan, "null block", numbers.bytes_per_block);
  AddShare(plan, "less than one block", plan.pool_bytes - plan.used_bytes);
}

void WarnOfVllmPool(const ModelGeometry& model, const VllmSetup& setup, const VllmGrouping& grouping,
                    const VllmPoolNumbers& numbers, const PlanRequest& request, PoolPlan& plan) {
  int fewest = 0;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.kv_heads > 0 && layer.cache != CacheKind::kNone && layer.cache != CacheKind::kMla &&
        layer.cache != CacheKind::kStateSpace) {
      fewest = fewest == 0 ? layer.kv_heads : std::min(fewest, layer.kv_heads);
    }
  }
  if (fewest > 0 && fewest < request.tensor_parallel) {
    plan.warnings.push_back(fmt::format(
        "{} KV heads on {} tensor-parallel ranks: every head is stored on {} ranks, so more ranks hold no more tokens; "
        "--dcp shards them by token.",
        fewest, request.tensor_parallel, request.tensor_parallel / fewest));
  }
  if (setup.latent && request.tensor_parallel > request.decode_context_parallel) {
    plan.warnings.push_back("Latent (MLA) rows are stored on every tensor-parallel rank; --dcp shards them by token.");
  }
  for (const ByteShare& share : plan.shares) {
    const bool padding = share.what.starts_with("padding of");
    if (!padding || share.bytes * 20 < plan.pool_bytes) continue;
    plan.warnings.push_back(
        fmt::format("{} takes {:.1f}% of the pool; another --block-size or KV dtype may align better.", share.what,
                    100.0 * static_cast<double>(share.bytes) / static_cast<double>(plan.pool_bytes)));
  }
  const bool fits_with_null = numbers.num_blocks - 1 >= numbers.blocks_per_request;
  if (!setup.rules.reserves_null_block && !fits_with_null && numbers.num_blocks >= numbers.blocks_per_request) {
    plan.warnings.push_back(
        "The pool holds exactly one request of max_model_len and one block is reserved: this version starts, but a "
        "request of full length is never scheduled (vLLM #35541). Lower --max-model-len.");
  } else if (numbers.num_blocks < 1000) {
    plan.warnings.push_back(fmt::format(
        "One of the {} blocks is the null block, which holds no request; the printed tokens and concurrency count it.",
        Grouped(numbers.num_blocks)));
  }
  if (!setup.rules.group_aware_tokens && grouping.groups.size() > 1) {
    plan.warnings.push_back(
        "Before 0.20.1 vLLM divides the blocks evenly over the groups when it prints tokens: the figure disagrees with "
        "the concurrency (vLLM #40691), which is the one to trust.");
  }
  if (setup.hybrid && request.device == DeviceKind::kGpu && request.max_num_seqs.value_or(256) > numbers.num_blocks) {
    plan.warnings.push_back(fmt::format(
        "With full CUDA graphs vLLM stops: max_num_seqs ({}) exceeds available Mamba cache blocks ({}). Lower "
        "--max-num-seqs.",
        request.max_num_seqs.value_or(256), numbers.num_blocks));
  }
}

}  // namespace haypile
