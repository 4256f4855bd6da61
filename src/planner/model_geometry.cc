#include "planner/model_geometry.h"

namespace haypile {

std::string CacheKindName(CacheKind kind) {
  switch (kind) {
    case CacheKind::kNone:
      return "no cache";
    case CacheKind::kFullAttention:
      return "full attention";
    case CacheKind::kSlidingWindow:
      return "sliding window";
    case CacheKind::kChunkedAttention:
      return "chunked attention";
    case CacheKind::kMla:
      return "latent attention";
    case CacheKind::kStateSpace:
      return "state";
    case CacheKind::kCrossAttention:
      return "cross attention";
  }
  return "no cache";
}

std::string StateKindName(StateKind kind) {
  switch (kind) {
    case StateKind::kMamba1:
      return "mamba1";
    case StateKind::kMamba2:
      return "mamba2";
    case StateKind::kGatedDeltaNet:
      return "gated_deltanet";
    case StateKind::kKda:
      return "kda";
    case StateKind::kShortConv:
      return "short_conv";
  }
  return "mamba2";
}

}  // namespace haypile
