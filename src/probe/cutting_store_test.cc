#include "probe/cutting_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>

#include "formats/e4m3fn.h"
#include "formats/e5m2.h"

namespace haypile {
namespace {

// Searched for among all values of the format.
float LargestNotAbove(KvFormat format, float x) {
  float best = 0;
  for (int code = 0; code < 256; ++code) {
    const auto c = static_cast<uint8_t>(code);
    const float value = format == KvFormat::kFp8E4m3 ? FloatFromE4m3fn(c) : FloatFromE5m2(c);
    if (std::isfinite(value) && std::abs(value) <= std::abs(x)) best = std::max(best, std::abs(value));
  }
  return std::copysign(best, x);
}

TEST(CuttingStore, CutsTowardsZero) {
  std::mt19937 random(3);
  std::uniform_real_distribution<float> exponent(-20, 17);
  for (const KvFormat format : {KvFormat::kFp8E4m3, KvFormat::kFp8E5m2}) {
    for (int i = 0; i < 2000; ++i) {
      const float x = std::exp2(exponent(random)) * (i % 2 == 0 ? 1.0f : -1.0f);
      EXPECT_EQ(CutToFormat(format, x), LargestNotAbove(format, x)) << x;
    }
    for (int code = 0; code < 256; ++code) {
      const float value = FloatFromE4m3fn(static_cast<uint8_t>(code));
      if (std::isnan(value)) continue;
      EXPECT_EQ(CutToFormat(KvFormat::kFp8E4m3, value), value);
    }
  }
  EXPECT_EQ(CutToFormat(KvFormat::kFp8E4m3, 1e9f), 448.0f);
  EXPECT_EQ(CutToFormat(KvFormat::kFp8E4m3, 1.99f), 1.875f);
  EXPECT_EQ(CutToFormat(KvFormat::kFp8E5m2, -1.99f), -1.75f);
  EXPECT_TRUE(std::isnan(CutToFormat(KvFormat::kFp8E4m3, std::nanf(""))));
}

TEST(CuttingStore, EachHeadsValuesAreCutAtItsScale) {
  ModelSpec spec;
  spec.kv_heads = 2;
  spec.head_dim = 2;
  const KvDtype fp8{KvFormat::kFp8E4m3, KvFormat::kFp8E4m3};
  CuttingStore store(spec, fp8, {{{1, 1}, {0.5f, 3}}, {{1, 1}, {1, 2}}});
  float k[] = {1.99f, -1.99f, 5.99f, 3, 0.99f, 0, 6.2f, 6}, v[] = {1.99f, 1, 3.99f, 2, 1, 1, 1, 1};
  store.Rewrite(1, k, v, 2);
  EXPECT_EQ(std::vector<float>(k, k + 8), (std::vector<float>{1.875f, -1.875f, 5.625f, 3, 0.9375f, 0, 6, 6}));
  EXPECT_EQ(std::vector<float>(v, v + 4), (std::vector<float>{1.875f, 1, 3.75f, 2}));
}

TEST(CuttingStore, KnowsTheFp8FormatsOfEngines) {
  EXPECT_TRUE(CanCut({KvFormat::kFp8E4m3, KvFormat::kFp8E4m3}));
  EXPECT_TRUE(CanCut({KvFormat::kFp8E5m2, KvFormat::kFp8E5m2}));
  EXPECT_FALSE(CanCut({KvFormat::kFp8E4m3, KvFormat::kBf16}));
  EXPECT_FALSE(CanCut({KvFormat::kNvfp4, KvFormat::kNvfp4}));
}

}  // namespace
}  // namespace haypile
