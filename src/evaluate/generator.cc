#include "evaluate/generator.h"

namespace haypile {

Result<std::vector<std::vector<int32_t>>> TextGenerator::GreedyBatch(std::span<const std::vector<int32_t>> prompts,
                                                                     int max_new_tokens) {
  std::vector<std::vector<int32_t>> outputs;
  for (const std::vector<int32_t>& prompt : prompts) {
    HAYPILE_TRY_ASSIGN(std::vector<int32_t> output, Greedy(prompt, max_new_tokens));
    outputs.push_back(std::move(output));
  }
  return outputs;
}

}  // namespace haypile
