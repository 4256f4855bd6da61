#pragma once

#include <optional>
#include <string>
#include <vector>

#include "evaluate/verdict.h"

namespace haypile {

// Reasons gathered for one run: `against` proves harm, `unsure` keeps from shipping, `costs` are the findings in words.
struct CostJudgement {
  std::vector<std::string> costs;
  std::vector<std::string> against;
  std::vector<std::string> unsure;
  bool large_divergence =
      false;  // KL proved large, or logits that are no numbers: worth asking whether scales are to blame
};

// `floor` and `evidence` may be null.
CostJudgement JudgeCost(const CompareCost& cost, const NoiseFloor* floor, const RunEvidence* evidence);

// "noise", "small", "visible" or "large" by mean alone; what JudgeCost calls a KL.
std::string_view KlWord(double mean_kl, const NoiseFloor* floor);

}  // namespace haypile
