#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace haypile {

// What the benches of decode attention run on: --head_dim, --kv_heads, --group, --context, --sequences, --queries,
// --pages and --threads.
struct AttentionBenchOptions {
  std::vector<int> head_dims = {64, 128};
  int kv_heads = 8;
  int group = 3;        // query heads of a KV head
  int context = 16384;  // cached tokens of each sequence
  int sequences = 1;
  int queries = 1;                 // rows of a sequence, as in speculative verification
  bool shuffled_pages = true;      // --pages=ordered: one after the other
  int threads = 0;                 // 0: every core
  std::vector<std::string> given;  // flags as given, for the output's context
};

// Takes its own flags out of argv, as benchmark::Initialize takes its. kInvalidArgument names a flag and its range.
Result<AttentionBenchOptions> TakeAttentionFlags(int* argc, char** argv);

// One bench for each format and head size: decode/FORMAT/D64/heads8/group3/16384.
void RegisterAttentionBenches(const AttentionBenchOptions& options);

}  // namespace haypile
