#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "calibrate/kv_statistics.h"
#include "calibrate/magnitude_histogram.h"
#include "calibrate/scale_search.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

std::vector<float> Normal(size_t count, float spread, unsigned seed = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<float> normal(0, spread);
  std::vector<float> values(count);
  for (float& value : values) value = normal(random);
  return values;
}

RangeStatistics Range(const std::vector<float>& values) {
  RangeStatistics range;
  range.histogram.Add(values);
  range.rows = values;
  return range;
}

TEST(MagnitudeHistogram, QuantilesAreThoseOfTheSortedValuesToABin) {
  for (const float spread : {1e-20f, 1.0f, 1e25f}) {
    const std::vector<float> values = Normal(20000, spread);
    MagnitudeHistogram histogram;
    histogram.Add(std::span(values).first(7000));
    histogram.Add(std::span(values).subspan(7000));
    std::vector<float> sorted(values.size());
    std::ranges::transform(values, sorted.begin(), [](float x) { return std::fabs(x); });
    std::ranges::sort(sorted);
    EXPECT_EQ(histogram.amax(), sorted.back());
    EXPECT_EQ(histogram.Quantile(1), sorted.back());
    for (const double share : {0.01, 0.5, 0.99, 0.9995}) {
      const float exact = sorted[static_cast<size_t>(std::ceil(share * 20000)) - 1];
      EXPECT_GE(histogram.Quantile(share), exact);
      EXPECT_LE(histogram.Quantile(share), exact * (1 + 1.0f / 32));
    }
  }
}

TEST(MagnitudeHistogram, ZerosAndWhatIsNotFiniteAreCountedApart) {
  const float infinity = std::numeric_limits<float>::infinity();
  const std::vector<float> values{0, -0.0f, infinity, -infinity, std::nanf(""), -3, 2, 1e-45f};
  MagnitudeHistogram histogram;
  histogram.Add(values);
  EXPECT_EQ(histogram.count(), 8u);
  EXPECT_EQ(histogram.zeros(), 2u);
  EXPECT_EQ(histogram.not_finite(), 3u);
  EXPECT_EQ(histogram.amax(), 3);
  EXPECT_EQ(histogram.Quantile(0.4), 0);
  uint64_t binned = 0;
  histogram.ForEachBin([&](float magnitude, uint64_t count) {
    EXPECT_LE(magnitude, 3);
    binned += count;
  });
  EXPECT_EQ(binned, 3u);
}

ModelSpec SmallSpec() {
  ModelSpec spec;
  spec.layer_count = 2;
  spec.kv_heads = 2;
  spec.head_dim = 16;
  return spec;
}

TEST(KvStatistics, AllBatchesCountWhateverTheirSizes) {
  ThreadPool pool(1);
  const std::vector<float> k = Normal(300 * 32, 2), v = Normal(300 * 32, 0.1f, 4);
  KvStatistics whole(SmallSpec(), pool), pieces(SmallSpec(), pool);
  for (int layer = 0; layer < 2; ++layer) {
    whole.OnKv(layer, k.data(), v.data(), 300);
    for (int64_t row = 0, count = 1; row < 300; row += count, count = std::min<int64_t>(count * 3, 300 - row)) {
      pieces.OnKv(layer, k.data() + row * 32, v.data() + row * 32, count);
    }
  }
  EXPECT_EQ(whole.Serialize(), pieces.Serialize());
  EXPECT_EQ(whole.tokens(1), 300);
  EXPECT_TRUE(whole.Check().ok());
  EXPECT_EQ(whole.Of(0, KvSide::kK, 1).rows.size(), KvStatistics::kSampledRows * 16);
  float largest = 0;
  for (size_t row = 0; row < 300; ++row) {
    for (size_t i = 16; i < 32; ++i) largest = std::max(largest, std::fabs(k[row * 32 + i]));
  }
  EXPECT_EQ(whole.Of(0, KvSide::kK, 1).histogram.amax(), largest);
}

TEST(KvStatistics, TheStateIsReadBackAndAnotherModelsRefused) {
  ThreadPool pool(1);
  const std::vector<float> k = Normal(100 * 32, 2), v = Normal(100 * 32, 0.1f, 4);
  KvStatistics statistics(SmallSpec(), pool), again(SmallSpec(), pool);
  statistics.OnKv(0, k.data(), v.data(), 100);
  const std::string bytes = statistics.Serialize();
  ASSERT_TRUE(again.Deserialize(bytes));
  EXPECT_EQ(again.Serialize(), bytes);
  EXPECT_FALSE(KvStatistics(SmallSpec(), pool).Deserialize(bytes.substr(0, bytes.size() - 1)));
  EXPECT_FALSE(KvStatistics(SmallSpec(), pool).Deserialize(bytes + "x"));
  ModelSpec other = SmallSpec();
  other.head_dim = 32;
  EXPECT_FALSE(KvStatistics(other, pool).Deserialize(bytes));
}

