// Weights times block scales as 16-bit integers, for the rows of a block of tokens and one group of dims after the
// other. Included only by per-ISA units.
#ifndef HAYPILE_KERNELS_ATTENTION_INTEGER_WEIGHTS_H_
#define HAYPILE_KERNELS_ATTENTION_INTEGER_WEIGHTS_H_

#include "kernels/attention/int_products.h"

namespace haypile {
namespace {

// kSums: for elements that are read with an offset, sums of the integers are kept.
template <int N, int kMostRows, bool kSums>
class IntegerWeights {
 public:
  using F = typename Vec<N>::F;

  // A block of `tokens` tokens, a multiple of 16: weights [row][kBlockTokens], those of a row at most
  // largest_weights[row], and scales [group][kBlockTokens], zero for tokens past the end. All must stay until the last
  // group is taken.
  IntegerWeights(int rows, int tokens, const float* weights, const float* largest_weights, int groups,
                 const float* scales)
      : rows_(rows), tokens_(tokens), weights_(weights), largest_weights_(largest_weights), scales_(scales) {
    for (int group = 0; group < groups; ++group) {
      largest_scale_[group] = LargestMagnitude<N>(scales + group * kBlockTokens, tokens);
    }
  }

  // From here on integers, steps and sums are those of this group of dims. Two loops, so that rounding waits for no
  // step.
  void Take(int group) {
    for (int row = 0; row < rows_; ++row) {
      const IntegerStep step = IntegerStep::PowerOfTwo(largest_weights_[row] * largest_scale_[group]);
      steps_[row] = step.step;
      inverses_[row] = step.inverse;
    }
    const float* scales = scales_ + group * kBlockTokens;
    for (int row = 0; row < rows_; ++row) {
      const float* weights = weights_ + row * kBlockTokens;
      sums_[row] = RoundToInt16<N, kSums>(tokens_, inverses_[row], integers_[row],
                                          [&](int i) { return LoadVec<F>(weights + i) * LoadVec<F>(scales + i); });
    }
  }

  // weight * scale = step * integer, within half a step; `sum` is that of the integers.
  const int16_t* integers(int row) const { return integers_[row]; }
  float step(int row) const { return steps_[row]; }
  int32_t sum(int row) const { return sums_[row]; }

 private:
  const int rows_, tokens_;
  const float *const weights_, *const largest_weights_, *const scales_;
  alignas(64) int16_t integers_[kMostRows][kBlockTokens];
  float steps_[kMostRows], inverses_[kMostRows], largest_scale_[kMostScaleGroups];
  int32_t sums_[kMostRows];
};

}  // namespace
}  // namespace haypile

#endif  // HAYPILE_KERNELS_ATTENTION_INTEGER_WEIGHTS_H_
