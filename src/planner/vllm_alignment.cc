#include "planner/vllm_alignment.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "planner/number_text.h"

namespace haypile {
namespace {

constexpr int kLatentHybridAlignment = 128;

// The heads that vLLM's alignment looks at: the model's, not one layer's.
struct GenericHeads {
  int heads = 0;
  int dim = 0;
  int latent_row = 0;
};

GenericHeads HeadsOf(const ModelGeometry& model, int tp) {
  GenericHeads generic;
  generic.heads = model.generic_kv_heads;
  generic.dim = model.generic_head_dim;
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache == CacheKind::kMla) generic.latent_row = layer.kv_lora_rank + layer.rope_dim;
    if (layer.cache != CacheKind::kFullAttention) continue;
    if (generic.heads <= 0) generic.heads = layer.kv_heads;
    if (generic.dim <= 0) generic.dim = layer.head_dim_k;
  }
  generic.heads = std::max(1, generic.heads / tp);
  return generic;
}

Result<int64_t> TokenBytes(const ModelGeometry& model, const GenericHeads& generic, const VllmKvDtype& dtype) {
  if (generic.latent_row > 0) return VllmLatentBytes(dtype, generic.latent_row, model.model_dtype_bytes);
  return VllmHeadBytes(dtype, generic.heads, generic.dim, generic.dim, model.model_dtype_bytes);
}

// Bytes of one token in one attention layer, as the alignment counts them.
Result<int64_t> AlignedTokenBytes(const ModelGeometry& model, const GenericHeads& generic, const VllmSetup& setup,
                                  bool skips_layers) {
  Result<int64_t> bytes = TokenBytes(model, generic, setup.dtype);
  if (!bytes || setup.dtype.mode != VllmKvMode::kTurboquant || !skips_layers) return bytes;
  const Result<int64_t> native = TokenBytes(model, generic, VllmKvDtype{"auto", VllmKvMode::kModelDtype});
  if (!native) return native;
  return std::lcm(*bytes, *native);
}

// Mamba 1 has no chunks; vLLM aligns to this many tokens then.
constexpr int64_t kDefaultChunk = 2048;

int64_t ChunkOf(const ModelGeometry& model) {
  for (const LayerGeometry& layer : model.layers) {
    if (layer.cache == CacheKind::kStateSpace && layer.state.chunk_size > 0) return layer.state.chunk_size;
  }
  return kDefaultChunk;
}

struct HybridBlock {
  int64_t tokens = 0;
  std::string formula;
  std::string substituted;
};

HybridBlock SmallestHybridBlock(const ModelGeometry& model, const VllmSetup& setup, int64_t state_bytes,
                                int64_t token_bytes) {
  const int64_t kernel = setup.backend.SmallestKernelBlock();
  int64_t align = std::max(kernel, setup.block_size);
  if (setup.latent && setup.rules.latent_hybrids_align_128) align = std::max<int64_t>(align, kLatentHybridAlignment);
  HybridBlock block;
  if (setup.shape.state_mode == VllmStateMode::kAll) {
    const int64_t chunk = std::lcm(ChunkOf(model), align);
    block.tokens = chunk * CeilDiv(CeilDiv(state_bytes, token_bytes), chunk);
    block.formula = "c * ceil(ceil(m / a) / c), c = lcm(chunk, align)";
    block.substituted =
        fmt::format("{} * ceil(ceil({} / {}) / {})", chunk, Grouped(state_bytes), Grouped(token_bytes), chunk);
    return block;
  }
  block.tokens = align * CeilDiv(state_bytes, align * token_bytes);
  block.tokens = kernel * CeilDiv(block.tokens, kernel);
  block.formula = "align * ceil(m / (align * a))";
  block.substituted =
      fmt::format("{} * ceil({} / ({} * {}))", align, Grouped(state_bytes), align, Grouped(token_bytes));
  return block;
}

void CheckAlignedBlock(int64_t before, const VllmSetup& setup, PoolPlan& plan) {
  if (setup.block_size == before || !setup.backend.exact || !setup.rules.checks_aligned_block || plan.refused) return;
  const auto& blocks = setup.backend.kernel_blocks;
  if (std::find(blocks.begin(), blocks.end(), setup.block_size) != blocks.end()) return;
  plan.refused = Refusal{fmt::format("Aligned KV cache block size {} is not supported by attention backend(s): {}.",
                                     setup.block_size, setup.backend.name),
                         std::nullopt};
}

