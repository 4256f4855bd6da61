#include "inspect/finding.h"

namespace haypile {
namespace {

constexpr size_t kMostRuns = 24;

}  // namespace

std::string RangesText(const std::vector<int>& numbers) {
  std::string text;
  size_t runs = 0;
  for (size_t i = 0; i < numbers.size(); ++runs) {
    size_t last = i;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    if (runs < kMostRuns) {
      text += (text.empty() ? "" : ", ") + std::to_string(numbers[i]);
      if (last > i) text += "-" + std::to_string(numbers[last]);
    }
    i = last + 1;
  }
  if (runs > kMostRuns) text += ", ... " + std::to_string(numbers.back()) + " (" + std::to_string(runs) + " runs)";
  return text;
}

}  // namespace haypile
