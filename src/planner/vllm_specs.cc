#include "planner/vllm_specs.h"

#include <algorithm>
#include <set>

#include "base/check.h"

namespace haypile {
namespace {

bool AllEqual(const std::vector<const VllmSpec*>& specs) {
  return std::all_of(specs.begin(), specs.end(), [&specs](const VllmSpec* spec) { return *spec == *specs.front(); });
}

VllmMerge MergeFull(const std::vector<const VllmSpec*>& specs) {
  std::set<int> windows;
  std::set<int> chunks;
  for (const VllmSpec* spec : specs) {
    if (spec->kind != VllmSpecKind::kFull) return VllmMerge::kDifferent;
    if (spec->window > 0) (spec->chunked ? chunks : windows).insert(spec->window);
  }
  if (windows.size() > 1 || chunks.size() > 1) return VllmMerge::kWindowClash;
  for (const VllmSpec* spec : specs) {
    VllmSpec plain = *spec;
    plain.window = specs.front()->window;
    plain.chunked = specs.front()->chunked;
    if (plain != *specs.front()) return VllmMerge::kDifferent;
  }
  return windows.empty() || chunks.empty() ? VllmMerge::kSame : VllmMerge::kDifferent;
}

}  // namespace

int64_t CeilDiv(int64_t value, int64_t divisor) {
  HAYPILE_CHECK(divisor > 0);
  return (value + divisor - 1) / divisor;
}

int64_t VllmBlocksPerRequest(const VllmSpec& spec, const VllmRequestShape& shape) {
  const int64_t length = shape.max_model_len;
  switch (spec.kind) {
    case VllmSpecKind::kFull:
    case VllmSpecKind::kMla:
      return CeilDiv(CeilDiv(length, shape.decode_context_parallel), spec.block_size);
    case VllmSpecKind::kSlidingWindow:
      // One more: the window may begin inside a block.
      return CeilDiv(std::min(spec.window - 1 + shape.extra_retained + shape.in_flight_tokens, length),
                     spec.block_size) +
             1;
    case VllmSpecKind::kChunked:
      return CeilDiv(std::min(spec.window + shape.in_flight_tokens, length), spec.block_size);
    case VllmSpecKind::kCross:
      return CeilDiv(shape.encoder_tokens, spec.block_size);
    case VllmSpecKind::kState:
      switch (shape.state_mode) {
        case VllmStateMode::kNone:
          return 1 + shape.speculative_tokens;
        case VllmStateMode::kAlign:
          return 2 + shape.speculative_tokens + spec.checkpoint_blocks;
        case VllmStateMode::kAll:
          return CeilDiv(length, spec.block_size) + shape.speculative_tokens;
      }
  }
  HAYPILE_CHECK(false);
  return 0;
}

VllmMerge MergeVllmSpecs(const std::vector<const VllmSpec*>& specs) {
  HAYPILE_CHECK(!specs.empty());
  if (specs.front()->kind == VllmSpecKind::kFull) return MergeFull(specs);
  return AllEqual(specs) ? VllmMerge::kSame : VllmMerge::kDifferent;
}

bool IsUniformVllmType(const std::vector<VllmSpec>& specs) {
  HAYPILE_CHECK(!specs.empty());
  const VllmSpec& first = specs.front();
  return std::all_of(specs.begin(), specs.end(), [&first](const VllmSpec& spec) {
    if (spec.block_size != first.block_size) return false;
    if (first.IsFull()) return spec.IsFull();
    if (spec.kind != first.kind) return false;
    if (first.kind == VllmSpecKind::kState) return spec.Page() == first.Page();
    return spec.window == first.window;
  });
}

std::string VllmSpecKindName(VllmSpecKind kind) {
  switch (kind) {
    case VllmSpecKind::kFull:
      return "full attention";
    case VllmSpecKind::kMla:
      return "latent attention";
    case VllmSpecKind::kSlidingWindow:
      return "sliding window";
    case VllmSpecKind::kChunked:
      return "chunked attention";
    case VllmSpecKind::kState:
      return "recurrent state";
    case VllmSpecKind::kCross:
      return "cross attention";
  }
  HAYPILE_CHECK(false);
  return {};
}

}  // namespace haypile
