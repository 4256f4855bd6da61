#pragma once

#include <string>
#include <vector>

namespace haypile {

enum class FindingLevel { kNote, kWarning, kError };

// Something about a checkpoint that a reader should know. `code` is stable, for programs.
struct CheckpointFinding {
  FindingLevel level = FindingLevel::kNote;
  std::string code;
  std::string text;
  std::string advice;            // what to do; empty: nothing
  std::vector<int> layers = {};  // it speaks of, ascending; empty: of the whole
};

using CheckpointFindings = std::vector<CheckpointFinding>;

// "0-3, 7": runs of consecutive numbers; `numbers` ascending. Of many runs the first are written, and how many there
// are.
std::string RangesText(const std::vector<int>& numbers);

}  // namespace haypile
