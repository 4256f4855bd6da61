#include "formats/error_metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numbers>
#include <vector>

#include "formats/row_codec.h"

namespace haypile {
namespace {

TEST(ErrorMetricsTest, SqnrOfKnownErrors) {
  const std::vector<float> reference = {3.0f, -4.0f};
  EXPECT_NEAR(SqnrDb(reference, std::vector<float>{3.5f, -4.0f}), 20.0, 1e-9);
  EXPECT_EQ(SqnrDb(reference, reference), std::numeric_limits<double>::infinity());
  EXPECT_TRUE(std::isnan(SqnrDb(reference, std::vector<float>{NAN, -4.0f})));
}

// Values measured with another implementation; every format has to reach its own within 0.2 dB.
TEST(ErrorMetricsTest, EveryFormatReachesItsSqnrOnGaussianData) {
  struct Expected {
    KvFormat format;
    double db;
  };
  const Expected table[] = {
      {KvFormat::kBf16, 55.6},
      {KvFormat::kFp16, 73.7},
      {KvFormat::kFp8E4m3, 31.5},
      {KvFormat::kFp8E4m3Fnuz, 31.5},
      {KvFormat::kFp8E5m2, 25.6},
      {KvFormat::kNvfp4, 20.4},
      {KvFormat::kNvfp4FourOverSix, 21.2},
      {KvFormat::kMxfp4, 18.8},
      {KvFormat::kInt8PerTokenHead, 43.8},
      {KvFormat::kQ8_0, 45.4},
      {KvFormat::kQ4_0, 21.3},
  };
  ASSERT_EQ(std::size(table), static_cast<size_t>(kKvFormatCount));
  for (const Expected& expected : table) {
    const double db = MeasureGaussianSqnrDb(expected.format);
    RecordProperty(std::string(InfoOf(expected.format).name), std::to_string(db));
    EXPECT_NEAR(db, expected.db, 0.2) << InfoOf(expected.format).name;
  }
}

double Density(double x) { return std::exp(-x * x / 2) / std::sqrt(2 * std::numbers::pi); }
double Tail(double x) { return std::erfc(x / std::numbers::sqrt2) / 2; }

// Integral of (x - value)^2 times the normal density from low to high, in closed form.
double NoisePower(double value, double low, double high) {
  const double mass = Tail(low) - Tail(high);
  const double first = Density(low) - Density(high);
  const double high_term = std::isinf(high) ? 0 : high * Density(high);
  const double second = mass + low * Density(low) - high_term;
  return second - 2 * value * first + value * value * mass;
}

// A format of float elements without scales has an exact SQNR: sum the noise of every code over the interval that
// rounds to it. Independent of the encoder and of random numbers; where the value of fp8_e4m3fnuz comes from.
TEST(ErrorMetricsTest, MeasurementAgreesWithTheIntegralOverEveryCode) {
  for (const KvFormat format :
       {KvFormat::kBf16, KvFormat::kFp16, KvFormat::kFp8E4m3, KvFormat::kFp8E4m3Fnuz, KvFormat::kFp8E5m2}) {
    std::vector<double> values;
    for (uint32_t code = 0; code < 1u << InfoOf(format).element_bits; ++code) {
      const float value = ElementValue(format, static_cast<uint16_t>(code));
      if (std::isfinite(value) && !std::signbit(value)) values.push_back(value);
    }
    std::sort(values.begin(), values.end());
    double noise = 0;
    for (size_t i = 0; i < values.size(); ++i) {
      const double low = i == 0 ? 0.0 : (values[i - 1] + values[i]) / 2;
      const double high = i + 1 == values.size() ? INFINITY : (values[i] + values[i + 1]) / 2;
      if (low > 12) break;
      noise += 2 * NoisePower(values[i], low, high);
    }
    EXPECT_NEAR(MeasureGaussianSqnrDb(format), -10 * std::log10(noise), 0.05) << InfoOf(format).name;
  }
}

}  // namespace
}  // namespace haypile
