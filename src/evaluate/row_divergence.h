#pragma once

#include <cstdint>
#include <span>

namespace haypile {

// What one position's two rows of logits say about each other. P is the baseline's distribution, Q the candidate's.
struct RowDivergence {
  double kl = 0;             // sum P (log P - log Q), nats, >= 0
  double baseline_nll = 0;   // -log P(target), nats
  double candidate_nll = 0;  // -log Q(target), nats
  bool same_top1 = false;    // both rows have their (first) largest logit at the same token
  // Whether all logits were numbers below +inf, with at least one above -inf in each row. When false, the figures above
  // are zero and must not be counted as agreement.
  bool finite = false;
};

// Compares two rows of V >= 1 logits of the same position; `target` in [0, V) is the token that really follows.
// -inf marks an impossible token: it adds nothing when both rows have it; where only the candidate has it, its
// log-probability counts as -kLogitFloor below the row's largest. Exponentials are taken in float (relative error below
// 3e-7), sums in double: the absolute error of `kl` stays below 1e-6, a thousandth of the noise floor of BF16
// arithmetic.
RowDivergence CompareRows(std::span<const float> baseline, std::span<const float> candidate, int32_t target);
inline constexpr float kLogitFloor = -1000.0f;

}  // namespace haypile
