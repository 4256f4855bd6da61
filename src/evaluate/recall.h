#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "evaluate/generator.h"
#include "report/compare_result.h"

namespace haypile {

// Planted-code recall: "The code of the blue warehouse is 7391-K." stands somewhere in a long context of unrelated
// prose; the prompt ends with "The code of the blue warehouse is" and the model must go on with the code. A completion,
// so base and chat models are asked alike. Everything follows from the options: no clock, no global state.
struct RecallOptions {
  std::vector<int64_t> context_tokens;  // sizes of whole prompts, the answer's room included
  std::vector<double> depths = {0.1, 0.3, 0.5, 0.7, 0.9};
  int seeds = 4;  // prompts for each size and depth, each with its own prose, place and code
};

struct RecallItem {
  int64_t context_tokens = 0;  // as asked for
  double depth_fraction = 0;   // as asked for; the planted sentence begins within a sentence of it
  int seed = 0;
  std::string code;              // "7391-K"
  std::vector<int32_t> prompt;   // context_tokens - kRecallAnswerTokens at most, short of it by less than a sentence
  int64_t planted_at_token = 0;  // tokens before the planted sentence
};
inline constexpr int kRecallAnswerTokens = 12;

// Items in order of context size, depth, seed. kInvalidArgument when a size is below kSmallestRecallContext or more
// than the four texts fill.
Result<std::vector<RecallItem>> MakeRecallItems(const TextCodec& codec, const RecallOptions& options);
inline constexpr int64_t kSmallestRecallContext = 96;

// Whether `output` names exactly this code first: leading blanks are skipped, and no letter or digit may follow it.
bool RecallPassed(std::string_view output, std::string_view code);

// Asks one item; true when the code came back.
Result<bool> AskRecall(TextGenerator& generator, const TextCodec& codec, const RecallItem& item);

// One point for each context size and depth, with Wilson intervals. `baseline` and `candidate` hold one entry an item,
// in the items' order. A point where the baseline never passes tells nothing; nor does one where both always pass
// (there the question is too easy to tell formats apart). A candidate that fails what the baseline always passes does
// tell.
std::vector<RecallPoint> SummarizeRecall(const std::vector<RecallItem>& items, const std::vector<bool>& baseline,
                                         const std::vector<bool>& candidate);

}  // namespace haypile
