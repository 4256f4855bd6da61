// Weights times block scales as 16-bit integers, for the rows of a block of tokens and one group of dims after the
// other. Included only by per-ISA units.
//
// All steps are powers of two, so that small powers of two lose nothing. With values of 8 bits the product is rounded:
// |error| <= 2^-15 of the largest weight times the largest scale. With values of 4 bits weights and scales are rounded
// apart, once each, and so is the product of the integers, eight or more in one instruction: each of the three
// roundings is within half a unit of 2^-15 of the largest weight or scale or of 2^-14 of their product, |error| <=
// 2^-13 in all, of which scales of E4M3 and E8M0, whose few bits are kept, take none. Codes of 4 bits are within 2^-4
// of their scale.
#ifndef HAYPILE_KERNELS_ATTENTION_INTEGER_WEIGHTS_H_
#define HAYPILE_KERNELS_ATTENTION_INTEGER_WEIGHTS_H_

#include "kernels/attention/int_products.h"

namespace haypile {
namespace {

template <int N, bool kFourBits, int kMostRows>
class IntegerWeights {
 public:
  using F = typename Vec<N>::F;
  using W = typename Vec<N>::W;

  // 16-bit integers that `memory` must hold, 64-byte aligned.
  static constexpr int64_t kIntegers = (2 * kMostRows + kMostScaleGroups) * kBlockTokens;

  explicit IntegerWeights(int16_t* memory) : memory_(memory) {}

  // A block of `tokens` tokens, a multiple of 16: weights(row), at most largest_weights[row] and zero for tokens past
  // the end, and scales [group][kBlockTokens]. They must stay until the last group is taken.
  template <typename Weights>
  void Enter(int rows, int tokens, Weights weights, const float* largest_weights, int groups, const float* scales) {
    rows_ = rows;
    tokens_ = tokens;
    scales_ = scales;
    largest_weights_ = largest_weights;
    for (int group = 0; group < groups; ++group) {
      largest_scale_[group] = LargestMagnitude<N>(scales + group * kBlockTokens, tokens);
    }
    for (int row = 0; row < rows; ++row) weights_[row] = weights(row);
    if constexpr (kFourBits) RoundApart(groups);
  }

  // From here on integers, steps and sums are those of this group of dims.
  void Take(int group) { kFourBits ? MultiplyRounded(group) : RoundProducts(group); }

  // weight * scale = step * integer; `sum` is that of the integers.
  const int16_t* integers(int row) const { return memory_ + int64_t{row} * kBlockTokens; }
  float step(int row) const { return steps_[row]; }
  int32_t sum(int row) const { return sums_[row]; }

 private:
  int16_t* RoundedWeights(int row) const { return memory_ + int64_t{kMostRows + row} * kBlockTokens; }
  int16_t* RoundedScales(int group) const { return memory_ + int64_t{2 * kMostRows + group} * kBlockTokens; }

  // Loops that find steps and loops that round are apart, so that rounding waits for no step.
  void RoundProducts(int group) {
    for (int row = 0; row < rows_; ++row) {
      const IntegerStep step = IntegerStep::PowerOfTwo(largest_weights_[row] * largest_scale_[group]);
      steps_[row] = step.step;
      inverses_[row] = step.inverse;
    }
    const float* scales = scales_ + group * kBlockTokens;
    for (int row = 0; row < rows_; ++row) {
      const float* weights = weights_[row];
      sums_[row] = RoundToInt16<N>(tokens_, inverses_[row], memory_ + int64_t{row} * kBlockTokens,
                                   [&](int i) { return LoadVec<F>(weights + i) * LoadVec<F>(scales + i); });
    }
  }

  void RoundApart(int groups) {
    for (int group = 0; group < groups; ++group) {
      const IntegerStep step = IntegerStep::PowerOfTwo(largest_scale_[group]);
      scale_steps_[group] = step.step * 32768;
      scale_inverses_[group] = step.inverse;
    }
    for (int row = 0; row < rows_; ++row) {
      const IntegerStep step = IntegerStep::PowerOfTwo(largest_weights_[row]);
      weight_steps_[row] = step.step;
      inverses_[row] = step.inverse;
    }
    for (int group = 0; group < groups; ++group) {
      const float* scales = scales_ + group * kBlockTokens;
      RoundToInt16<N>(tokens_, scale_inverses_[group], RoundedScales(group),
                      [&](int i) { return LoadVec<F>(scales + i); });
      ClearBeyond(RoundedScales(group));
    }
    for (int row = 0; row < rows_; ++row) {
      const float* weights = weights_[row];
      RoundToInt16<N>(tokens_, inverses_[row], RoundedWeights(row), [&](int i) { return LoadVec<F>(weights + i); });
    }
  }

  // Of vectors of 32 integers the last one may have only 16.
  void ClearBeyond(int16_t* scales) const {
    if (2 * N <= kTileTokens || tokens_ % (2 * N) == 0) return;
    std::fill(scales + tokens_, scales + tokens_ + kTileTokens, int16_t{0});
  }

  void MultiplyRounded(int group) {
    using I = typename Vec<N>::I;
    constexpr int kOnes = 0x00010001;
    const int16_t* scales = RoundedScales(group);
    for (int row = 0; row < rows_; ++row) {
      const int16_t* weights = RoundedWeights(row);
      int16_t* to = memory_ + int64_t{row} * kBlockTokens;
      I sum = {};
      for (int i = 0; i < tokens_; i += 2 * N) {
        const W product = MulHighRounded(LoadVec<W>(weights + i), LoadVec<W>(scales + i));
        StoreVec(to + i, product);
        sum = sum + MulPairs(product, (W)SplatInt<I>(kOnes));
      }
      sums_[row] = SumLanes<N>(sum);
      steps_[row] = weight_steps_[row] * scale_steps_[group];
    }
  }

  int16_t* const memory_;  // the products of a group, [row], and for 4 bits weights, [row], and scales, [group]
  int rows_ = 0, tokens_ = 0;
  const float *scales_ = nullptr, *largest_weights_ = nullptr;
  const float* weights_[kMostRows];
  float steps_[kMostRows], inverses_[kMostRows], weight_steps_[kMostRows];
  float largest_scale_[kMostScaleGroups], scale_steps_[kMostScaleGroups], scale_inverses_[kMostScaleGroups];
  int32_t sums_[kMostRows];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_INTEGER_WEIGHTS_H_
