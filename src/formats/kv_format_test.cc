#include "formats/kv_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>

#include "base/file.h"
#include "formats/row_codec.h"

namespace haypile {
namespace {

TEST(KvFormatTest, TableIsInEnumOrderAndNamesAreFoundAgain) {
  std::set<std::string_view> names;
  for (int i = 0; i < kKvFormatCount; ++i) {
    const KvFormat format = static_cast<KvFormat>(i);
    const KvFormatInfo& info = InfoOf(format);
    EXPECT_EQ(info.format, format);
    EXPECT_EQ(KvFormatByName(info.name), format);
    EXPECT_TRUE(names.insert(info.name).second) << info.name;
    EXPECT_NE(KvFormatNames().find(info.name), std::string::npos);
  }
  EXPECT_EQ(KvFormatByName("fp8"), KvFormat::kFp8E4m3);
  EXPECT_EQ(KvFormatByName("fp9"), std::nullopt);
  EXPECT_EQ(KvFormatByName(""), std::nullopt);
}

TEST(KvFormatTest, LargestElementIsTheLargestFiniteCode) {
  for (const KvFormatInfo& info : AllKvFormats()) {
    double largest = 0;
    for (uint32_t code = 0; code < 1u << info.element_bits; ++code) {
      const double value = ElementValue(info.format, static_cast<uint16_t>(code));
      // The int8 encoders leave -128 out.
      if (std::isfinite(value) && value != -128) largest = std::max(largest, std::abs(value));
    }
    EXPECT_EQ(largest, info.largest_element) << info.name;
  }
}

TEST(KvFormatTest, ScalesPerHeadAndHeadDimsThatFit) {
  EXPECT_EQ(BlockScalesPerHead(InfoOf(KvFormat::kBf16), 128), 0);
  EXPECT_EQ(BlockScalesPerHead(InfoOf(KvFormat::kFp8E4m3), 128), 0);
  EXPECT_EQ(BlockScalesPerHead(InfoOf(KvFormat::kNvfp4), 80), 5);
  EXPECT_EQ(BlockScalesPerHead(InfoOf(KvFormat::kQ8_0), 96), 3);
  EXPECT_EQ(BlockScalesPerHead(InfoOf(KvFormat::kInt8PerTokenHead), 256), 1);
  EXPECT_TRUE(FitsHeadDim(InfoOf(KvFormat::kNvfp4), 80));
  EXPECT_FALSE(FitsHeadDim(InfoOf(KvFormat::kMxfp4), 80));
  EXPECT_FALSE(FitsHeadDim(InfoOf(KvFormat::kBf16), 72));
  EXPECT_FALSE(FitsHeadDim(InfoOf(KvFormat::kBf16), 0));
  EXPECT_FALSE(FitsHeadDim(InfoOf(KvFormat::kBf16), -16));
}

TEST(KvFormatTest, EveryFormatHasItsPageAndTheIndexNamesIt) {
  const std::string folder = std::string(HAYPILE_SOURCE_DIR) + "/docs/formats/";
  const Result<std::string> index = ReadFile(folder + "README.md");
  ASSERT_TRUE(index.ok());
  for (const KvFormatInfo& info : AllKvFormats()) {
    const std::string page = std::string(info.name) + ".md";
    EXPECT_TRUE(ReadFile(folder + page).ok()) << page;
    EXPECT_NE(index->find("(" + page + ")"), std::string::npos) << page;
  }
}

}  // namespace
}  // namespace haypile
