#include "planner/byte_size.h"

#include <charconv>
#include <cmath>

namespace haypile {
namespace {

constexpr double kLargestCount = 9.0e18;

// Power of the unit's base: k 1, m 2, g 3, t 4; 0 for none, -1 for an unknown letter.
int PowerOf(char letter) {
  constexpr std::string_view kLetters = "kmgt";
  const char small = static_cast<char>(letter | 0x20);
  const size_t at = kLetters.find(small);
  return at == std::string_view::npos ? -1 : static_cast<int>(at) + 1;
}

struct Unit {
  double bytes = 0.0;  // 0: unknown
  bool whole_numbers_only = false;
};

// "", "B", "k", "K", "kB", "KB", "KiB", "kib", ... A capital letter alone is binary; one with B is decimal.
Unit UnitOf(std::string_view suffix) {
  if (suffix.empty() || suffix == "B" || suffix == "b") return {1.0};
  const int power = PowerOf(suffix.front());
  if (power < 0) return {};
  const std::string_view rest = suffix.substr(1);
  if (rest.empty()) {
    const bool capital = suffix.front() >= 'A' && suffix.front() <= 'Z';
    return {std::pow(capital ? 1024.0 : 1000.0, power), capital};
  }
  if (rest == "b" || rest == "B") return {std::pow(1000.0, power)};
  if (rest == "ib" || rest == "iB" || rest == "i" || rest == "IB") return {std::pow(1024.0, power)};
  return {};
}

}  // namespace

Result<int64_t> ParseCount(std::string_view text, const std::string& flag) {
  const Error bad(ErrorCode::kInvalidArgument, flag + ": '" + std::string(text) +
                                                   "' is not a positive number; expected e.g. 8500000000, 8.5g "
                                                   "(10^9), 8G or 8.5GiB (2^30)");
  int64_t exact = 0;
  const char* const end = text.data() + text.size();
  if (const auto [stop, code] = std::from_chars(text.data(), end, exact); code == std::errc() && stop == end) {
    return exact > 0 ? Result<int64_t>(exact) : Result<int64_t>(bad);
  }
  double value = 0.0;
  const auto [stop, code] = std::from_chars(text.data(), end, value);
  if (code != std::errc() || !std::isfinite(value)) return bad;
  const char* unit_start = stop;
  while (unit_start != end && *unit_start == ' ') ++unit_start;
  const Unit unit = UnitOf(std::string_view(unit_start, static_cast<size_t>(end - unit_start)));
  if (unit.bytes == 0.0) return bad;
  if (unit.whole_numbers_only && value != std::floor(value)) {
    return Error(ErrorCode::kInvalidArgument,
                 flag + ": '" + std::string(text) +
                     "': a capital suffix is a power of 1024 and takes whole numbers only; "
                     "write a small one (powers of 1000) or GiB");
  }
  const double bytes = std::floor(value * unit.bytes);
  if (bytes < 1.0 || bytes > kLargestCount) return bad;
  return static_cast<int64_t>(bytes);
}

}  // namespace haypile
