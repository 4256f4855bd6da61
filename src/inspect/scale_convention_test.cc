#include "inspect/scale_convention.h"

#include <gtest/gtest.h>

#include <cmath>

namespace haypile {
namespace {

// Ranges that bfloat16 activations can have: 8 significant bits.
constexpr double kRanges[] = {3.828125, 17.25, 21.125, 9.4375, 30.5, 12.0625};
// Of float16: 11 significant bits, more than bfloat16 has.
constexpr double kHalfRanges[] = {3.830078125, 17.265625, 21.109375, 9.4453125, 30.484375, 12.0703125};

template <typename Ranges>
FamilySummary ScalesOfRanges(const Ranges& ranges, double divisor, const std::string& dtype = "F32") {
  FamilySummary family;
  family.dtypes = {dtype};
  int layer = 0;
  for (const double range : ranges) {
    const float scale = static_cast<float>(range) / static_cast<float>(divisor);
    family.k_values[layer] = {static_cast<double>(scale)};
    family.v_values[layer++] = {static_cast<double>(scale) / 4};
  }
  return family;
}

std::string Told(const FamilySummary& family) { return DivisorOfValues({&family}); }

TEST(ScaleConventionTest, TellsTheDivisorOfSixteenBitRanges) {
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 448)), "amax/448");
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 2688)), "amax/2688");
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 240)), "amax/240");
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 127)), "amax/127");
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 127.5)), "amax/127.5");
  EXPECT_EQ(Told(ScalesOfRanges(kHalfRanges, 448)), "amax/448");
  EXPECT_EQ(Told(ScalesOfRanges(kHalfRanges, 2688)), "amax/2688");
}

TEST(ScaleConventionTest, DivisorsThatDifferByAPowerOfTwoAreOne) {
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 224)), "amax/448");
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 57344)), "amax/448");
}

TEST(ScaleConventionTest, SaysNothingWhereTheValuesDoNot) {
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 448, "BF16")), "");  // rounded anew
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 1)), "");            // every divisor fits
  EXPECT_EQ(Told(ScalesOfRanges(kRanges, 500)), "");          // none does
  FamilySummary ones;
  ones.dtypes = {"F32"};
  ones.k_values = {{0, {1.0}}, {1, {1.0}}};
  EXPECT_EQ(Told(ones), "");
  // Averages have all the bits of a float.
  FamilySummary averages = ScalesOfRanges(kRanges, 448);
  averages.k_values[2] = {0.1234567};
  EXPECT_EQ(Told(averages), "");
}

TEST(ScaleConventionTest, PassesOverWhatWasNotDivided) {
  FamilySummary family = ScalesOfRanges(kRanges, 2688);
  family.k_values[7] = {1.0};
  family.k_values[8] = {0.0};
  family.k_values[9] = {std::nan("")};
  EXPECT_EQ(Told(family), "amax/2688");
}

}  // namespace
}  // namespace haypile
