#include "tokenizer/nfc.h"

#include <gtest/gtest.h>

#include <sstream>

#include "base/file.h"
#include "base/json.h"

namespace haypile {
namespace {

// 400 random strings of letters, marks, Hangul and singletons; the expected forms are Python's unicodedata's.
TEST(Nfc, AgreesWithAnIndependentImplementation) {
  std::istringstream lines(ReadFile(HAYPILE_TESTDATA_DIR "/nfc.jsonl").value());
  int count = 0;
  for (std::string line; std::getline(lines, line); ++count) {
    const Json json = ParseJson(line).value();
    EXPECT_EQ(NormalizeNfc(json["text"].get<std::string>()), json["nfc"].get<std::string>()) << line;
  }
  EXPECT_EQ(count, 400);
}

TEST(Nfc, LeavesBytesThatAreNotUtf8) {
  EXPECT_EQ(NormalizeNfc(""), "");
  EXPECT_EQ(NormalizeNfc("e\u0301\xFF\u0301"), "\u00E9\xFF\u0301");
  EXPECT_EQ(NormalizeNfc("\xCC"), "\xCC");
}

}  // namespace
}  // namespace haypile
