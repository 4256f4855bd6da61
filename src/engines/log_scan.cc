#include "engines/log_scan.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>

#include "base/text.h"

namespace haypile {
namespace {

bool IsDigit(char c) { return c >= '0' && c <= '9'; }
bool IsWord(char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; }

}  // namespace

std::optional<std::string_view> After(std::string_view line, std::string_view marker) {
  const size_t at = line.find(marker);
  if (at == std::string_view::npos) return std::nullopt;
  return line.substr(at + marker.size());
}

std::optional<std::string_view> Between(std::string_view line, std::string_view begin, std::string_view end) {
  const auto rest = After(line, begin);
  if (!rest) return std::nullopt;
  const size_t at = rest->find(end);
  if (at == std::string_view::npos) return std::nullopt;
  return rest->substr(0, at);
}

bool Contains(std::string_view line, std::string_view part) { return line.find(part) != std::string_view::npos; }

bool ContainsNoCase(std::string_view line, std::string_view part) {
  return std::search(line.begin(), line.end(), part.begin(), part.end(),
                     [](char a, char b) { return LowerCase(a) == b; }) != line.end();
}

std::optional<double> NumberAt(std::string_view text) {
  size_t i = 0;
  while (i < text.size() && (text[i] == ' ' || text[i] == '(')) ++i;
  std::string digits;
  if (i < text.size() && (text[i] == '-' || text[i] == '+')) digits += text[i++];
  bool any = false, point = false;
  for (; i < text.size() && digits.size() < 40; ++i) {
    const char c = text[i];
    if (IsDigit(c)) {
      digits += c;
      any = true;
    } else if (c == '.' && !point && i + 1 < text.size() && IsDigit(text[i + 1])) {
      digits += c;
      point = true;
    } else if (c == ',' && any && !point && i + 3 < text.size() && IsDigit(text[i + 1]) && IsDigit(text[i + 2]) &&
               IsDigit(text[i + 3]) && (i + 4 >= text.size() || !IsDigit(text[i + 4]))) {
      continue;
    } else if ((c == 'e' || c == 'E') && any && i + 2 < text.size() && (text[i + 1] == '+' || text[i + 1] == '-') &&
               IsDigit(text[i + 2])) {
      digits += c;
      digits += text[++i];
    } else {
      break;
    }
  }
  if (!any) return std::nullopt;
  const double value = std::strtod(digits.c_str(), nullptr);
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::optional<int64_t> CountAt(std::string_view text) {
  const auto value = NumberAt(text);
  if (!value || *value != std::floor(*value) || std::abs(*value) > 9e15) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::optional<double> NumberAfter(std::string_view line, std::string_view marker) {
  const auto rest = After(line, marker);
  return rest ? NumberAt(*rest) : std::nullopt;
}

std::optional<int64_t> CountAfter(std::string_view line, std::string_view marker) {
  const auto rest = After(line, marker);
  return rest ? CountAt(*rest) : std::nullopt;
}

std::optional<std::string> DumpValue(std::string_view line, std::string_view name) {
  for (size_t from = 0;;) {
    const size_t at = line.find(name, from);
    if (at == std::string_view::npos) return std::nullopt;
    from = at + name.size();
    if (at > 0 && (IsWord(line[at - 1]) || line[at - 1] == '-')) continue;
    std::string_view rest = line.substr(from);
    if (!rest.empty() && (rest[0] == '\'' || rest[0] == '"')) rest.remove_prefix(1);
    if (rest.empty() || (rest[0] != '=' && rest[0] != ':')) continue;
    rest.remove_prefix(1);
    while (!rest.empty() && rest[0] == ' ') rest.remove_prefix(1);
    if (rest.empty()) return std::nullopt;
    if (rest[0] == '\'' || rest[0] == '"') {
      const size_t end = rest.find(rest[0], 1);
      return std::string(rest.substr(1, end == std::string_view::npos ? rest.size() - 1 : end - 1));
    }
    if (rest[0] == '{' || rest[0] == '[') {
      const size_t end = rest.find(rest[0] == '{' ? '}' : ']');
      return std::string(rest.substr(0, end == std::string_view::npos ? rest.size() : end + 1));
    }
    return std::string(rest.substr(0, rest.find_first_of(", })]")));
  }
}

std::vector<std::string> ListAt(std::string_view text) {
  std::vector<std::string> items;
  const auto body = Between(text, "[", "]");
  if (!body) return items;
  std::string item;
  for (const char c : *body) {
    if (c == ',') {
      if (!item.empty()) items.push_back(item);
      item.clear();
    } else if (c != ' ' && c != '\'' && c != '"') {
      item += c;
    }
  }
  if (!item.empty()) items.push_back(item);
  return items;
}

std::string Trimmed(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r");
  if (begin == std::string_view::npos) return "";
  return std::string(text.substr(begin, text.find_last_not_of(" \t\r") - begin + 1));
}

std::string PlainLine(std::string_view line) {
  std::string plain;
  plain.reserve(line.size());
  for (size_t i = 0; i < line.size(); ++i) {
    const auto c = static_cast<unsigned char>(line[i]);
    if (c == 0x1b && i + 1 < line.size() && line[i + 1] == '[') {
      i += 2;
      while (i < line.size() && !std::isalpha(static_cast<unsigned char>(line[i]))) ++i;
    } else if (c == '\t') {
      plain += ' ';
    } else if (c >= 0x20 && c != 0x7f) {
      plain += line[i];
    }
  }
  return plain;
}

LogLine Evidence(int number, std::string_view line) {
  std::string text = Trimmed(line.substr(0, kMaxEvidenceBytes));
  if (line.size() > kMaxEvidenceBytes) text += "...";
  return {number, std::move(text)};
}

std::optional<ErrorLine> PythonError(std::string_view message, const LogLine& line) {
  for (const std::string_view ending : {"Error", "Exception", "Interrupt"}) {
    for (size_t from = 0;;) {
      const size_t at = message.find(ending, from);
      if (at == std::string_view::npos) break;
      from = at + ending.size();
      size_t begin = at;
      while (begin > 0 && (IsWord(message[begin - 1]) || message[begin - 1] == '.')) --begin;
      if (begin == at || (from < message.size() && message[from] != ':')) continue;
      if (begin > 0 && message[begin - 1] != ' ' && message[begin - 1] != '[') continue;
      std::string type(message.substr(begin, from - begin));
      if (const size_t dot = type.rfind('.'); dot != std::string::npos) type = type.substr(dot + 1);
      if (type.empty() || std::isupper(static_cast<unsigned char>(type[0])) == 0) continue;
      std::string words = from < message.size() ? Trimmed(message.substr(from + 1)) : "";
      return ErrorLine{type, words, false, line};
    }
  }
  return std::nullopt;
}

}  // namespace haypile
