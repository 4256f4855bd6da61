#include "engines/metrics_text.h"

#include <fmt/format.h>

#include <cctype>
#include <cmath>
#include <cstdlib>

namespace haypile {
namespace {

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == ':' || c == '.';
}

void SkipSpaces(std::string_view& text) {
  while (!text.empty() && (text[0] == ' ' || text[0] == '\t')) text.remove_prefix(1);
}

std::optional<std::string> TakeName(std::string_view& text) {
  size_t end = 0;
  while (end < text.size() && IsNameCharacter(text[end])) ++end;
  if (end == 0 || std::isdigit(static_cast<unsigned char>(text[0])) != 0) return std::nullopt;
  std::string name(text.substr(0, end));
  text.remove_prefix(end);
  return name;
}

// A label's value after its opening quote; \n, \" and \\ are the escapes.
std::optional<std::string> TakeQuoted(std::string_view& text) {
  std::string value;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '"') {
      text.remove_prefix(i + 1);
      return value;
    }
    if (text[i] == '\\' && i + 1 < text.size()) {
      ++i;
      value += text[i] == 'n' ? '\n' : text[i];
    } else {
      value += text[i];
    }
  }
  return std::nullopt;
}

bool TakeLabels(std::string_view& text, MetricSample& sample) {
  if (text.empty() || text[0] != '{') return true;
  text.remove_prefix(1);
  for (;;) {
    SkipSpaces(text);
    if (!text.empty() && text[0] == '}') {
      text.remove_prefix(1);
      return true;
    }
    auto name = TakeName(text);
    SkipSpaces(text);
    if (!name || !text.starts_with("=")) return false;
    text.remove_prefix(1);
    SkipSpaces(text);
    if (!text.starts_with("\"")) return false;
    text.remove_prefix(1);
    auto value = TakeQuoted(text);
    if (!value) return false;
    sample.labels.emplace_back(std::move(*name), std::move(*value));
    SkipSpaces(text);
    if (text.starts_with(",")) {
      text.remove_prefix(1);
    } else if (!text.starts_with("}")) {
      return false;
    }
  }
}

std::optional<double> TakeValue(std::string_view& text) {
  const std::string word(text.substr(0, text.find_first_of(" \t")));
  if (word.empty() || word.size() > 64) return std::nullopt;
  char* end = nullptr;
  const double value = std::strtod(word.c_str(), &end);
  if (end != word.c_str() + word.size()) return std::nullopt;
  text.remove_prefix(word.size());
  return value;
}

bool ParseSample(std::string_view text, MetricSample& sample) {
  auto name = TakeName(text);
  if (!name) return false;
  sample.name = std::move(*name);
  SkipSpaces(text);
  if (!TakeLabels(text, sample)) return false;
  SkipSpaces(text);
  const auto value = TakeValue(text);
  if (!value) return false;
  sample.value = *value;
  SkipSpaces(text);
  if (text.empty() || text[0] == '#') return true;  // an exemplar may follow
  if (!TakeValue(text)) return false;               // a timestamp
  SkipSpaces(text);
  return text.empty() || text[0] == '#';
}

}  // namespace

const std::string* MetricSample::Label(std::string_view label) const {
  for (const auto& [key, value_text] : labels) {
    if (key == label) return &value_text;
  }
  return nullptr;
}

Result<std::vector<MetricSample>> ParseMetricsText(std::string_view text) {
  if (text.size() > kMaxMetricsBytes) return Error(ErrorCode::kMalformed, "metrics: longer than 64 MiB");
  std::vector<MetricSample> samples;
  for (int number = 1; !text.empty(); ++number) {
    const size_t end = text.find('\n');
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end == std::string_view::npos ? text.size() : end + 1);
    if (line.ends_with('\r')) line.remove_suffix(1);
    SkipSpaces(line);
    if (line.empty() || line[0] == '#') continue;
    MetricSample sample;
    if (!ParseSample(line, sample)) {
      return Error(ErrorCode::kMalformed,
                   fmt::format("metrics: line {}: expected 'name{{label=\"value\"}} number' of the Prometheus text "
                               "format, found '{}'",
                               number, line.substr(0, 80)));
    }
    if (samples.size() == kMaxMetricSamples) return Error(ErrorCode::kMalformed, "metrics: over a million samples");
    samples.push_back(std::move(sample));
  }
  if (samples.empty()) {
    return Error(ErrorCode::kMalformed, "metrics: no samples; expected the text of an engine's /metrics");
  }
  return samples;
}

}  // namespace haypile