Status AlignHybrid(const ModelGeometry& model, const GenericHeads& generic, bool skips_layers, int64_t state_bytes,
                   VllmSetup& setup, PoolPlan& plan, VllmAlignment& alignment) {
  const Result<int64_t> token_bytes = AlignedTokenBytes(model, generic, setup, skips_layers);
  if (!token_bytes) return Error(token_bytes.error());
  const int64_t before = setup.block_size;
  const HybridBlock block = SmallestHybridBlock(model, setup, state_bytes, *token_bytes);
  plan.derivation.push_back({"bytes of one token in one attention layer (a)",
                             generic.latent_row > 0 ? "latent row" : "KV heads per rank * bytes of K and V of one head",
                             generic.latent_row > 0
                                 ? fmt::format("row of {} as {}", generic.latent_row, plan.resolved_kv_cache_dtype)
                                 : fmt::format("{} * {}", generic.heads, Grouped(*token_bytes / generic.heads)),
                             fmt::format("{} bytes", Grouped(*token_bytes))});
  if (setup.block_size < block.tokens) {
    setup.block_size = block.tokens;
    plan.log_lines.push_back(fmt::format(
        "Setting attention block size to {} tokens to ensure that attention page size is >= mamba page size.",
        block.tokens));
  }
  plan.derivation.push_back({"attention block, so that its page holds a state", block.formula, block.substituted,
                             fmt::format("{} tokens", Grouped(setup.block_size))});
  if (setup.shape.state_mode != VllmStateMode::kNone) alignment.state_block = setup.block_size;
  CheckAlignedBlock(before, setup, plan);
  const int64_t page = setup.block_size * *token_bytes;
  plan.derivation.push_back({"page", "block * a",
                             fmt::format("{} * {}", Grouped(setup.block_size), Grouped(*token_bytes)),
                             fmt::format("{} bytes", Grouped(page))});
  if (page == state_bytes) return {};
  alignment.padded_state_page = page;
  const double percent = 100.0 * static_cast<double>(page - state_bytes) / static_cast<double>(state_bytes);
  plan.log_lines.push_back(fmt::format(
      "Padding mamba page size by {:.2f}% to ensure that mamba page size and attention page size are exactly equal.",
      percent));
  plan.derivation.push_back(
      {"padding of a state", "100 * (page - m) / m",
       fmt::format("100 * ({} - {}) / {}", Grouped(page), Grouped(state_bytes), Grouped(state_bytes)),
       fmt::format("{:.2f}%", percent)});
  return {};
}

// The widths of one token that the second alignment compares; it knows no latent rows: K and V alike.
Result<int64_t> MixedTokenBytes(const ModelGeometry& model, const GenericHeads& generic, const VllmKvDtype& dtype) {
  if (generic.latent_row > 0 && dtype.mode == VllmKvMode::kFp8DsMla) {
    return int64_t{2} * generic.latent_row;
  }
  const int heads = generic.latent_row > 0 ? 1 : generic.heads;
  const int dim = generic.latent_row > 0 ? generic.latent_row : generic.dim;
  // The first layer's backend packs, and turboquant skips the first layer.
  if (dtype.mode == VllmKvMode::kTurboquant) return int64_t{heads} * 2 * dim;
  return VllmHeadBytes(dtype, heads, dim, dim, model.model_dtype_bytes);
}

Status AlignMixedDtypes(const ModelGeometry& model, const GenericHeads& generic, VllmSetup& setup, PoolPlan& plan,
                        VllmAlignment& alignment) {
  const Result<int64_t> primary = MixedTokenBytes(model, generic, setup.dtype);
  const Result<int64_t> skipped = MixedTokenBytes(model, generic, VllmKvDtype{"auto", VllmKvMode::kModelDtype});
  if (!primary) return Error(primary.error());
  if (!skipped) return Error(skipped.error());
  if (*primary >= *skipped) return {};
  const int64_t kernel = setup.backend.SmallestKernelBlock();
  const int64_t align = std::max(kernel, setup.block_size);
  const int64_t needed = std::max(*skipped * kernel, alignment.padded_state_page);
  const int64_t block = align * CeilDiv(needed, align * *primary);
  if (setup.block_size < block) {
    setup.block_size = block;
    plan.log_lines.push_back(fmt::format(
        "Setting attention block size to {} tokens so the quantized primary KV page covers the higher-precision "
        "padded-spec page.",
        block));
  }
  alignment.shared_page = setup.block_size * *primary;
  if (alignment.padded_state_page > 0) alignment.padded_state_page = alignment.shared_page;
  plan.derivation.push_back(
      {"block, so that a quantized page holds a skipped layer's", "align * ceil(max(s * k, state page) / (align * p))",
       fmt::format("{} * ceil({} / ({} * {}))", align, Grouped(needed), align, Grouped(*primary)),
       fmt::format("{} tokens, page {} bytes", Grouped(setup.block_size), Grouped(alignment.shared_page))});
  return {};
}

}  // namespace

Result<VllmAlignment> AlignVllmBlocks(const ModelGeometry& model, const PlanRequest& request,
                                      const std::vector<std::string>& skip_layers, int64_t state_bytes,
                                      VllmSetup& setup, PoolPlan& plan) {
  VllmAlignment alignment;
  alignment.state_block = setup.prefix_caching ? setup.block_size : setup.shape.max_model_len;
  const GenericHeads generic = HeadsOf(model, request.tensor_parallel);
  if (setup.hybrid && state_bytes > 0) {
    Status status = AlignHybrid(model, generic, !skip_layers.empty(), state_bytes, setup, plan, alignment);
    if (!status) return std::move(status).error();
  }
  // CPU platforms do not align mixed dtypes.
  if (!skip_layers.empty() && request.device == DeviceKind::kGpu && setup.rules.aligns_mixed_dtypes) {
    Status status = AlignMixedDtypes(model, generic, setup, plan, alignment);
    if (!status) return std::move(status).error();
  }
  return alignment;
}

}  // namespace haypile
