#include "base/error_code.h"

#include <gtest/gtest.h>

#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "base/file.h"

namespace haypile {
namespace {

constexpr ErrorCode kAll[] = {
    ErrorCode::kInvalidArgument, ErrorCode::kNotFound,    ErrorCode::kMalformed,
    ErrorCode::kUnsupported,     ErrorCode::kOutOfBudget, ErrorCode::kIo,
    ErrorCode::kNetwork,         ErrorCode::kInterrupted, ErrorCode::kInternal,
};

// The rows "| `name` | exit | HTTP | `type` | ..." of docs/errors.md, by name.
std::map<std::string, std::vector<std::string>> DocumentedRows() {
  std::map<std::string, std::vector<std::string>> rows;
  std::istringstream page(ReadFile(std::string(HAYPILE_SOURCE_DIR) + "/docs/errors.md").value());
  for (std::string line; std::getline(page, line);) {
    if (!line.starts_with("| `")) continue;
    std::vector<std::string> cells;
    std::istringstream row(line.substr(1));
    for (std::string cell; std::getline(row, cell, '|');) {
      std::erase_if(cell, [](char c) { return c == '`' || c == ' '; });
      cells.push_back(cell);
    }
    if (cells.size() >= 4) rows[cells[0]] = cells;
  }
  return rows;
}

TEST(ErrorCode, TheTableIsInOrder) {
  for (const ErrorCode code : kAll) EXPECT_EQ(InfoOf(code).code, code);
}

TEST(ErrorCode, NamesAndExitStatusesAreUnique) {
  std::set<std::string_view> names;
  std::set<int> statuses;
  for (const ErrorCode code : kAll) {
    names.insert(InfoOf(code).name);
    statuses.insert(InfoOf(code).exit_status);
    EXPECT_GT(InfoOf(code).exit_status, 1) << "0 is success, 1 an unnamed failure";
  }
  EXPECT_EQ(names.size(), std::size(kAll));
  EXPECT_EQ(statuses.size(), std::size(kAll));
}

TEST(ErrorCode, DocumentationAgrees) {
  const auto rows = DocumentedRows();
  EXPECT_EQ(rows.size(), std::size(kAll));
  for (const ErrorCode code : kAll) {
    const ErrorCodeInfo& info = InfoOf(code);
    const auto row = rows.find(std::string(info.name));
    ASSERT_NE(row, rows.end()) << info.name << " is not in docs/errors.md";
    EXPECT_EQ(row->second[1], std::to_string(info.exit_status)) << info.name;
    EXPECT_EQ(row->second[2], std::to_string(info.http_status)) << info.name;
    EXPECT_EQ(row->second[3], info.openai_type) << info.name;
  }
}

}  // namespace
}  // namespace haypile
