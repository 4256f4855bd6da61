#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace haypile {

// Numbers as people read them, the same in every report. A value that is not finite is "n/a".
inline constexpr std::string_view kNotMeasuredText = "-";

std::string FixedText(double value, int decimals);      // "12.30"
std::string SignificantText(double value, int digits);  // "0.0057", "34.4", "1.2e+06" beyond a million
// KL divergences: two significant digits below 1, zeros kept: "0.0080", "0.11", "1.25".
std::string KlText(double value);
std::string CountText(int64_t value);                        // "1,234,567"
std::string CountText(double value, int decimals);           // "1,234.5"
std::string BytesText(int64_t bytes);                        // "512 MiB", "22.5 KiB", "160 B"
std::string PercentText(double fraction, int decimals = 1);  // .953 -> "95.3%"
std::string RatioText(double ratio, int decimals = 2);       // "3.56x"
// "12.3 ±0.4": both with the decimals that three significant digits of the value ask for, one more for a tiny spread.
std::string WithSpread(double value, double spread);
std::string DurationText(double seconds);  // "3 min 20 s"

}  // namespace haypile
