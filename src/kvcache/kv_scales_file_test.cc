#include "kvcache/kv_scales_file.h"

#include <gtest/gtest.h>

#include "base/file.h"

namespace haypile {
namespace {

Result<KvScales> Read(const std::string& text) {
  const std::string path = testing::TempDir() + "haypile_scales.json";
  EXPECT_TRUE(WriteFileAtomic(path, text).ok());
  return ReadKvScales(path, 2, 3);
}

TEST(KvScalesFile, OneNumberALayerOrAHead) {
  const auto scales = Read(R"({"schema": "haypile.kv_scales/1", "k": 0.5, "v": [2, [1, 2, 3]]})").value();
  EXPECT_EQ(scales.k, (std::vector<std::vector<float>>{{0.5, 0.5, 0.5}, {0.5, 0.5, 0.5}}));
  EXPECT_EQ(scales.v, (std::vector<std::vector<float>>{{2, 2, 2}, {1, 2, 3}}));
}

TEST(KvScalesFile, BadEntriesAreNamed) {
  const std::string head = R"({"schema": "haypile.kv_scales/1", )";
  const std::pair<std::string, std::string> cases[] = {
      {"{", "byte"},
      {"[]", "schema"},
      {R"({"schema": "other", "k": 1, "v": 1})", "haypile.kv_scales/1"},
      {head + R"("k": 1})", "'v' is missing"},
      {head + R"("k": 0, "v": 1})", "above zero"},
      {head + R"("k": -1, "v": 1})", "above zero"},
      {head + R"("k": [1], "v": 1})", "1 entries for 2 layers"},
      {head + R"("k": [1, [1, 2]], "v": 1})", "k[1]: 2 scales for 3 KV heads"},
      {head + R"("k": [1, "a"], "v": 1})", "k[1]: expected a number"},
      {head + R"("k": 1e99, "v": 1})", "2^100"},
  };
  for (const auto& [text, expected] : cases) {
    const auto result = Read(text);
    ASSERT_FALSE(result.ok()) << text;
    EXPECT_NE(result.error().message().find(expected), std::string::npos) << result.error().message();
  }
  EXPECT_EQ(ReadKvScales("/no/such/file", 2, 3).error().code(), ErrorCode::kNotFound);
}

}  // namespace
}  // namespace haypile
