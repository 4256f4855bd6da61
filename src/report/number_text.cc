#include "report/number_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace haypile {
namespace {

constexpr std::string_view kNotFinite = "n/a";

// Puts commas between groups of three digits of the whole part.
std::string Grouped(std::string text) {
  const size_t first = text.starts_with('-') ? 1 : 0;
  const size_t point = std::min(text.find('.'), text.size());
  for (size_t at = point; at > first + 3;) {
    at -= 3;
    text.insert(text.begin() + static_cast<std::ptrdiff_t>(at), ',');
  }
  return text;
}

// Decimals that show `digits` significant digits of `value`.
int DecimalsFor(double value, int digits) {
  if (value == 0) return 0;
  return std::clamp(digits - 1 - static_cast<int>(std::floor(std::log10(std::abs(value)))), 0, 6);
}

}  // namespace

std::string FixedText(double value, int decimals) {
  if (!std::isfinite(value)) return std::string(kNotFinite);
  std::string text = fmt::format("{:.{}f}", value, decimals);
  // A rounded-away minus sign says nothing.
  if (text.starts_with('-') && text.find_first_of("123456789") == std::string::npos) text.erase(0, 1);
  return text;
}

std::string SignificantText(double value, int digits) {
  if (!std::isfinite(value)) return std::string(kNotFinite);
  const double size = std::abs(value);
  if (size >= 1e6 || (size > 0 && size < 1e-5)) return fmt::format("{:.{}e}", value, digits - 1);
  std::string text = FixedText(value, DecimalsFor(value, digits));
  if (text.find('.') != std::string::npos) {
    text.erase(text.find_last_not_of('0') + 1);
    if (text.back() == '.') text.pop_back();
  }
  return text;
}

std::string KlText(double value) {
  const double size = std::abs(value);
  if (!std::isfinite(value) || size >= 1e6 || (size > 0 && size < 1e-5)) return SignificantText(value, 2);
  return FixedText(value, DecimalsFor(value, size < 1 ? 2 : 3));
}

std::string CountText(int64_t value) { return Grouped(fmt::format("{}", value)); }

std::string CountText(double value, int decimals) { return Grouped(FixedText(value, decimals)); }

std::string BytesText(int64_t bytes) {
  constexpr std::array<const char*, 5> kUnits{"B", "KiB", "MiB", "GiB", "TiB"};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (std::abs(value) >= 1024 && unit + 1 < kUnits.size()) {
    value /= 1024;
    ++unit;
  }
  const bool whole = value == std::floor(value);
  return fmt::format("{:.{}f} {}", value, whole ? 0 : std::abs(value) < 100 ? 2 : 1, kUnits[unit]);
}

std::string PercentText(double fraction, int decimals) {
  if (!std::isfinite(fraction)) return std::string(kNotFinite);
  return FixedText(fraction * 100, decimals) + "%";
}

std::string RatioText(double ratio, int decimals) {
  if (!std::isfinite(ratio)) return std::string(kNotFinite);
  return FixedText(ratio, decimals) + "x";
}

std::string WithSpread(double value, double spread) {
  if (!std::isfinite(value)) return std::string(kNotFinite);
  const int decimals = DecimalsFor(value, 3);
  if (!std::isfinite(spread) || spread <= 0) return CountText(value, decimals);
  const bool vanishes = spread < std::pow(10., -decimals) / 2;
  const int both = decimals + (vanishes ? 1 : 0);
  return CountText(value, both) + " ±" + CountText(spread, both);
}

std::string DurationText(double seconds) {
  if (!std::isfinite(seconds) || seconds < 0) return std::string(kNotFinite);
  const auto whole = static_cast<int64_t>(std::min(std::round(seconds), 1e12));
  if (whole < 60) return fmt::format("{} s", whole);
  if (whole < 3600) return fmt::format("{} min {} s", whole / 60, whole % 60);
  return fmt::format("{} h {} min", whole / 3600, whole % 3600 / 60);
}

}  // namespace haypile
