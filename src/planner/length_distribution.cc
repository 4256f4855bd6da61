#include "planner/length_distribution.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>

namespace haypile {
namespace {

constexpr int64_t kLongestRequest = int64_t{1} << 40;
constexpr double kMostOccurrences = 1e12;

std::string_view Trim(std::string_view text) {
  constexpr std::string_view kBlank = " \t\r";
  const size_t first = text.find_first_not_of(kBlank);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

template <typename Number>
bool ReadNumber(std::string_view text, Number* value) {
  const auto [stop, code] = std::from_chars(text.data(), text.data() + text.size(), *value);
  return code == std::errc() && stop == text.data() + text.size();
}

// "1800" or "1800,12" or "1800 12".
bool ReadLine(std::string_view line, int64_t* tokens, double* count) {
  const size_t split = line.find_first_of(", \t;");
  *count = 1.0;
  if (!ReadNumber(line.substr(0, split), tokens)) return false;
  if (split == std::string_view::npos) return true;
  std::string_view rest = Trim(line.substr(split));
  if (!rest.empty() && (rest.front() == ',' || rest.front() == ';')) rest = Trim(rest.substr(1));
  return ReadNumber(rest, count);
}

std::vector<LengthDistribution::Share> Merge(const std::map<int64_t, double>& counts, double total) {
  std::vector<LengthDistribution::Share> shares;
  const size_t step = (counts.size() + LengthDistribution::kMostShares - 1) / LengthDistribution::kMostShares;
  size_t in_group = 0;
  double count = 0.0;
  for (auto entry = counts.begin(); entry != counts.end(); ++entry) {
    count += entry->second;
    if (++in_group == step || std::next(entry) == counts.end()) {
      shares.push_back({entry->first, count / total});
      in_group = 0;
      count = 0.0;
    }
  }
  return shares;
}

}  // namespace

LengthDistribution LengthDistribution::Constant(int64_t tokens) {
  LengthDistribution lengths;
  lengths.shares_.push_back({tokens, 1.0});
  return lengths;
}

Result<LengthDistribution> LengthDistribution::Parse(std::string_view text, const std::string& file) {
  std::map<int64_t, double> counts;
  double total = 0.0;
  size_t number = 0;
  for (size_t start = 0; start <= text.size();) {
    const size_t end = std::min(text.find('\n', start), text.size());
    const std::string_view line = Trim(text.substr(start, end - start));
    start = end + 1;
    ++number;
    if (line.empty() || line.front() == '#') continue;
    int64_t tokens = 0;
    double count = 0.0;
    if (!ReadLine(line, &tokens, &count) || tokens < 1 || tokens > kLongestRequest || !(count > 0.0) ||
        count > kMostOccurrences) {
      return Error(ErrorCode::kMalformed,
                   "'" + file + "': line " + std::to_string(number) + ": '" + std::string(line.substr(0, 60)) +
                       "': expected a length in tokens and, after a comma or blank, how often it occurs");
    }
    counts[tokens] += count;
    total += count;
  }
  if (counts.empty()) return Error(ErrorCode::kMalformed, "'" + file + "': holds no request length");
  LengthDistribution lengths;
  lengths.shares_ = Merge(counts, total);
  return lengths;
}

double LengthDistribution::MeanTokens() const {
  double mean = 0.0;
  for (const Share& share : shares_) mean += share.share * static_cast<double>(share.tokens);
  return mean;
}

int64_t LengthDistribution::LongestTokens() const { return shares_.back().tokens; }

double LengthDistribution::ShareAbove(int64_t tokens) const {
  double above = 0.0;
  for (const Share& share : shares_) above += share.tokens > tokens ? share.share : 0.0;
  return above;
}

std::optional<double> ConcurrentRequests(const LengthDistribution& lengths,
                                         const std::function<std::optional<double>(int64_t)>& concurrency) {
  double pool_share = 0.0;
  for (const LengthDistribution::Share& share : lengths.shares()) {
    const std::optional<double> fit = concurrency(share.tokens);
    if (!fit || !(*fit > 0.0)) return std::nullopt;
    pool_share += share.share / *fit;
  }
  return 1.0 / pool_share;
}

}  // namespace haypile
