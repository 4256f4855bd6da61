#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "evaluate/generator.h"
#include "report/compare_result.h"

namespace haypile {

// Golden prompts: a dozen fixed prompts, continued greedily under both dtypes and compared token by token. Where two
// continuations part says how soon a reader would notice; that they part says little, because one near-tie decides it:
// the baseline's own arithmetic in another order parts as well. Judge by the rate beside the baseline's, not alone.
struct GoldenPromptText {
  std::string name;
  std::string text;  // to be continued; four of the twelve carry a page of the evaluation texts in front
};
const std::vector<GoldenPromptText>& GoldenPrompts();
inline constexpr int kGoldenNewTokens = 48;

struct GoldenOutput {
  std::vector<int32_t> tokens;
  std::string text;
};
// Continues every prompt by up to `max_new_tokens` tokens.
Result<std::vector<GoldenOutput>> RunGolden(TextGenerator& generator, const TextCodec& codec,
                                            int max_new_tokens = kGoldenNewTokens);

// Index of the first token that differs; the shorter length when one is the beginning of the other; nothing when equal.
std::optional<int64_t> FirstDivergence(std::span<const int32_t> baseline, std::span<const int32_t> candidate);

// Compares outputs of GoldenPrompts() in its order; both vectors have one entry a prompt.
GoldenResult CompareGolden(const std::vector<GoldenOutput>& baseline, const std::vector<GoldenOutput>& candidate);

}  // namespace haypile
