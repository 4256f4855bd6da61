#include "planner/number_text.h"

#include <fmt/format.h>

#include <cmath>

namespace haypile {

std::string Grouped(int64_t value) {
  std::string digits = fmt::format("{}", value < 0 ? -static_cast<uint64_t>(value) : static_cast<uint64_t>(value));
  for (int64_t at = static_cast<int64_t>(digits.size()) - 3; at > 0; at -= 3) digits.insert(at, 1, ',');
  return value < 0 ? "-" + digits : digits;
}

std::string GibText(int64_t bytes) {
  std::string text = fmt::format("{:.2f}", static_cast<double>(bytes) / (1LL << 30));
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text;
}

std::string Decimals(double value, int n) { return fmt::format("{:.{}f}", value, n); }

}  // namespace haypile
