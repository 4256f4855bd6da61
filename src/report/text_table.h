#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace haypile {

enum class Align { kLeft, kRight };

// What a cell says about its content; each renderer shows it in its own way (colour, weight, nothing).
enum class CellTone { kPlain, kStrong, kFaint, kGood, kBad, kWarn };

struct TableColumn {
  std::string title;
  Align align = Align::kLeft;
  bool wraps = false;  // may be broken at spaces into several lines when the table is too wide
};

struct TableCell {
  TableCell(std::string content) : text(std::move(content)) {}  // NOLINT: implicit by design
  TableCell(const char* content) : text(content) {}             // NOLINT
  TableCell(std::string content, CellTone cell_tone) : text(std::move(content)), tone(cell_tone) {}

  std::string text;  // UTF-8, one line
  CellTone tone = CellTone::kPlain;
};

// A table as data, and as aligned text. Cells may hold anything: control characters, which could drive a terminal,
// are shown as '?'.
class TextTable {
 public:
  explicit TextTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  // As many cells as columns.
  void AddRow(std::vector<TableCell> cells);
  // A thin rule before the next row.
  void AddRule();

  const std::vector<TableColumn>& columns() const { return columns_; }
  const std::vector<std::vector<TableCell>>& rows() const { return rows_; }
  // Whether a rule stands before this row.
  bool HasRule(size_t row) const;
  bool empty() const { return rows_.empty(); }

  // Lines of at most `width` characters where that is possible: first the wrapping columns shrink, then the table is
  // cut into several below each other, each repeating the first column. Every line ends with '\n' and starts with
  // `indent` spaces. `colour` adds ANSI sequences.
  std::string Render(int width, bool colour, int indent = 0) const;

 private:
  std::string RenderColumns(const std::vector<size_t>& chosen, const std::vector<size_t>& widths, bool colour,
                            int indent) const;
  void AppendRow(const std::vector<TableCell>& cells, const std::vector<size_t>& chosen,
                 const std::vector<size_t>& widths, bool colour, int indent, std::string* out) const;

  std::vector<TableColumn> columns_;
  std::vector<std::vector<TableCell>> rows_;
  std::vector<size_t> rules_;  // row indices that a rule precedes
};

// Number of code points: the width of text without wide or combining characters.
size_t DisplayWidth(std::string_view utf8);
// Control characters (C0, DEL, C1) and malformed bytes become '?'.
std::string WithoutControls(std::string_view text);
// Broken at spaces into lines of at most `width` characters; longer words are cut. At least one line.
std::vector<std::string> WrapText(std::string_view text, size_t width);
// With the ANSI sequence of a tone, when `colour`.
std::string Toned(std::string_view text, CellTone tone, bool colour);

}  // namespace haypile
