#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace haypile {

// How vLLM manages the cache of one layer (v1/kv_cache_interface.py).
enum class VllmSpecKind { kFull, kMla, kSlidingWindow, kChunked, kState, kCross };

// The cache of one layer on one rank. Two specs that compare equal are managed alike.
struct VllmSpec {
  VllmSpecKind kind = VllmSpecKind::kFull;
  int64_t block_size = 0;     // tokens of one block; state layers: tokens between checkpoints
  int64_t token_bytes = 0;    // attention: bytes of one token
  int64_t state_bytes = 0;    // kState: bytes of one state
  int64_t padded_page = 0;    // bytes of one page where padding is asked for; 0: none
  int window = 0;             // kSlidingWindow, kChunked, and kFull that stands in for one of them
  bool chunked = false;       // kFull: `window` is a chunk
  int checkpoint_blocks = 0;  // kState: blocks for a prefill's checkpoint besides, in mode align
  std::string content;        // shape and dtype: layers of one size but another content are not merged

  bool operator==(const VllmSpec&) const = default;
  int64_t UnpaddedPage() const { return kind == VllmSpecKind::kState ? state_bytes : block_size * token_bytes; }
  int64_t Page() const { return padded_page > 0 ? padded_page : UnpaddedPage(); }
  bool IsFull() const { return kind == VllmSpecKind::kFull || kind == VllmSpecKind::kMla; }
};

// How many state blocks one request holds.
enum class VllmStateMode {
  kNone,   // one, and one for each speculative token
  kAlign,  // two: the state being read and the one being written
  kAll,    // one for each block of tokens
};

// What decides the blocks of one request besides the spec.
struct VllmRequestShape {
  int64_t max_model_len = 0;
  int64_t in_flight_tokens = 0;  // scheduled but not settled; windows keep them
  int64_t extra_retained = 0;    // tokens kept below a window for several MTP modules
  int64_t encoder_tokens = 0;
  int64_t speculative_tokens = 0;
  int decode_context_parallel = 1;
  VllmStateMode state_mode = VllmStateMode::kNone;
};

// Blocks of a request of max_model_len tokens in a group of this spec.
int64_t VllmBlocksPerRequest(const VllmSpec& spec, const VllmRequestShape& shape);

enum class VllmMerge { kSame, kDifferent, kWindowClash };
// Whether layers of these specs share one block table as one spec (the class's merge). kWindowClash: full-attention
// specs that stand in for windows of several sizes, which vLLM refuses with an error.
VllmMerge MergeVllmSpecs(const std::vector<const VllmSpec*>& specs);

// Whether these specs always need the same number of slots, so that one group may hold them with unlike pages.
bool IsUniformVllmType(const std::vector<VllmSpec>& specs);

std::string VllmSpecKindName(VllmSpecKind kind);  // "full attention", "sliding window", ...

int64_t CeilDiv(int64_t value, int64_t divisor);

}  // namespace haypile
