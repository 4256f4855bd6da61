#include "report/number_text.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace haypile {
namespace {

TEST(NumberText, Counts) {
  EXPECT_EQ(CountText(int64_t{0}), "0");
  EXPECT_EQ(CountText(int64_t{999}), "999");
  EXPECT_EQ(CountText(int64_t{1000}), "1,000");
  EXPECT_EQ(CountText(int64_t{-1234567}), "-1,234,567");
  EXPECT_EQ(CountText(std::numeric_limits<int64_t>::min()), "-9,223,372,036,854,775,808");
  EXPECT_EQ(CountText(12345.678, 1), "12,345.7");
}

TEST(NumberText, Bytes) {
  EXPECT_EQ(BytesText(160), "160 B");
  EXPECT_EQ(BytesText(512 << 20), "512 MiB");
  EXPECT_EQ(BytesText(23040), "22.50 KiB");
  EXPECT_EQ(BytesText(269030016), "256.6 MiB");
}

TEST(NumberText, SignificantDigits) {
  EXPECT_EQ(SignificantText(0, 3), "0");
  EXPECT_EQ(SignificantText(448, 5), "448");
  EXPECT_EQ(SignificantText(4.5, 4), "4.5");
  EXPECT_EQ(SignificantText(3.3895313892515355e38, 3), "3.39e+38");
}

TEST(NumberText, Divergences) {
  EXPECT_EQ(KlText(0.008), "0.0080");
  EXPECT_EQ(KlText(0.0754), "0.075");
  EXPECT_EQ(KlText(0.00029), "0.00029");
  EXPECT_EQ(KlText(3e-7), "3.0e-07");
  EXPECT_EQ(KlText(1.254), "1.25");
  EXPECT_EQ(KlText(0), "0");
}

TEST(NumberText, SpreadsShareTheDecimalsOfTheValue) {
  EXPECT_EQ(WithSpread(12.345, 0.42), "12.3 ±0.4");
  EXPECT_EQ(WithSpread(11.01, 0.099), "11.0 ±0.1");
  EXPECT_EQ(WithSpread(1180.4, 14), "1,180 ±14");
  EXPECT_EQ(WithSpread(12.345, 0.02), "12.35 ±0.02");
  EXPECT_EQ(WithSpread(12.345, 0), "12.3");
}

TEST(NumberText, WhatIsNotFiniteSaysSo) {
  EXPECT_EQ(FixedText(NAN, 2), "n/a");
  EXPECT_EQ(KlText(INFINITY), "n/a");
  EXPECT_EQ(WithSpread(NAN, 1), "n/a");
  EXPECT_EQ(WithSpread(12, NAN), "12.0");
  EXPECT_EQ(PercentText(NAN), "n/a");
  EXPECT_EQ(RatioText(INFINITY), "n/a");
  EXPECT_EQ(DurationText(NAN), "n/a");
}

TEST(NumberText, Durations) {
  EXPECT_EQ(DurationText(59.4), "59 s");
  EXPECT_EQ(DurationText(212), "3 min 32 s");
  EXPECT_EQ(DurationText(7260), "2 h 1 min");
}

TEST(NumberText, NoNegativeZero) { EXPECT_EQ(FixedText(-0.0004, 2), "0.00"); }

}  // namespace
}  // namespace haypile