TEST(KvStatistics, RangesOfWhichNoScaleCanBeMadeAreNamed) {
  ThreadPool pool(1);
  const auto message = [&](auto change, int layers) {
    KvStatistics statistics(SmallSpec(), pool);
    std::vector<float> k = Normal(10 * 32, 1), v = Normal(10 * 32, 1, 4);
    for (int layer = 0; layer < layers; ++layer) {
      if (layer == 1) change(k, v);
      statistics.OnKv(layer, k.data(), v.data(), 10);
    }
    const Status status = statistics.Check();
    return status.ok() ? std::string() : status.error().message();
  };
  const auto nothing = [](auto&, auto&) {};
  EXPECT_EQ(message(nothing, 2), "");
  EXPECT_NE(message(nothing, 1).find("seen in these layers: 1"), std::string::npos);
  const auto zero = [](auto&, std::vector<float>& v) {
    for (size_t i = 0; i < v.size(); ++i) {
      if (i % 32 < 16) v[i] = 0;
    }
  };
  EXPECT_NE(message(zero, 2).find("layer 1, KV head 0: V is zero in all 10 tokens"), std::string::npos);
  const auto nan = [](std::vector<float>& k, auto&) { k[7 * 32 + 20] = std::nanf(""); };
  EXPECT_NE(message(nan, 2).find("layer 1, KV head 1: K holds 1 values that are not finite"), std::string::npos);
}

TEST(ScaleSearch, AmaxIsDividedByWhatTheFormatHolds) {
  const RangeStatistics range = Range({0.5f, -7, 3, 1, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 1, 1});
  EXPECT_EQ(ScaleFor({KvFormat::kFp8E4m3}, range, 16), 7.0f / 448);
  EXPECT_EQ(ScaleFor({KvFormat::kFp8E4m3Fnuz}, range, 16), 7.0f / 240);
  EXPECT_EQ(ScaleFor({KvFormat::kNvfp4}, range, 16), 7.0f / 2688);
}

TEST(ScaleSearch, APercentileLeavesAnOutlierOut) {
  std::vector<float> values = Normal(16000, 1);
  values[5] = 500;
  const RangeStatistics range = Range(values);
  EXPECT_EQ(ScaleFor({KvFormat::kFp8E4m3}, range, 16), 500.0f / 448);
  const float scale = ScaleFor({KvFormat::kFp8E4m3, ScaleMethod::kPercentile, 99.9}, range, 16);
  EXPECT_GT(scale, 3.0f / 448);
  EXPECT_LT(scale, 4.0f / 448);
}

TEST(ScaleSearch, TheErrorOfBinsIsThatOfTheValues) {
  const std::vector<float> values = Normal(64000, 1);
  const RangeStatistics range = Range(values);
  for (const float scale : {0.001f, 0.01f, 1.0f}) {
    std::vector<uint16_t> codes(values.size());
    std::vector<float> decoded(values.size());
    EncodeRow(KvFormat::kFp8E4m3, values, scale, {codes, {}});
    DecodeRow(KvFormat::kFp8E4m3, codes, {}, scale, decoded);
    double error = 0, energy = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      error += std::pow(double{decoded[i]} - values[i], 2);
      energy += double{values[i]} * values[i];
    }
    EXPECT_NEAR(RelativeSquaredError(KvFormat::kFp8E4m3, scale, range, 16) / (error / energy), 1, 0.03) << scale;
  }
}

TEST(ScaleSearch, APowerOfTwoStoresNoValueInRangeWorseThanOne) {
  std::vector<float> values = Normal(64 * 64, 3);
  for (size_t i = 0; i < values.size(); i += 7) values[i] *= 1e-3f;
  const RangeStatistics range = Range(values);
  const float scale = ScaleFor({KvFormat::kFp8E4m3, ScaleMethod::kPow2}, range, 64);
  int exponent = 0;
  EXPECT_EQ(std::frexp(scale, &exponent), 0.5f);
  const float amax = ScaleFor({KvFormat::kFp8E4m3}, range, 64);
  EXPECT_GE(scale, amax);
  EXPECT_LT(scale, 2 * amax);
  std::vector<uint16_t> codes(values.size());
  std::vector<float> at_scale(values.size()), at_one(values.size());
  EncodeRow(KvFormat::kFp8E4m3, values, scale, {codes, {}});
  DecodeRow(KvFormat::kFp8E4m3, codes, {}, scale, at_scale);
  EncodeRow(KvFormat::kFp8E4m3, values, 1, {codes, {}});
  DecodeRow(KvFormat::kFp8E4m3, codes, {}, 1, at_one);
  int better = 0;
  for (size_t i = 0; i < values.size(); ++i) {
    const float error = std::fabs(at_scale[i] - values[i]), error_at_one = std::fabs(at_one[i] - values[i]);
    EXPECT_LE(error, error_at_one) << values[i];
    if (error < error_at_one) ++better;
  }
  EXPECT_GT(better, 500);  // those that are subnormal at 1.0
  const RangeStatistics exact = Range(std::vector<float>(16, 448 * 0.25f));
  EXPECT_EQ(ScaleFor({KvFormat::kFp8E4m3, ScaleMethod::kPow2}, exact, 16), 0.25f);
}

TEST(ScaleSearch, LeastErrorIsNeverWorseThanAmax) {
  std::vector<float> values = Normal(64 * 64, 1);
  for (size_t i = 0; i < values.size(); i += 7) values[i] *= 1e-4f;
  const RangeStatistics range = Range(values);
  for (const KvFormat format : {KvFormat::kFp8E4m3, KvFormat::kFp8E4m3Fnuz, KvFormat::kFp8E5m2, KvFormat::kNvfp4}) {
    const float amax = ScaleFor({format}, range, 64);
    const float least = ScaleFor({format, ScaleMethod::kMse}, range, 64);
    EXPECT_LE(RelativeSquaredError(format, least, range, 64), RelativeSquaredError(format, amax, range, 64));
    EXPECT_TRUE(IsUsableGlobalScale(least));
  }
}

}  // namespace
}  // namespace haypile
