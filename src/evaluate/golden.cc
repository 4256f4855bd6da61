#include "evaluate/golden.h"

#include <algorithm>

#include "base/check.h"
#include "evaluate/evaluation_text.h"
#include "evaluate/statistics.h"

namespace haypile {
namespace {

// `size` bytes of a text from its paragraph `paragraph` on, cut at a line end: about size/4 tokens of context.
std::string Excerpt(std::string_view name, int paragraph, size_t size) {
  const std::string_view text = EvaluationText(name);
  size_t start = 0;
  for (int i = 0; i < paragraph; ++i) start = text.find('\n', start) + 1;
  const size_t end = text.rfind('\n', start + size);
  return std::string(text.substr(start, end - start)) + "\n\n";
}

std::vector<GoldenPromptText> MakePrompts() {
  return {
      {"story", "The old clock in the station hall had stopped at nine, and nobody in the village"},
      {"recipe", "To bake a simple loaf of bread at home, you need the following ingredients:\n1."},
      {"science", "The sky looks blue during the day because"},
      {"letter", "Dear Mr. Brown,\n\nThank you for your letter of the third of May. I am writing to tell you that"},
      {"code", "def is_prime(n):\n    \"\"\"Return True if n is a prime number.\"\"\"\n"},
      {"list", "The planets of the solar system, in order of their distance from the sun, are: Mercury, Venus,"},
      {"dialogue", "\"Where did you put the map?\" asked Anna.\n\"I left it on the table,\" said Peter.\n\""},
      {"json", "{\"users\": [{\"id\": 1, \"name\": \"Ada\", \"active\": true}, {\"id\": 2, \"name\":"},
      {"narrative-page", Excerpt("narrative", 6, 3000) + "The next morning"},
      {"essay-page", Excerpt("essays", 4, 3000) + "In other words,"},
      {"handbook-page", Excerpt("handbook", 20, 3000) + "In short, the controller on duty must"},
      {"almanac-page", Excerpt("almanac", 10, 3000) + "The most important facts above are:\n1."},
  };
}

}  // namespace

const std::vector<GoldenPromptText>& GoldenPrompts() {
  static const std::vector<GoldenPromptText> prompts = MakePrompts();
  return prompts;
}

Result<std::vector<GoldenOutput>> RunGolden(TextGenerator& generator, const TextCodec& codec, int max_new_tokens) {
  std::vector<std::vector<int32_t>> prompts;
  for (const GoldenPromptText& prompt : GoldenPrompts()) prompts.push_back(codec.encode(prompt.text, true));
  HAYPILE_TRY_ASSIGN(std::vector<std::vector<int32_t>> tokens, generator.GreedyBatch(prompts, max_new_tokens));
  HAYPILE_CHECK_EQ(tokens.size(), prompts.size());
  std::vector<GoldenOutput> outputs;
  for (std::vector<int32_t>& output : tokens) {
    std::string text = codec.decode(output);
    outputs.push_back({std::move(output), std::move(text)});
  }
  return outputs;
}

std::optional<int64_t> FirstDivergence(std::span<const int32_t> baseline, std::span<const int32_t> candidate) {
  const auto [a, b] = std::mismatch(baseline.begin(), baseline.end(), candidate.begin(), candidate.end());
  if (a == baseline.end() && b == candidate.end()) return std::nullopt;
  return a - baseline.begin();
}

GoldenResult CompareGolden(const std::vector<GoldenOutput>& baseline, const std::vector<GoldenOutput>& candidate) {
  const std::vector<GoldenPromptText>& prompts = GoldenPrompts();
  HAYPILE_CHECK_EQ(baseline.size(), prompts.size());
  HAYPILE_CHECK_EQ(candidate.size(), prompts.size());
  GoldenResult result;
  std::vector<double> divergences;
  for (size_t i = 0; i < prompts.size(); ++i) {
    GoldenPrompt row;
    row.prompt = prompts[i].name;
    row.first_divergence = FirstDivergence(baseline[i].tokens, candidate[i].tokens);
    row.exact = !row.first_divergence.has_value();
    row.generated_tokens = static_cast<int64_t>(std::max(baseline[i].tokens.size(), candidate[i].tokens.size()));
    if (row.exact) {
      ++result.exact;
    } else {
      divergences.push_back(static_cast<double>(*row.first_divergence));
      row.baseline_text = baseline[i].text;
      row.text = candidate[i].text;
    }
    result.list.push_back(std::move(row));
  }
  result.prompts = static_cast<int64_t>(prompts.size());
  if (!divergences.empty()) result.first_divergence_median = Median(divergences);
  return result;
}

}  // namespace haypile
