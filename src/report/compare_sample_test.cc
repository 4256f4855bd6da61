#include "report/compare_sample_test.h"

#include <gtest/gtest.h>

#include "base/file.h"
#include "base/json.h"

namespace haypile {

CompareResult SampleComparison() {
  Result<std::string> text = ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/compare_sample.json");
  Result<Json> json = text.ok() ? ParseJson(*text) : Result<Json>(text.error());
  Result<CompareResult> sample = json.ok() ? CompareResultFromJson(*json) : Result<CompareResult>(json.error());
  EXPECT_TRUE(sample.ok()) << (sample.ok() ? "" : sample.error().message());
  return sample.ok() ? *sample : CompareResult{};
}

TEST(CompareSample, IsWrittenAsItWasRead) {
  const CompareResult sample = SampleComparison();
  const std::string text = *ReadFile(std::string(HAYPILE_TESTDATA_DIR) + "/compare_sample.json");
  EXPECT_EQ(DumpJson(ToJson(sample), 1) + "\n", text);
}

}  // namespace haypile
