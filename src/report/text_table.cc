#include "report/text_table.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"

namespace haypile {
namespace {

constexpr size_t kGap = 2;             // spaces between columns
constexpr size_t kNarrowestWrap = 14;  // a wrapping column never shrinks below this

// Bytes of the well-formed UTF-8 sequence at the start of `text`, 0 when it is malformed.
size_t SequenceLength(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  const size_t length = lead < 0x80                   ? 1
                        : lead >= 0xC2 && lead < 0xE0 ? 2
                        : lead >= 0xE0 && lead < 0xF0 ? 3
                        : lead >= 0xF0 && lead < 0xF5 ? 4
                                                      : 0;
  if (length == 0 || length > text.size()) return 0;
  for (size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) return 0;
  }
  return length;
}

std::string Padded(const std::string& text, size_t width, Align align) {
  const size_t used = DisplayWidth(text);
  const std::string pad(width > used ? width - used : 0, ' ');
  return align == Align::kRight ? pad + text : text + pad;
}

void TrimTrailingSpaces(std::string* line) {
  while (!line->empty() && line->back() == ' ') line->pop_back();
}

size_t TotalWidth(const std::vector<size_t>& widths) {
  if (widths.empty()) return 0;
  return std::accumulate(widths.begin(), widths.end(), size_t{0}) + kGap * (widths.size() - 1);
}

}  // namespace

size_t DisplayWidth(std::string_view utf8) {
  return static_cast<size_t>(
      std::count_if(utf8.begin(), utf8.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::string WithoutControls(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size();) {
    const size_t length = SequenceLength(text.substr(i));
    const auto lead = static_cast<unsigned char>(text[i]);
    const bool c1 = length == 2 && lead == 0xC2 && static_cast<unsigned char>(text[i + 1]) < 0xA0;
    if (length == 0 || lead < 0x20 || lead == 0x7F || c1) {
      clean += '?';
    } else {
      clean += text.substr(i, length);
    }
    i += std::max<size_t>(length, 1);
  }
  return clean;
}

std::vector<std::string> WrapText(std::string_view text, size_t width) {
  width = std::max<size_t>(width, 1);
  std::vector<std::string> lines(1);
  size_t used = 0;
  for (size_t start = 0; start < text.size();) {
    const size_t end = std::min(text.find(' ', start), text.size());
    std::string_view word = text.substr(start, end - start);
    start = end + 1;
    if (word.empty()) continue;
    if (used > 0 && used + 1 + DisplayWidth(word) > width) {
      lines.emplace_back();
      used = 0;
    }
    if (used > 0) {
      lines.back() += ' ';
      ++used;
    }
    while (!word.empty()) {
      if (used == width) {
        lines.emplace_back();
        used = 0;
      }
      const size_t length = std::max<size_t>(SequenceLength(word), 1);
      lines.back() += word.substr(0, length);
      word.remove_prefix(length);
      ++used;
    }
  }
  return lines;
}

std::string Toned(std::string_view text, CellTone tone, bool colour) {
  if (!colour || text.empty()) return std::string(text);
  const char* sequence = "";
  switch (tone) {
    case CellTone::kPlain:
      return std::string(text);
    case CellTone::kStrong:
      sequence = "\x1b[1m";
      break;
    case CellTone::kFaint:
      sequence = "\x1b[2m";
      break;
    case CellTone::kGood:
      sequence = "\x1b[32m";
      break;
    case CellTone::kBad:
      sequence = "\x1b[31m";
      break;
    case CellTone::kWarn:
      sequence = "\x1b[33m";
      break;
  }
  return sequence + std::string(text) + "\x1b[0m";
}

void TextTable::AddRow(std::vector<TableCell> cells) {
  HAYPILE_CHECK_EQ(cells.size(), columns_.size());
  for (TableCell& cell : cells) cell.text = WithoutControls(cell.text);
  rows_.push_back(std::move(cells));
}

void TextTable::AddRule() { rules_.push_back(rows_.size()); }

bool TextTable::HasRule(size_t row) const { return std::find(rules_.begin(), rules_.end(), row) != rules_.end(); }

std::string TextTable::Render(int width, bool colour, int indent) const {
  std::vector<size_t> widths;
  for (size_t c = 0; c < columns_.size(); ++c) {
    size_t widest = DisplayWidth(columns_[c].title);
    for (const auto& row : rows_) widest = std::max(widest, DisplayWidth(row[c].text));
    widths.push_back(widest);
  }
  const size_t available = static_cast<size_t>(std::max(width - indent, 1));
  // The widest wrapping column gives way first.
  while (TotalWidth(widths) > available) {
    size_t widest = columns_.size();
    for (size_t c = 0; c < columns_.size(); ++c) {
      const size_t least = std::max(kNarrowestWrap, DisplayWidth(columns_[c].title));
      if (!columns_[c].wraps || widths[c] <= least) continue;
      if (widest == columns_.size() || widths[c] > widths[widest]) widest = c;
    }
    if (widest == columns_.size()) break;
    --widths[widest];
  }

  std::string out;
  for (size_t next = 1; next < columns_.size() || out.empty();) {
    std::vector<size_t> chosen{0};
    std::vector<size_t> chosen_widths{widths[0]};
    while (next < columns_.size()) {
      chosen_widths.push_back(widths[next]);
      if (chosen.size() > 1 && TotalWidth(chosen_widths) > available) {
        chosen_widths.pop_back();
        break;
      }
      chosen.push_back(next++);
    }
    if (!out.empty()) out += '\n';
    out += RenderColumns(chosen, chosen_widths, colour, indent);
  }
  return out;
}

std::string TextTable::RenderColumns(const std::vector<size_t>& chosen, const std::vector<size_t>& widths, bool colour,
                                     int indent) const {
  std::string out;
  std::vector<TableCell> titles;
  for (const TableColumn& column : columns_) titles.emplace_back(column.title, CellTone::kFaint);
  AppendRow(titles, chosen, widths, colour, indent, &out);
  for (size_t r = 0; r < rows_.size(); ++r) {
    if (HasRule(r)) {
      std::string rule;
      for (size_t i = 0; i < TotalWidth(widths); ++i) rule += "─";
      out += std::string(static_cast<size_t>(indent), ' ') + Toned(rule, CellTone::kFaint, colour) + '\n';
    }
    AppendRow(rows_[r], chosen, widths, colour, indent, &out);
  }
  return out;
}

void TextTable::AppendRow(const std::vector<TableCell>& cells, const std::vector<size_t>& chosen,
                          const std::vector<size_t>& widths, bool colour, int indent, std::string* out) const {
  std::vector<std::vector<std::string>> lines;
  size_t height = 1;
  for (size_t i = 0; i < chosen.size(); ++i) {
    lines.push_back(WrapText(cells[chosen[i]].text, widths[i]));
    height = std::max(height, lines.back().size());
  }
  for (size_t line = 0; line < height; ++line) {
    std::string text(static_cast<size_t>(indent), ' ');
    for (size_t i = 0; i < chosen.size(); ++i) {
      const std::string content = line < lines[i].size() ? lines[i][line] : "";
      const std::string padded = Padded(content, widths[i], columns_[chosen[i]].align);
      const bool last = i + 1 == chosen.size();
      std::string shown = padded;
      if (last) TrimTrailingSpaces(&shown);
      text += Toned(shown, cells[chosen[i]].tone, colour) + (last ? "" : std::string(kGap, ' '));
    }
    TrimTrailingSpaces(&text);
    *out += text + '\n';
  }
}

}  // namespace haypile
